"""Every domain that works out of the box, in one place: its name, where its tasks come from, and what rewards them.

Levels are not counted as domains. docs/tasks.md is made from this list, and recipes/hundreds trains on all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strop.core.types import JSON
from strop.tasks.generated.catalogue import GROUPS
from strop.tasks.generated.code_source import CODE_GENERATORS
from strop.tasks.generated.prompt_source import INSTRUCTION_GENERATORS, SAFETY_GENERATORS
from strop.tasks.reasoning_gym_domains import ASKS, LONG, MANY_ANSWERS, SLOWER

SIZE = 400  # tasks of a domain and split, so that hundreds are made in seconds
GYM_SIZE, SLOWER_GYM_SIZE = 100, 24
GYM = "reasoning_gym"


@dataclass(frozen=True, kw_only=True)
class DomainEntry:
    """One domain. `use` and `params` are its task source, as a recipe names it; `rewards` hold its signal.

    `max_tokens` is room for its answers in words of most tokenizers. `sandbox` says that its reward runs programs.
    """

    name: str
    group: str
    use: str
    params: Mapping[str, JSON]
    rewards: tuple[Mapping[str, Any], ...]
    max_tokens: int = 32
    environment: str = "single_turn"
    max_turns: int = 1
    sandbox: bool = False

    @property
    def own(self) -> bool:
        """Whether it needs no package beside this one."""
        return self.use != GYM

    def section(self) -> dict[str, Any]:
        """What a recipe says of it under `[[domains]]`."""
        said: dict[str, Any] = {
            "name": self.name,
            "tasks": {"use": self.use, "params": dict(self.params)},
            "rewards": [dict(reward) for reward in self.rewards],
            "sampling": {"max_tokens": self.max_tokens},
        }
        if self.environment != "single_turn":
            said |= {"environment": {"use": self.environment}, "max_turns": self.max_turns}
        return said | ({"optional": True} if self.sandbox else {})


def all_domains(*, reasoning_gym: bool = True) -> tuple[DomainEntry, ...]:
    """Our own, then with `reasoning_gym` those of that library, which is an extra. Names are distinct."""
    return (*own_domains(), *(reasoning_gym_domains() if reasoning_gym else ()))


def own_domains() -> Iterator[DomainEntry]:
    for group, generators in GROUPS.items():
        for name in generators:
            yield _entry(name, group, "generated", "exact")
    for name in INSTRUCTION_GENERATORS:
        yield _entry(name, "instructions", "generated_prompts", "instruction", max_tokens=96)
    for name in SAFETY_GENERATORS:
        yield _entry(name, "safety", "generated_prompts", "safety")
    yield DomainEntry(
        name="summaries",
        group="summaries",
        use="summaries",
        params={"size": SIZE},
        rewards=_accuracy("summary"),
        max_tokens=96,
    )
    for name in CODE_GENERATORS:
        yield _entry(name, "code", "generated_code", "code", max_tokens=64, sandbox=True)
    yield DomainEntry(
        name="function_calls",
        group="function calls",
        use="generated_calls",
        params={"size": SIZE},
        rewards=_accuracy("function_call"),
        max_tokens=64,
        sandbox=True,
    )
    yield DomainEntry(
        name="guess_number",
        group="games",
        use="guess_number",
        params={"size": SIZE},
        rewards=_accuracy("found_number"),
        environment="guess_number",
        max_turns=4,
    )


def reasoning_gym_domains() -> Iterator[DomainEntry]:
    """Usable generators of reasoning_gym. `reasoning_gym_domains.LEFT_OUT` says which are not, and why."""
    for generator in ASKS:
        size = SLOWER_GYM_SIZE if generator in SLOWER else GYM_SIZE
        yield DomainEntry(
            name=f"gym_{generator}",
            group=GYM,
            use=GYM,
            params={"generator": generator, "size": size},
            rewards=_accuracy(GYM, **({"own_scorer": True} if generator in MANY_ANSWERS else {})),
            max_tokens=1024 if generator in LONG else 256,
        )


def _entry(name: str, group: str, use: str, reward: str, **more: Any) -> DomainEntry:
    params: dict[str, JSON] = {"generator": name, "size": SIZE}
    return DomainEntry(name=name, group=group, use=use, params=params, rewards=_accuracy(reward), **more)


def _accuracy(use: str, **params: Any) -> tuple[Mapping[str, Any], ...]:
    return ({"name": "accuracy", "use": use, **({"params": params} if params else {})},)


def recipe_lines(entries: Sequence[DomainEntry]) -> str:
    """The entries as `domains = [...]` of a recipe, one a line."""
    return "domains = [\n" + "".join(f"  {_toml(entry.section())},\n" for entry in entries) + "]\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
