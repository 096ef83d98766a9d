"""What a generator returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from strop.core.types import JSON


@dataclass(frozen=True, slots=True)
class Problem:
    """A question with one short answer."""

    question: str
    answer: str

    @property
    def key(self) -> str:
        """What the problem's split follows from."""
        return self.question


@dataclass(frozen=True, slots=True)
class PromptProblem:
    """A prompt whose answers are checked against `reference` by a rule; `response` is one that passes.

    `about` says what is asked apart from the wording, where there are several.
    """

    question: str
    response: str
    reference: Mapping[str, JSON]
    system: str = ""
    about: str = ""

    @property
    def key(self) -> str:
        return self.about or self.question


Generator = Callable[[Random, int], Problem]
PromptGenerator = Callable[[Random, int], PromptProblem]
