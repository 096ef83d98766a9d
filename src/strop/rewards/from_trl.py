"""Reward functions written for TRL, as they are."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from strop.core.errors import RewardError
from strop.core.types import Rollout, Task


@dataclass(frozen=True)
class FromTrl:
    """A group reward that calls `fn(prompts=..., completions=..., **columns)` as TRL does.

    Prompts and completions are conversations; a completion holds every turn and what the environment replied. The
    columns are the task's `data`, and `answer`, `solution` and `ground_truth` its reference. None means that the
    reward does not apply to that row.
    """

    fn: Callable[..., Any]

    def __call__(self, rollouts: Sequence[Rollout], task: Task) -> list[float | None]:
        count = len(rollouts)
        prompt = [{"role": m.role, "content": m.content} for m in task.prompt]
        columns: dict[str, Any] = {"answer": task.reference, "solution": task.reference, "ground_truth": task.reference}
        columns |= dict(task.data)
        arguments = {name: [value] * count for name, value in columns.items()} | {
            "prompts": [prompt] * count,
            "completions": [_conversation(rollout) for rollout in rollouts],
            "completion_ids": [_sampled_ids(rollout) for rollout in rollouts],
        }
        values = self.fn(**arguments)
        if inspect.iscoroutine(values):
            values = asyncio.run(values)
        if not isinstance(values, (list, tuple)) or len(values) != count:
            raise RewardError(f"task {task.id}: {self.fn} must return a list of {count} rewards, as TRL asks")
        return list(values)


def _conversation(rollout: Rollout) -> list[dict[str, str]]:
    messages = [message for turn in rollout.turns for message in (turn.message, *turn.replies)]
    return [{"role": message.role, "content": message.content} for message in messages]


def _sampled_ids(rollout: Rollout) -> list[int]:
    return [token for turn in rollout.turns for token in turn.completion.token_ids.tolist()]


def from_trl(fn: Callable[..., Any]) -> FromTrl:
    """Wrap a TRL reward function; give the result to `rewards=[...]`."""
    return FromTrl(fn)
