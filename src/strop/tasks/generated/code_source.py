"""Generated coding problems as a task source. Their answers are programs, graded by hidden cases in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from strop.core.problems import problem_to_json
from strop.core.programs import Call, FunctionCase, Limits, Problem
from strop.core.seeds import derive_seed
from strop.core.types import JSON, Message, Task
from strop.tasks.generated.code import Case, CodeGenerator, CodeProblem, complete_function, fix_expression
from strop.tasks.generated.source import LEVELS, check_generator, distinct_problems, question_hash
from strop.tasks.levels import check_level, nearest_level

CODE_GENERATORS: Mapping[str, CodeGenerator] = {
    "complete_function": complete_function,
    "fix_expression": fix_expression,
}
INSTRUCTION = "Reply with only the code in a ```python block."
LIMITS = Limits(cpu_s=2.0, memory_bytes=256 << 20)  # a line of arithmetic needs no more


@dataclass(frozen=True)
class GeneratedCode:
    """`size` distinct coding problems of one generator, fewer where its level has no more.

    The reference is a problem of three hidden cases (core/problems.py); with `public`, `data["public"]` is one of two
    others, as environments/execute_verify_correct.py runs. A problem's split follows from the hash of its function, so
    no wording, name, seed or level puts one function into both. `data["response"]` is what an SFT stage teaches.
    """

    generator: str
    domain: str
    level: int = 1
    split: Literal["train", "held_out"] = "train"
    size: int = 1000
    seed: int = 0
    public: bool = False
    _problems: tuple[CodeProblem, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_generator(self.generator, CODE_GENERATORS, "code generator")
        check_level(self.level, self.levels)
        generate = CODE_GENERATORS[self.generator]
        draw = Random(derive_seed(self.seed, self.generator, self.level, self.split))
        found = distinct_problems(lambda: generate(draw, self.level), self.size, self.split)
        object.__setattr__(self, "_problems", tuple(found))

    @property
    def levels(self) -> tuple[int, ...]:
        return LEVELS

    def at_level(self, level: int) -> GeneratedCode:
        return replace(self, level=nearest_level(level, self.levels))

    def __len__(self) -> int:
        return len(self._problems)

    def __getitem__(self, index: int) -> Task:
        problem = self._problems[index]
        data: dict[str, JSON] = {"response": f"```python\n{problem.answer}\n```"}
        if self.public:
            data["public"] = _graded(problem, problem.public)
        return Task(
            id=f"{self.generator}-{question_hash(problem.question)}",
            domain=self.domain,
            prompt=(Message(role="user", content=f"{problem.question}\n{INSTRUCTION}"),),
            reference=_graded(problem, problem.hidden),
            level=self.level,
            data=data,
        )


def _graded(problem: CodeProblem, cases: Sequence[Case]) -> dict[str, JSON]:
    function_cases = tuple(FunctionCase(call=Call(args=given), expected=value) for given, value in cases)
    return problem_to_json(Problem(entry_point=problem.entry_point, cases=function_cases, limits=LIMITS))
