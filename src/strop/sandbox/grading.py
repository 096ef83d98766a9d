"""Grades programs: a sandbox runs them, the comparison is made here, where no program reaches.

A verdict is computed from what the sandbox saw and from bytes compared here. What a program does can never give
`infra_error`; a fault of the sandbox is tried again, then reported as that, and must never be scored as wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from strop.core.fences import extract_code
from strop.core.programs import (
    Answer,
    Call,
    CallExecution,
    CaseVerdict,
    Execution,
    FunctionCase,
    Limits,
    Problem,
    Program,
    StdinCase,
    Tier,
    Trust,
    Verdict,
    VerdictName,
)
from strop.core.protocols import Sandbox
from strop.sandbox.checkers import Question, parse_checker, run_checker
from strop.sandbox.compare import same_output, same_value
from strop.sandbox.lift import LiftedCase, lift
from strop.sandbox.unit_tests import prepared, unit_verdicts
from strop.sandbox.verdicts import case_of_execution, show, total, verdict_of_answer

TRIES = 3
MAX_SILENT_JOBS = 2  # in a row without one answer: it is the loading that fails, and would fail for the rest
T = TypeVar("T")


@dataclass(frozen=True)
class SandboxGrader:
    """Grades by stdin cases, function cases and tests, in this order; all that a problem has must pass.

    `tier` is what a verdict names when there was nothing to run.
    """

    sandbox: Sandbox
    tier: Tier = "full"

    async def grade(
        self, problem: Problem, source: str, *, response: bool = False, every_case: bool = False
    ) -> Verdict:
        """The verdict on a program, or with `response` on the program in a whole model answer.

        DataError for a problem that grades nothing: tests without a test, tests or a checker that are no Python.
        """
        grading = _Grading(self.sandbox, problem, every_case)
        trust: Trust = "weak" if grading.tests is not None and problem.same_process else "strong"
        code = extract_code(source, problem.language) if response else source
        if code is None or not code.strip():
            nothing = CaseVerdict(name="program", verdict="no_answer", detail="there is no program in the answer")
            return total((nothing,), grading.num_cases, self.tier, trust)
        cases = await grading.run(Program(language=problem.language, source=code))
        return total(cases, grading.num_cases, (*grading.tiers, self.tier)[0], trust)


class _Grading:
    """One grading of one program: the problem with its tests read, and the tiers of what has run."""

    def __init__(self, sandbox: Sandbox, problem: Problem, every_case: bool) -> None:
        self.sandbox = sandbox
        self.problem = problem
        self.every_case = every_case
        self.tiers: list[Tier] = []
        self.tests = prepared(problem)
        if problem.checker is not None:
            parse_checker(problem.checker)
        opaque = self.tests is None or problem.test_names or problem.same_process
        self.lifted = None if opaque else lift(self.tests or "", problem.entry_point)
        self.num_cases = len(problem.stdin_cases) + len(problem.cases)
        if self.lifted is not None:
            self.num_cases += len(self.lifted.cases)
        elif self.tests is not None:
            self.num_cases += max(1, len(problem.test_names))

    async def run(self, program: Program) -> list[CaseVerdict]:
        problem, found = self.problem, list[CaseVerdict]()
        if problem.stdin_cases:
            found += await self.stdin_cases(program)
        if problem.cases and self.goes_on(found):
            found += await self.function_cases(program, str(problem.entry_point), problem.cases)
        if self.lifted is not None and self.goes_on(found):
            found += await self.function_cases(program, self.lifted.entry_point, self.lifted.cases)
        elif self.tests is not None and self.goes_on(found):
            found += await self.unit_tests(program, self.tests)
        return found if self.every_case else _to_first_failure(found)

    def goes_on(self, found: Sequence[CaseVerdict]) -> bool:
        return self.every_case or all(case.verdict == "passed" for case in found)

    async def again(self, make: Callable[[], Awaitable[T]], executions: Callable[[T], Sequence[Execution]]) -> T:
        """A fault of the sandbox says nothing of the program, so the job is tried again."""
        for _ in range(TRIES):
            done = await make()
            if all(execution.status != "infra_error" for execution in executions(done)):
                break
        self.tiers += [execution.tier for execution in executions(done)]
        return done

    async def call(self, program: Program, entry_point: str, calls: Sequence[Call], limits: Limits) -> CallExecution:
        return await self.again(
            lambda: self.sandbox.call(program, entry_point, calls, limits), lambda done: (done.execution,)
        )

    async def stdin_cases(self, program: Program) -> list[CaseVerdict]:
        """The first case alone, as most wrong programs fail it, then the rest together."""
        cases = self.problem.stdin_cases
        done = [await self.stdin_case(program, 1, cases[0])]
        if self.goes_on([case for case, _ in done]):
            done += await self.rest_of_stdin_cases(program, cases)
        found = [case for case, _ in done]
        if self.problem.checker is None:
            return found
        outputs = [output.decode("utf-8", "replace") for _, output in done]
        questions = [
            Question(given=case.stdin, got=output, expected=case.expected)
            for case, output in zip(cases, outputs, strict=False)
        ]
        return await self.checked(self.problem.checker, found, questions)

    async def rest_of_stdin_cases(
        self, program: Program, cases: Sequence[StdinCase]
    ) -> list[tuple[CaseVerdict, bytes]]:
        tasks = [asyncio.ensure_future(self.stdin_case(program, n, case)) for n, case in enumerate(cases[1:], 2)]
        done = []
        try:
            for task in tasks:  # in their order, so that the verdict does not depend on which ends first
                done.append(await task)
                if not self.goes_on([done[-1][0]]):
                    break
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return done

    async def stdin_case(self, program: Program, number: int, case: StdinCase) -> tuple[CaseVerdict, bytes]:
        given = replace(program, stdin=case.stdin.encode("utf-8", "surrogatepass"))
        done = await self.again(lambda: self.sandbox.run(given, self.problem.limits), lambda execution: (execution,))
        found = case_of_execution(f"stdin {number}", done)
        if found.verdict != "passed" or self.problem.checker is not None:
            return found, done.stdout
        if not same_output(done.stdout, case.expected, self.problem.float_tolerance):
            detail = f"expected {show(case.expected)}, got {show(done.stdout)}"
            found = replace(found, verdict="wrong_answer", detail=detail)
        return found, done.stdout

    async def function_cases(
        self, program: Program, entry_point: str, cases: Sequence[FunctionCase] | Sequence[LiftedCase]
    ) -> list[CaseVerdict]:
        answers = await self.answers(program, entry_point, [case.call for case in cases])
        found = []
        given: Sequence[FunctionCase | LiftedCase] = cases
        for number, (case, (execution, answer, share)) in enumerate(zip(given, answers, strict=False), 1):
            verdict, detail = verdict_of_answer(answer, execution)
            checker = self.problem.checker if isinstance(case, FunctionCase) else None
            if verdict == "passed" and answer is not None and checker is None:
                verdict, detail = self.compared(case, answer)
            found.append(
                CaseVerdict(
                    name=f"{'assert' if isinstance(case, LiftedCase) else 'call'} {number}",
                    verdict=verdict,
                    detail=detail,
                    cpu_s=share * execution.cpu_s,
                    peak_memory_bytes=execution.peak_memory_bytes,
                )
            )
        if self.problem.checker is None or not isinstance(cases[0], FunctionCase):
            return found
        questions = [
            Question(given=list(case.call.args), got=answer.value if answer else None, expected=case.expected)
            for case, (_, answer, _) in zip(self.problem.cases, answers, strict=False)
        ]
        return await self.checked(self.problem.checker, found, questions)

    def compared(self, case: FunctionCase | LiftedCase, answer: Answer) -> tuple[VerdictName, str]:
        if isinstance(case, LiftedCase):
            right = case.holds(answer.value)
            detail = f"{case.source}: got {show(answer.value)}"
        else:
            right = same_value(answer.value, case.expected, self.problem.float_tolerance)
            detail = f"expected {show(case.expected)}, got {show(answer.value)}"
        return ("passed", "") if right else ("wrong_answer", detail[:500])

    async def answers(
        self, program: Program, entry_point: str, calls: Sequence[Call]
    ) -> list[tuple[Execution, Answer | None, float]]:
        """For each call its job, its answer if any, and its share of the job.

        A call that ended its job is the last, unless every case is wanted: then the rest go on in a new job.
        """
        found: list[tuple[Execution, Answer | None, float]] = []
        silent = 0
        while len(found) < len(calls):
            rest = calls[len(found) :]
            done = await self.call(program, entry_point, rest, self.problem.limits)
            given: list[Answer | None] = list(done.answers[: len(rest)])
            silent = 0 if given else silent + 1
            if len(given) < len(rest):
                given.append(None)
            for_all = done.execution.status in ("compile_error", "infra_error") or silent == MAX_SILENT_JOBS
            if for_all and self.every_case:
                given += [None] * (len(rest) - len(given))
            found += [(done.execution, answer, 1 / len(given)) for answer in given]
            if not self.every_case:
                break
        return found

    async def checked(
        self, checker: str, found: Sequence[CaseVerdict], questions: Sequence[Question]
    ) -> list[CaseVerdict]:
        """Ask the checker about the cases that ended well; the program is dead by now."""
        asked = [n for n, case in enumerate(found) if case.verdict == "passed"]
        said = await run_checker(self.call, checker, [questions[n] for n in asked])
        judged = list(found)
        for n, (verdict, detail) in zip(asked, said, strict=True):
            judged[n] = replace(found[n], verdict=verdict, detail=detail)
        return judged

    async def unit_tests(self, program: Program, tests: str) -> list[CaseVerdict]:
        problem = self.problem
        done = await self.again(
            lambda: self.sandbox.test(
                program, tests, problem.test_names, problem.limits, same_process=problem.same_process
            ),
            lambda unit: (unit.solution, unit.tester),
        )
        found = list(unit_verdicts(done, problem.test_names))
        found[0] = replace(found[0], cpu_s=done.solution.cpu_s)
        return found


def _to_first_failure(cases: Sequence[CaseVerdict]) -> list[CaseVerdict]:
    ends = next((n for n, case in enumerate(cases, 1) if case.verdict != "passed"), len(cases))
    return list(cases[:ends])
