"""One question, one answer."""

from __future__ import annotations

from collections.abc import Mapping

from strop.core.types import JSON, Message, Observation, StepResult, Task


class SingleTurn:
    """Shows the task's prompt and ends with the first answer."""

    async def start(self, task: Task) -> Observation:
        return Observation(messages=task.prompt, tools=task.tools)

    async def step(self, message: Message) -> StepResult:
        return StepResult(done=True)

    async def close(self) -> Mapping[str, JSON]:
        return {}

    def fork(self) -> SingleTurn:
        return SingleTurn()
