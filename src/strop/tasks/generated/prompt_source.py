"""Generated prompts as a task source whose answers are checked by a rule, not by equality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from strop.core.seeds import derive_seed
from strop.core.types import Message, Task
from strop.tasks.generated import instructions, safety
from strop.tasks.generated.problem import PromptGenerator, PromptProblem
from strop.tasks.generated.source import LEVELS, check_generator, distinct_problems, question_hash
from strop.tasks.levels import check_level, nearest_level


def _named(*generators: PromptGenerator) -> dict[str, PromptGenerator]:
    return {generator.__name__: generator for generator in generators}


INSTRUCTION_GENERATORS: Mapping[str, PromptGenerator] = _named(
    instructions.exact_words,
    instructions.bullet_points,
    instructions.numbered_list,
    instructions.own_lines,
    instructions.json_list,
    instructions.separated,
    instructions.bracketed,
    instructions.tagged,
    instructions.without_letter,
    instructions.with_letter,
    instructions.leave_out,
    instructions.start_and_end,
    instructions.closing_line,
    instructions.lower_case,
    instructions.upper_case,
    instructions.capitals_first,
    instructions.repeat_word,
    instructions.json_object,
    instructions.key_value_lines,
    instructions.markdown_table,
    instructions.full_sentence,
)
SAFETY_GENERATORS: Mapping[str, PromptGenerator] = _named(
    safety.harmful_requests,
    safety.over_refusal,
    safety.private_records,
    safety.kept_secrets,
)
PROMPT_GENERATORS: Mapping[str, PromptGenerator] = {**INSTRUCTION_GENERATORS, **SAFETY_GENERATORS}


@dataclass(frozen=True)
class GeneratedPrompts:
    """`size` distinct prompts of one generator, fewer where its level has no more.

    Rewards `instruction` and `safety` check answers against the reference. A prompt belongs to the split that the hash
    of what it asks names, whatever its wording and the seed. `data["response"]` is an answer that passes, as an SFT
    stage teaches it.
    """

    generator: str
    domain: str
    level: int = 1
    split: Literal["train", "held_out"] = "train"
    size: int = 2000
    seed: int = 0
    _problems: tuple[PromptProblem, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_generator(self.generator, PROMPT_GENERATORS, "prompt generator")
        check_level(self.level, self.levels)
        generate = PROMPT_GENERATORS[self.generator]
        draw = Random(derive_seed(self.seed, self.generator, self.level, self.split))
        found = distinct_problems(lambda: generate(draw, self.level), self.size, self.split)
        object.__setattr__(self, "_problems", tuple(found))

    @property
    def levels(self) -> tuple[int, ...]:
        return LEVELS

    def at_level(self, level: int) -> GeneratedPrompts:
        return replace(self, level=nearest_level(level, self.levels))

    def __len__(self) -> int:
        return len(self._problems)

    def __getitem__(self, index: int) -> Task:
        problem = self._problems[index]
        system = (Message(role="system", content=problem.system),) if problem.system else ()
        return Task(
            id=f"{self.generator}-{question_hash(problem.system + problem.question)}",
            domain=self.domain,
            prompt=(*system, Message(role="user", content=problem.question)),
            reference=problem.reference,
            level=self.level,
            data={"response": problem.response},
        )
