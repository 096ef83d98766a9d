"""What a generator returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Problem:
    question: str
    answer: str


Generator = Callable[[Random, int], Problem]
