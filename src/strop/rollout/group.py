"""Rolling out all attempts at one task: independent episodes, a deadline, and the environment's border."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from strop.core.errors import StropError, describe_error
from strop.core.protocols import Domain, Environment, Renderer, Sampler
from strop.core.types import JSON, Rollout, RolloutGroup, SamplingParams, Task
from strop.rollout.episode import TokenEpisode


@dataclass(frozen=True, kw_only=True)
class Roller:
    """Runs episodes of any domain with one sampler and one renderer. `seed` is the run's."""

    sampler: Sampler
    renderer: Renderer
    seed: int

    async def group(
        self, domain: Domain, task: Task, *, ticket: int, attempt: int, size: int, deadline_s: float | None = None
    ) -> RolloutGroup:
        """`size` independent rollouts. Those unfinished after `deadline_s` are kept as truncated."""
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(
                    self.rollout(domain, task, domain.sampling, (self.seed, ticket, index), index, deadline_s)
                )
                for index in range(size)
            ]
        return RolloutGroup(ticket=ticket, attempt=attempt, task=task, rollouts=tuple(t.result() for t in running))

    async def rollout(
        self,
        domain: Domain,
        task: Task,
        params: SamplingParams,
        seed_path: tuple[int | str, ...],
        index: int,
        deadline_s: float | None = None,
    ) -> Rollout:
        """One attempt. An environment that raises makes an infra error, which is never trained on."""
        try:
            environment = domain.environment()
        except StropError:
            raise
        except Exception as error:  # the environment's border, here and below
            return Rollout(task_id=task.id, index=index, turns=(), status="infra_error", error=describe_error(error))
        episode = TokenEpisode(
            task=task,
            environment=environment,
            sampler=self.sampler,
            renderer=self.renderer,
            params=params,
            seed_path=seed_path,
            max_turns=domain.max_turns,
            max_rollout_tokens=domain.max_rollout_tokens,
        )
        started_s = time.monotonic()
        limit = asyncio.timeout(deadline_s)
        evidence: Mapping[str, JSON] = {}
        try:
            async with limit:
                await episode.start()
                done = False
                while not done:
                    await episode.sample()
                    done = await episode.step()
        except StropError:
            raise
        except Exception as error:  # whatever it raises is not the policy's fault, a timeout of its own included
            broken = ("infra_error", describe_error(error))
            episode.status, episode.error = ("truncated", "deadline") if limit.expired() else broken
        finally:
            evidence = await _close(environment, episode)
        return episode.rollout(index, evidence, started_s)


async def _close(environment: Environment, episode: TokenEpisode) -> Mapping[str, JSON]:
    """The evidence. Without it nothing can be scored, so an environment that fails here makes an infra error too."""
    try:
        return await environment.close()
    except StropError:
        raise
    except Exception as error:
        if episode.status != "infra_error":
            episode.status, episode.error = "infra_error", f"close: {describe_error(error)}"
        return {}
