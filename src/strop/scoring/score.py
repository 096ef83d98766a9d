"""From rollouts to scored rollouts. A missing reward is never a zero."""

from __future__ import annotations

import asyncio
import inspect
import numbers
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from strop.core.errors import RewardError, brief, describe_error
from strop.core.protocols import Domain, NamedReward
from strop.core.types import JSON, LARGEST_SCORE, Reward, Rollout, RolloutGroup, Score, Task

MAX_TRIES = 2


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """Scores groups with the rewards of their domain.

    Reward functions run in threads, so that a slow one never stops sampling; an async one is awaited. A function that
    raises or overruns its `timeout_s` (counted from its start, not from the queue) is tried again, then its score is
    `infra`: the rollout leaves its group and the baseline. One that returns something else than a number, a Score or
    None ends the run, since no retry can mend it. A call that never returns keeps its thread and nobody's turn.
    """

    num_threads: int = 8
    _turns: asyncio.Semaphore = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_turns", asyncio.Semaphore(self.num_threads))

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
        outcome = await self._call(reward, members, task)
        if isinstance(outcome, Score):
            return [outcome] * len(members)
        if not isinstance(outcome, Sequence) or isinstance(outcome, str) or len(outcome) != len(members):
            raise RewardError(
                f"reward {reward.name!r}, task {task.id}: a group reward must return one score for each of "
                f"{len(members)} rollouts, got {_typed(outcome)}"
            )
        return [as_score(value, reward, task) for value in outcome]

    async def _one(self, reward: NamedReward, rollout: Rollout, task: Task) -> Score:
        return as_score(await self._call(reward, rollout, task), reward, task)

    async def _call(self, reward: NamedReward, given: Rollout | Sequence[Rollout], task: Task) -> Any:
        """What the reward's function returns for values of its own: what it does to them, no other sees."""
        detail = ""
        for _ in range(MAX_TRIES):
            limit = asyncio.timeout(None)
            try:
                async with self._turns:
                    limit = asyncio.timeout(reward.timeout_s)
                    async with limit:
                        outcome = await in_thread(reward.fn, (_own(given), _own_task(task)))
                if inspect.isawaitable(outcome):  # others may have the thread meanwhile
                    limit = asyncio.timeout_at(limit.when())
                    async with limit:
                        return await outcome
                return outcome
            except RewardError:
                raise
            except Exception as error:  # the reward's border
                late = limit.expired()
                detail = f"no answer in {reward.timeout_s} s" if late else describe_error(error)
        return Score(value=None, outcome="infra", detail=detail, version=reward.version)


def _own(given: Rollout | Sequence[Rollout]) -> Rollout | tuple[Rollout, ...]:
    if isinstance(given, Rollout):
        return replace(given, evidence=plain_copy(given.evidence))
    return tuple(replace(rollout, evidence=plain_copy(rollout.evidence)) for rollout in given)


def _own_task(task: Task) -> Task:
    return replace(task, reference=plain_copy(task.reference), data=plain_copy(task.data))


def plain_copy(value: JSON) -> JSON:
    """A copy of nested lists and mappings that shares none of them with `value`."""
    if isinstance(value, Mapping):
        return {key: plain_copy(content) for key, content in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(plain_copy, value))
    return value


async def in_thread(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """`fn(*args)` in a thread of its own, which neither a cancelled caller nor the end of the process waits for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Callable[[], Any]] = loop.create_future()

    def run() -> None:
        answer = _outcome(fn, args)
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: done.done() or done.set_result(answer))

    threading.Thread(target=run, name="reward", daemon=True).start()
    return (await done)()


def _outcome(fn: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], Any]:
    """Call `fn` and say later what it returned or raised; an exit is an error of it, not of the run."""
    try:
        value = fn(*args)
    except Exception as error:
        return partial(_raise, error)
    except BaseException as error:
        return partial(_raise, RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__))
    return lambda: value


def _raise(error: Exception) -> None:
    raise error


def as_score(value: Any, reward: NamedReward, task: Task) -> Score:
    """What a reward function returned, as a Score; RewardError for what is neither number, Score nor None."""
    if isinstance(value, Score):
        return value if value.version else replace(value, version=reward.version)
    if value is None:
        return Score(value=None, outcome="not_applicable", version=reward.version)
    if isinstance(value, np.bool_):
        value = bool(value)
    if not isinstance(value, numbers.Real):
        raise RewardError(
            f"reward {reward.name!r}, task {task.id}: returned {_typed(value)}; return a number, a Score or None"
        )
    if not -LARGEST_SCORE <= value <= LARGEST_SCORE:
        raise RewardError(
            f"reward {reward.name!r}, task {task.id}: returned {_typed(value)}; return a finite number of at "
            f"most {LARGEST_SCORE:g}, or None to leave it out"
        )
    return Score(value=float(value), version=reward.version)


def compose(rewards: Sequence[NamedReward], scores: Sequence[Score]) -> Reward:
    """Named scores with their weights. A score whose gate, after its own gate, is not above 0 counts 0.

    Where the gate failed for infrastructure nobody knows, so the gated score is left out instead.
    """
    named = {reward.name: score for reward, score in zip(rewards, scores, strict=True)}
    gates = {reward.name: reward.gate for reward in rewards}
    gated = {name: _gated(name, named, gates) for name in named}
    return Reward(scores=gated, weights={reward.name: reward.weight for reward in rewards})


def _gated(name: str, scores: Mapping[str, Score], gates: Mapping[str, str | None]) -> Score:
    gate, score = gates[name], scores[name]
    if gate is None or score.value is None:
        return score
    above = gate
    while above is not None:
        if scores[above].outcome == "infra":
            return replace(score, value=None, outcome="not_applicable", detail=f"unknown, as its gate {above} failed")
        above = gates[above]
    opened = _gated(gate, scores, gates).value
    return score if opened is not None and opened > 0 else replace(score, value=0.0, detail=f"gated by {gate}")


def _typed(value: Any) -> str:
    return f"{type(value).__name__} {brief(value)}"
