"""A game of several turns: guess a hidden number, told higher or lower each time."""

from __future__ import annotations

import re
from collections.abc import Mapping

from strop.core.errors import ConfigError
from strop.core.types import JSON, Message, Observation, StepResult, Task

NUMBER = re.compile(r"-?\d+")


class GuessNumber:
    """Ends with the right guess or after `max_guesses` (2 to 6). Evidence: the guesses, and whether it was found."""

    def __init__(self, max_guesses: int = 4) -> None:
        if not 2 <= max_guesses <= 6:
            raise ConfigError(f"max_guesses must be from 2 to 6, got {max_guesses}")
        self.max_guesses = max_guesses
        self._hidden = 0
        self._guesses: list[int | None] = []

    async def start(self, task: Task) -> Observation:
        if not isinstance(task.reference, int):
            raise ConfigError(f"task {task.id}: guess_number needs a whole number as reference")
        self._hidden = task.reference
        return Observation(messages=task.prompt)

    async def step(self, message: Message) -> StepResult:
        found = NUMBER.findall(message.content)
        guess = int(found[-1]) if found else None
        self._guesses.append(guess)
        left = self.max_guesses - len(self._guesses)
        if guess == self._hidden or left == 0:
            return StepResult(done=True)
        hint = "That is no number" if guess is None else ("Higher" if guess < self._hidden else "Lower")
        reply = Message(role="user", content=f"{hint}. {left} left. Reply with only: Answer: <number>")
        return StepResult(replies=(reply,), done=False)

    async def close(self) -> Mapping[str, JSON]:
        return {"guesses": list(self._guesses), "found": self._hidden in self._guesses}

    def fork(self) -> GuessNumber:
        copy = GuessNumber(self.max_guesses)
        copy._hidden, copy._guesses = self._hidden, list(self._guesses)
        return copy
