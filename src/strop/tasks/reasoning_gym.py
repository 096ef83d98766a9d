"""Every generator of reasoning_gym as a task source, and their scorers made safe. Needs the extra `reasoning-gym`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any, Literal

from strop.core.errors import ConfigError
from strop.core.types import Message, Task

INSTRUCTION = "End with a line: Answer: <answer>"
HELD_OUT_SEED = 1 << 20  # training seeds stay below it


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
    """`size` items of one generator at a curriculum level (0: its defaults). An invalid level clamps to a valid one.

    Held-out items come from other seeds, and one whose question a training item of the same size has is left out.
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
        if not 0 <= self.seed < HELD_OUT_SEED:
            raise ConfigError(f"seed must be from 0 to {HELD_OUT_SEED - 1}, got {self.seed}")
        train = self._draw(self.seed)
        if self.split == "train":
            items = train
        else:
            taken = {item["question"] for item in train}
            items = [item for item in self._draw(HELD_OUT_SEED + self.seed) if item["question"] not in taken]
        object.__setattr__(self, "_items", tuple(items))

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Task:
        item = self._items[index]
        question, answer = item["question"], item["answer"]
        data: dict[str, Any] = {"generator": self.generator, "item": item}
        if answer is not None:
            data["response"] = f"Answer: {' '.join(str(answer).split())}"  # grids too: an answer is one line
        return Task(
            id=f"{self.generator}-{blake2b(question.encode(), digest_size=8).hexdigest()}",
            domain=self.domain,
            prompt=(Message(role="user", content=f"{question}\n{INSTRUCTION}"),),
            reference=answer,
            level=self.level,
            data=data,
        )

    def _draw(self, seed: int) -> list[dict[str, Any]]:
        library = _library()
        for level in range(self.level, -1, -1):
            try:
                settings = {**level_settings(self.generator, level), **self.params}
                dataset = library.create_dataset(self.generator, size=self.size, seed=seed, **settings)
                return list({(item := dataset[i])["question"]: item for i in range(self.size)}.values())
            except (AssertionError, ValueError):
                if level == 0:
                    raise
        raise AssertionError("level 0 always returns or raises")


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
