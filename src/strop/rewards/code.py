"""The reward of programs: what a grader says of the last answer, against the problem in the task's reference."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from statistics import median
from typing import Literal

from strop.core.errors import DataError, RewardError
from strop.core.problems import problem_from_json
from strop.core.programs import Problem, Verdict
from strop.core.protocols import Grader
from strop.core.types import Rollout, Score, Task

LEAST_CPU_S = 1e-3  # below this, times and sizes say more about the machine than about the program
LEAST_BYTES = 1 << 20


@dataclass(frozen=True)
class CodeReward:
    """correctness_weight × correctness + (time_weight × speed + memory_weight × thrift, only where all tests passed).

    Correctness is 1 for all tests passed, else 0; with `score = "fraction"` the share of tests passed, which pays for
    constant answers too. Speed and thrift are r / (r + s) of CPU time and of peak memory, where s is the median over
    `runs` of this answer and r that of `task.data["reference_solution"]` in the same sandbox: 0.5 is on par. An answer
    that does not pass every run is not correct. A failure of the sandbox is `infra`, never 0.
    """

    grader: Grader
    score: Literal["all", "fraction"] = "all"
    correctness_weight: float = 1.0
    time_weight: float = 0.0
    memory_weight: float = 0.0
    runs: int = 3

    def __post_init__(self) -> None:
        if self.score not in ("all", "fraction"):
            raise ValueError(f"score must be 'all' or 'fraction', got {self.score!r}")
        if self.runs < 1:
            raise ValueError(f"runs must be at least 1, got {self.runs}")
        if min(self.correctness_weight, self.time_weight, self.memory_weight) < 0:
            raise ValueError("correctness_weight, time_weight and memory_weight must be at least 0")

    async def __call__(self, rollout: Rollout, task: Task) -> Score:
        problem = _problem(task)
        verdict = await self._grade(problem, rollout.text, task, response=True)
        if verdict.verdict == "infra_error":
            return _infra(verdict)
        correct = self._correctness(verdict)
        if verdict.verdict != "passed" or not (self.time_weight or self.memory_weight):
            return Score(value=self.correctness_weight * correct, detail=describe(verdict))
        return await self._measured(rollout.text, problem, task, verdict)

    async def _grade(self, problem: Problem, source: str, task: Task, *, response: bool) -> Verdict:
        try:
            return await self.grader.grade(problem, source, response=response, every_case=self.score == "fraction")
        except DataError as error:
            raise RewardError(f"task {task.id}: its problem grades nothing: {error}") from error

    def _correctness(self, verdict: Verdict) -> float:
        if self.score == "all" or not verdict.total:
            return float(verdict.verdict == "passed")
        return verdict.passed / verdict.total

    async def _measured(self, text: str, problem: Problem, task: Task, first: Verdict) -> Score:
        reference = task.data.get("reference_solution")
        if not isinstance(reference, str):
            raise RewardError(f"task {task.id}: data has no reference_solution to measure time and memory against")
        own, other = [first], []
        for run in range(self.runs):  # in turn, so that a change of load meets both alike
            other.append(await self._grade(problem, reference, task, response=False))
            if run:
                own.append(await self._grade(problem, text, task, response=True))
        for verdict in (*own, *other):
            if verdict.verdict == "infra_error":
                return _infra(verdict)
        failed = next((verdict for verdict in other if verdict.verdict != "passed"), None)
        if failed is not None:
            raise RewardError(f"task {task.id}: its reference_solution does not pass: {describe(failed)}")
        failed = next((verdict for verdict in own if verdict.verdict != "passed"), None)
        if failed is not None:
            return Score(value=0.0, detail=f"passed once, then {describe(failed)}")
        speed = _ratio([_cpu_s(v) for v in own], [_cpu_s(v) for v in other], LEAST_CPU_S)
        thrift = _ratio([_memory(v) for v in own], [_memory(v) for v in other], LEAST_BYTES)
        value = self.correctness_weight + self.time_weight * speed + self.memory_weight * thrift
        return Score(value=value, detail=f"{describe(first)}; speed {speed:.3f}, thrift {thrift:.3f}")


def describe(verdict: Verdict) -> str:
    """The verdict in one short line, with the first case that did not pass."""
    trust = " (weak: tests ran beside the answer)" if verdict.trust == "weak" else ""
    said = f"{verdict.verdict}, {verdict.passed} of {verdict.total}{trust}"
    failed = next((case for case in verdict.cases if case.verdict != "passed"), None)
    detail = f"{failed.name}: {failed.verdict} {failed.detail}" if failed is not None else verdict.detail
    return f"{said}; {' '.join(detail.split())[:200]}" if detail.strip() else said


@dataclass(frozen=True)
class HasCode:
    """1 when the answer holds a fenced block of Python that compiles, whatever it does. Pays the form only, as
    `has_answer` does for other domains: give it weight 0, or a small one.
    """

    def __call__(self, rollout: Rollout, task: Task) -> float:
        blocks = re.findall(r"^```(?:python|py)?[ \t]*\n(.*?)^```[ \t]*$", rollout.text, re.DOTALL | re.MULTILINE)
        try:
            return float(bool(blocks) and bool(ast.parse(blocks[-1]).body))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return 0.0


def _problem(task: Task) -> Problem:
    """The problem in the task's reference; no retry can mend one that cannot be read, so that ends the run."""
    try:
        return problem_from_json(task.reference)  # type: ignore[arg-type]  # it checks what it is given
    except DataError as error:
        raise RewardError(f"task {task.id}: the reference is no coding problem: {error}") from error


def _infra(verdict: Verdict) -> Score:
    return Score(value=None, outcome="infra", detail=" ".join(verdict.detail.split())[:200] or "infra_error")


def _cpu_s(verdict: Verdict) -> float:
    return sum(case.cpu_s for case in verdict.cases)


def _memory(verdict: Verdict) -> float:
    return float(max((case.peak_memory_bytes for case in verdict.cases), default=0))


def _ratio(own: list[float], reference: list[float], least: float) -> float:
    s, r = max(median(own), least), max(median(reference), least)
    return r / (r + s)
