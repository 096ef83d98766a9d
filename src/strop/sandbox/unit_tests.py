"""Test source as the grader sees it: whether it tests anything, and what its records say of a program."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from strop.core.errors import DataError
from strop.core.programs import CaseVerdict, Execution, Problem, UnitExecution, UnitRecord, VerdictName
from strop.sandbox.verdicts import reason

MODULE = "module"  # what stands outside any test, as the tester names it
OUTCOMES: dict[str, VerdictName] = {
    "passed": "passed",
    "failed": "wrong_answer",
    "error": "runtime_error",
    "skipped": "wrong_answer",
}
LIMIT_STATUSES = ("time_limit", "memory_limit", "output_limit", "process_limit")


def prepared(problem: Problem) -> str | None:
    """The problem's tests, ready to run: a `check(candidate)` that nothing calls is called with the entry point.

    DataError for tests that are no Python or that hold no test.
    """
    if problem.tests is None:
        return None
    try:
        tree = ast.parse(problem.tests)
    except (SyntaxError, ValueError) as error:
        raise DataError(f"problem.tests: is no Python source: {error}") from error
    if not any(_tests_something(node) for node in ast.walk(tree)):
        raise DataError("problem.tests: holds no test: no assert, no function test_*, no TestCase")
    defines = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
    calls = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check"
        for node in ast.walk(tree)
    )
    if not defines or calls:
        return problem.tests
    if problem.entry_point is None:
        raise DataError("problem.tests: defines check(candidate) and never calls it; give entry_point")
    return f"{problem.tests}\n\ncheck({problem.entry_point})\n"


def _tests_something(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name.startswith("test")
    return isinstance(node, ast.Assert | ast.Raise)


def unit_verdicts(done: UnitExecution, names: Sequence[str]) -> tuple[CaseVerdict, ...]:
    """A verdict for each test, each of `names` where there are some. Tests that cannot all have run have not passed."""
    ended = _ending(done)
    if done.solution.status == "compile_error" or "infra_error" in (done.solution.status, done.tester.status):
        return (_case(names[0] if names else "tests", *ended, done),)
    records = {record.name: record for record in reversed(done.records)}
    shown = list(names) or [record.name for record in _shown(done.records)]
    cases = []
    for name in shown:
        record = records.get(name)
        outcome = _outcome(record, ended) if record is not None else _missing(records, ended)
        cases.append(_case(name, *outcome, done))
    if not done.finished or not cases:
        cases.append(_case("end of tests", *ended, done))
    if done.solution.status in LIMIT_STATUSES and all(case.verdict == "passed" for case in cases):
        cases.append(_case("the solution", *ended, done))
    return tuple(cases)


def _shown(records: Sequence[UnitRecord]) -> list[UnitRecord]:
    """Without the record of the module where tests say more than that it loaded."""
    others = [record for record in records if record.name != MODULE]
    return [r for r in records if r.name != MODULE or r.outcome != "passed"] if others else list(records)


def _outcome(record: UnitRecord, ended: tuple[VerdictName, str]) -> tuple[VerdictName, str]:
    """A test that a limit of the solution ended counts as that limit."""
    if record.outcome == "error" and ended[0] in LIMIT_STATUSES:
        return ended
    return OUTCOMES[record.outcome], record.detail


def _missing(records: dict[str, UnitRecord], ended: tuple[VerdictName, str]) -> tuple[VerdictName, str]:
    if ended[0] in LIMIT_STATUSES:
        return ended
    for name in ("solution", MODULE):
        if name in records and records[name].outcome != "passed":
            return OUTCOMES[records[name].outcome], records[name].detail
    return "no_answer", "the test did not run"


def _ending(done: UnitExecution) -> tuple[VerdictName, str]:
    """How the two jobs ended, the solution's limits first: a tester waits where the solution does."""
    for execution in (done.solution, done.tester):
        if execution.status in ("compile_error", "infra_error", *LIMIT_STATUSES):
            return _status(execution), reason(execution)
    for execution in (done.solution, done.tester):
        if execution.status != "ok":
            return _status(execution), reason(execution)
    return "no_answer", "the tests did not run to their end"


def _status(execution: Execution) -> VerdictName:
    return "passed" if execution.status == "ok" else execution.status


def _case(name: str, verdict: VerdictName, detail: str, done: UnitExecution) -> CaseVerdict:
    peak = done.solution.peak_memory_bytes
    return CaseVerdict(name=name, verdict=verdict, detail=detail, peak_memory_bytes=peak)
