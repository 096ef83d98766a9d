"""What a generator returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Problem:
    question: str
    answer: str

    @property
    def key(self) -> str:
        """What the problem's split follows from."""
        return self.question


Generator = Callable[[Random, int], Problem]
