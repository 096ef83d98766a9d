"""Hidden numbers for the guessing game."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from strop.core.seeds import derive_seed
from strop.core.types import Message, Task
from strop.tasks.levels import check_level, nearest_level

TOP = (8, 16, 32, 64, 128)  # the largest number of each level


@dataclass(frozen=True)
class GuessTasks:
    """Numbers from 1 to the level's top, in worlds of their own: every task has its own story number.

    Even story numbers are training tasks and odd ones are held out.
    """

    domain: str
    level: int = 1
    split: Literal["train", "held_out"] = "train"
    size: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        check_level(self.level, self.levels)

    @property
    def levels(self) -> tuple[int, ...]:
        return tuple(range(1, len(TOP) + 1))

    def at_level(self, level: int) -> GuessTasks:
        return replace(self, level=nearest_level(level, self.levels))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Task:
        if not 0 <= index < self.size:
            raise IndexError(index)
        top = TOP[self.level - 1]
        story = 2 * index + (self.split == "held_out")
        hidden = Random(derive_seed(self.seed, "guess", self.level, story)).randrange(1, top + 1)
        question = f"Game {story}: I hide a number from 1 to {top}. Guess it. Reply with only: Answer: <number>"
        return Task(
            id=f"guess-{self.level}-{self.seed}-{story}",
            domain=self.domain,
            prompt=(Message(role="user", content=question),),
            reference=hidden,
            level=self.level,
            data={"response": f"Answer: {(top + 1) // 2}"},
        )
