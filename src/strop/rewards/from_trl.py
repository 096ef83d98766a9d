"""Reward functions written for TRL, as they are."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from strop.core.errors import RewardError
from strop.core.types import Message, Rollout, Task


@dataclass(frozen=True)
class FromTrl:
    """A group reward that calls `fn(prompts=..., completions=..., **columns)` as TRL does.

    Prompts and completions are conversations, with `plain` their text alone, as TRL gives them for prompts that are
    text; a completion holds every turn and what the environment replied. The columns are the task's `data`, and
    `answer`, `solution` and `ground_truth` its reference. None means that the reward does not apply to that row.
    """

    fn: Callable[..., Any]
    plain: bool = False

    def __call__(self, rollouts: Sequence[Rollout], task: Task) -> list[float | None]:
        count = len(rollouts)
        columns: dict[str, Any] = {"answer": task.reference, "solution": task.reference, "ground_truth": task.reference}
        columns |= dict(task.data)
        arguments = {name: [value] * count for name, value in columns.items()} | {
            "prompts": [self._form(task.prompt) for _ in rollouts],
            "completions": [self._form(_said(rollout)) for rollout in rollouts],
            "completion_ids": [_sampled_ids(rollout) for rollout in rollouts],
        }
        values = self.fn(**arguments)
        if inspect.iscoroutine(values):
            values = asyncio.run(values)
        if not isinstance(values, (list, tuple)) or len(values) != count:
            raise RewardError(f"task {task.id}: {self.fn} must return a list of {count} rewards, as TRL asks")
        return list(values)

    def _form(self, messages: Sequence[Message]) -> str | list[dict[str, str]]:
        if self.plain:
            return "\n\n".join(message.content for message in messages)
        return [{"role": message.role, "content": message.content} for message in messages]


def _said(rollout: Rollout) -> list[Message]:
    return [message for turn in rollout.turns for message in (turn.message, *turn.replies)]


def _sampled_ids(rollout: Rollout) -> list[int]:
    return [token for turn in rollout.turns for token in turn.completion.token_ids.tolist()]


def from_trl(fn: Callable[..., Any], *, plain: bool = False) -> FromTrl:
    """Wrap a TRL reward function; give the result to `rewards=[...]`. `plain` where it expects text."""
    return FromTrl(fn, plain)
