"""Generated problems as a task source whose training and held-out halves cannot meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import blake2b
from random import Random
from typing import Literal, Protocol, TypeVar

from strop.core.seeds import derive_seed
from strop.core.types import Message, Task
from strop.tasks.generated.catalogue import GENERATORS
from strop.tasks.generated.problem import Problem
from strop.tasks.levels import check_level, nearest_level

LEVELS = (1, 2, 3, 4, 5)
INSTRUCTION = "Reply with only: Answer: <answer>"
HELD_OUT_SHARE = 4  # one problem in four is held out, by the hash of its question
MAX_MISSES = 200  # draws without a new problem after which the space counts as exhausted


@dataclass(frozen=True)
class Generated:
    """`size` distinct problems of one generator, fewer where its level has no more.

    A problem belongs to the split that the hash of its question names, whatever the seed, so no seed can put one
    problem into both. `data["response"]` is what an SFT stage teaches.
    """

    generator: str
    domain: str
    level: int = 1
    split: Literal["train", "held_out"] = "train"
    size: int = 2000
    seed: int = 0
    _problems: tuple[Problem, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_generator(self.generator, GENERATORS, "generator")
        check_level(self.level, self.levels)
        object.__setattr__(self, "_problems", tuple(self._draw()))

    @property
    def levels(self) -> tuple[int, ...]:
        return LEVELS

    def at_level(self, level: int) -> Generated:
        return replace(self, level=nearest_level(level, self.levels))

    def __len__(self) -> int:
        return len(self._problems)

    def __getitem__(self, index: int) -> Task:
        problem = self._problems[index]
        return Task(
            id=f"{self.generator}-{question_hash(problem.question)}",
            domain=self.domain,
            prompt=(Message(role="user", content=f"{problem.question} {INSTRUCTION}"),),
            reference=problem.answer,
            level=self.level,
            data={"response": f"Answer: {problem.answer}"},
        )

    def _draw(self) -> list[Problem]:
        generate = GENERATORS[self.generator]
        draw = Random(derive_seed(self.seed, self.generator, self.level, self.split))
        return distinct_problems(lambda: generate(draw, self.level), self.size, self.split)


def check_generator(name: str, known: Iterable[str], what: str) -> None:
    """ValueError, with the near name, where there is none called `name`."""
    names = list(known)
    if name not in names:
        near = get_close_matches(name, names, 1, 0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise ValueError(f"no {what} is called {name!r}; {hint}")


class Drawn(Protocol):
    """Anything with a question; `key` names what the problem asks, apart from its wording."""

    @property
    def question(self) -> str: ...

    @property
    def key(self) -> str: ...


Kind = TypeVar("Kind", bound=Drawn)


def distinct_problems(generate: Callable[[], Kind], size: int, split: str) -> list[Kind]:
    """`size` problems of the split with questions of their own, fewer where no new one turns up."""
    found: dict[str, Kind] = {}
    misses = 0
    while len(found) < size and misses < MAX_MISSES:
        problem = generate()
        identity = f"{problem.key}\n{problem.question}"
        if identity in found or split_of(problem.key) != split:
            misses += 1
            continue
        found[identity] = problem
        misses = 0
    return list(found.values())


def question_hash(question: str) -> str:
    return blake2b(question.encode(), digest_size=8).hexdigest()


def split_of(key: str) -> str:
    """The split a problem belongs to."""
    return "held_out" if int(question_hash(key), 16) % HELD_OUT_SHARE == 0 else "train"
