"""From rollouts to scored rollouts. A missing reward is never a zero."""

from __future__ import annotations

import asyncio
import inspect
import math
import numbers
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from strop.core.errors import RewardError
from strop.core.protocols import Domain, NamedReward
from strop.core.types import Reward, Rollout, RolloutGroup, Score, Task

MAX_TRIES = 2


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """Scores groups with the rewards of their domain.

    Reward functions run in threads, so that a slow one never stops sampling; an async one is awaited. A function that
    raises or overruns its `timeout_s` (counted from its start, not from the queue) is tried again, then its score is
    `infra`: the rollout leaves its group and the baseline. One that returns something else than a number, a Score or
    None ends the run, since no retry can mend it.
    """

    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, thread_name_prefix="reward"))

    async def group(self, group: RolloutGroup, domain: Domain) -> RolloutGroup:
        """The same group with rewards; rollouts that failed for infrastructure reasons keep none."""
        members = [r for r in group.rollouts if r.status != "infra_error"]
        columns = await asyncio.gather(*(self._column(reward, members, group.task) for reward in domain.rewards))
        rewards = iter(compose(domain.rewards, [column[i] for column in columns]) for i in range(len(members)))
        rollouts = tuple(r if r.status == "infra_error" else replace(r, reward=next(rewards)) for r in group.rollouts)
        return replace(group, rollouts=rollouts)

    async def rollout(self, rollout: Rollout, task: Task, domain: Domain) -> Rollout:
        """One rollout, scored alone."""
        group = RolloutGroup(ticket=0, attempt=0, task=task, rollouts=(rollout,))
        return (await self.group(group, domain)).rollouts[0]

    async def _column(self, reward: NamedReward, members: Sequence[Rollout], task: Task) -> list[Score]:
        if reward.per == "rollout":
            return list(await asyncio.gather(*(self._one(reward, member, task) for member in members)))
        outcome = await self._call(reward, reward.fn, (members, task))
        if isinstance(outcome, Score):
            return [outcome] * len(members)
        if not isinstance(outcome, Sequence) or isinstance(outcome, str) or len(outcome) != len(members):
            raise RewardError(
                f"reward {reward.name!r}, task {task.id}: a group reward must return one score for each of "
                f"{len(members)} rollouts, got {_brief(outcome)}"
            )
        return [as_score(value, reward, task) for value in outcome]

    async def _one(self, reward: NamedReward, rollout: Rollout, task: Task) -> Score:
        return as_score(await self._call(reward, reward.fn, (rollout, task)), reward, task)

    async def _call(self, reward: NamedReward, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        detail = ""
        for _ in range(MAX_TRIES):
            started = asyncio.Event()
            loop = asyncio.get_running_loop()

            def run(started: asyncio.Event = started, loop: asyncio.AbstractEventLoop = loop) -> Any:
                loop.call_soon_threadsafe(started.set)
                return fn(*args)

            call = loop.run_in_executor(self.threads, run)
            await started.wait()
            try:
                async with asyncio.timeout(reward.timeout_s):
                    outcome = await call
                    return await outcome if inspect.isawaitable(outcome) else outcome
            except TimeoutError:
                detail = f"no answer in {reward.timeout_s} s"
            except RewardError:
                raise
            except Exception as error:  # the reward's border
                detail = f"{type(error).__name__}: {error}"
        return Score(value=None, outcome="infra", detail=detail, version=reward.version)


def as_score(value: Any, reward: NamedReward, task: Task) -> Score:
    """What a reward function returned, as a Score; RewardError for what is neither number, Score nor None."""
    if isinstance(value, Score):
        return value if value.version else replace(value, version=reward.version)
    if value is None:
        return Score(value=None, outcome="not_applicable", version=reward.version)
    if not isinstance(value, numbers.Real):
        raise RewardError(
            f"reward {reward.name!r}, task {task.id}: returned {_brief(value)}; return a number, a Score or None"
        )
    if not math.isfinite(value):
        raise RewardError(
            f"reward {reward.name!r}, task {task.id}: returned {value}; return a finite number, or None to leave it out"
        )
    return Score(value=float(value), version=reward.version)


def compose(rewards: Sequence[NamedReward], scores: Sequence[Score]) -> Reward:
    """Named scores with their weights. A score whose gate did not score above 0 counts 0."""
    named = {reward.name: score for reward, score in zip(rewards, scores, strict=True)}
    for reward in rewards:
        score = named[reward.name]
        if reward.gate is None or score.value is None:
            continue
        gate = named[reward.gate]
        if gate.value is None or gate.value <= 0:
            named[reward.name] = replace(score, value=0.0, detail=f"gated by {reward.gate}")
    return Reward(scores=named, weights={reward.name: reward.weight for reward in rewards})


def _brief(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
