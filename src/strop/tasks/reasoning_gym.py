"""Every generator of reasoning_gym as a task source, and their scorers made safe. Needs the extra `reasoning-gym`."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import blake2b
from io import StringIO
from typing import Any, Literal

from strop.core.errors import ConfigError
from strop.core.types import Message, Task
from strop.tasks.levels import check_level, nearest_level

INSTRUCTION = "End with a line: Answer: <answer>"
EXAMPLES = ("possible_answer", "example_answer", "example_correct_answer")  # of items with several right answers
MAX_DRAWS = 3  # for each item wanted: half of them belong to the other split, and some come twice
SPARE_DRAWS = 32  # so that a handful finds theirs


def _library() -> Any:
    try:
        return importlib.import_module("reasoning_gym")
    except ImportError as error:
        hint = "pip install 'strop[reasoning-gym]' (needs a C compiler)"
        raise ConfigError(f"reasoning_gym is not installed: {hint}") from error


def generator_names() -> list[str]:
    """All generators but `composite`, which mixes others."""
    factory = importlib.import_module(f"{_library().__name__}.factory")
    return sorted(set(factory.DATASETS) - {"composite"})


@dataclass(frozen=True)
class ReasoningGym:
    """`size` items of one generator at a curriculum level (0: its defaults), fewer where its level has no more.

    An item belongs to the split that the hash of its question names, whatever the seed and the level. Half of a
    split's draws belong to the other, so that an item costs two. A level whose settings the library refuses is made
    with those of the one below.
    """

    generator: str
    domain: str
    level: int = 0
    split: Literal["train", "held_out"] = "train"
    size: int = 500
    seed: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)
    _items: tuple[dict[str, Any], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = generator_names()
        if self.generator not in names:
            near = get_close_matches(self.generator, names, 1, 0.4)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"reasoning_gym has no {self.generator!r}{hint}")
        check_level(self.level, self.levels)
        object.__setattr__(self, "_items", tuple(self._draw()))

    @property
    def levels(self) -> tuple[int, ...]:
        """0 alone where the library has no curriculum for the generator."""
        factory = importlib.import_module(f"{_library().__name__}.factory")
        if self.generator not in factory.CURRICULA:
            return (0,)
        curriculum = factory.create_curriculum(self.generator)
        steps = [len(a.levels) - 1 - curriculum.get_attr_level(n) for n, a in curriculum.attributes.items()]
        return tuple(range(max(steps, default=0) + 1))

    def at_level(self, level: int) -> ReasoningGym:
        return replace(self, level=nearest_level(level, self.levels))

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Task:
        item = self._items[index]
        question, answer = item["question"], item["answer"]
        data: dict[str, Any] = {"generator": self.generator, "item": item}
        right = answer if answer is not None else _example(item["metadata"])
        if right is not None:
            data["response"] = f"Answer: {' '.join(str(right).split())}"  # grids too: an answer is one line
        return Task(
            id=f"{self.generator}-{_hash(question)}",
            domain=self.domain,
            prompt=(Message(role="user", content=f"{question}\n{INSTRUCTION}"),),
            reference=answer,
            level=self.level,
            data=data,
        )

    def _draw(self) -> list[dict[str, Any]]:
        for level in range(self.level, 0, -1):
            try:
                return self._items_at(level)
            except (AssertionError, ValueError):
                continue
        return self._items_at(0)

    def _items_at(self, level: int) -> list[dict[str, Any]]:
        settings = {**level_settings(self.generator, level), **self.params}
        num_draws = MAX_DRAWS * self.size + SPARE_DRAWS
        dataset = _library().create_dataset(self.generator, size=num_draws, seed=self.seed, **settings)
        found: dict[str, dict[str, Any]] = {}
        with redirect_stdout(StringIO()):  # a generator prints
            for index in range(num_draws):
                if len(found) == self.size or index >= len(dataset):  # one that runs dry grows shorter
                    break
                item = dataset[index]
                if _split_of(item["question"]) == self.split:
                    found.setdefault(item["question"], item)
        return list(found.values())


def level_settings(generator: str, level: int) -> dict[str, Any]:
    """The knobs of a curriculum level; each attribute is raised `level` times, as far as it goes. Level 0: none."""
    factory = importlib.import_module(f"{_library().__name__}.factory")
    if level == 0 or generator not in factory.CURRICULA:
        return {}
    curriculum = factory.create_curriculum(generator)
    for _ in range(level):
        for attribute in curriculum.attributes:
            curriculum.increment_attr_level(attribute)
    config = curriculum.generate_configuration({"seed": 0, "size": 1})
    return {name: value for name, value in vars(config).items() if name not in ("seed", "size")}


def _example(metadata: Mapping[str, Any]) -> str | None:
    """One of several right answers, as the library's function reads it, where the item tells one."""
    told = next((metadata[key] for key in EXAMPLES if key in metadata), None)
    return told if told is None or isinstance(told, str) else json.dumps(told)


def _hash(question: str) -> str:
    return blake2b(question.encode(), digest_size=8).hexdigest()


def _split_of(question: str) -> str:
    return "held_out" if int(_hash(question), 16) % 2 == 0 else "train"
