"""Grading by what a sandbox reports: verdicts, counts, retries, checkers."""

import pytest

from strop.core.errors import DataError
from strop.core.programs import (
    Answer,
    Call,
    CallExecution,
    Execution,
    FunctionCase,
    Limits,
    Problem,
    StdinCase,
    UnitExecution,
    UnitRecord,
)
from strop.sandbox.grading import SandboxGrader
from strop.testing import FakeSandbox, check_grader, check_sandbox

DOUBLE = "print(int(input()) * 2)"
LINES = Problem(stdin_cases=tuple(StdinCase(stdin=f"{n}\n", expected=f"{2 * n}\n") for n in range(1, 5)))
CALLS = Problem(entry_point="f", cases=tuple(FunctionCase(call=Call(args=(n,)), expected=n + 1) for n in range(4)))
INC = "def f(n):\n    return n + 1\n"


def execution(status, **fields):
    return Execution(status=status, tier="rootless", **fields)


def grade(problem, source, sandbox=None, **options):
    return SandboxGrader(sandbox or FakeSandbox()).grade(problem, source, **options)


async def test_the_fake_and_the_grader_keep_their_promises():
    await check_sandbox(FakeSandbox())
    await check_grader(SandboxGrader(FakeSandbox()))


async def test_the_first_failure_decides_and_all_cases_are_counted():
    wrong = "n = int(input())\nprint(2 * n if n < 3 else 0)"
    first = await grade(LINES, wrong)
    assert (first.verdict, first.passed, first.total) == ("wrong_answer", 2, 4)
    assert [case.name for case in first.cases] == ["stdin 1", "stdin 2", "stdin 3"]
    every = await grade(LINES, wrong, every_case=True)
    assert (every.verdict, every.passed, len(every.cases)) == ("wrong_answer", 2, 4)
    assert "expected '6\\n', got '0\\n'" in first.detail


async def test_a_program_that_fails_at_once_runs_once():
    sandbox = FakeSandbox()
    assert (await grade(LINES, "print(0)", sandbox)).verdict == "wrong_answer"
    assert len(sandbox.asked) == 1


@pytest.mark.parametrize(
    "status", ["runtime_error", "time_limit", "memory_limit", "output_limit", "process_limit", "compile_error"]
)
async def test_how_a_program_ended_is_its_verdict(status):
    sandbox = FakeSandbox(script=lambda what, program: execution(status, stdout=b"2\n", detail="why"))
    for problem in (LINES, CALLS, Problem(tests="for n in range(2):\n    assert f(n) == n + 1\n")):
        for every_case in (False, True):
            verdict = await grade(problem, INC, sandbox, every_case=every_case)
            assert (verdict.verdict, verdict.passed, verdict.tier) == (status, 0, "rootless")


@pytest.mark.parametrize("problem", [LINES, CALLS, Problem(tests="for n in range(2):\n    assert f(n) == n + 1\n")])
async def test_a_fault_of_the_sandbox_is_tried_again_and_never_scored(problem):
    def failing(times):
        fault = execution("infra_error", detail="the zygote died")
        sandbox = FakeSandbox(script=lambda what, program: fault if len(sandbox.asked) <= times else None)
        return sandbox

    source = INC + ("print(int(input()) * 2)" if problem is LINES else "")
    assert (await grade(problem, source, failing(2))).verdict == "passed"
    sandbox = failing(100)
    verdict = await grade(problem, source, sandbox)
    assert verdict.verdict == "infra_error" and "the zygote died" in verdict.detail
    assert len(sandbox.asked) == 3


async def test_without_a_program_nothing_runs():
    sandbox = FakeSandbox()
    for source, response in (("", False), ("  \n", False), ("I do not know.", True), ("<think>```python\nx", True)):
        verdict = await SandboxGrader(sandbox).grade(LINES, source, response=response)
        assert (verdict.verdict, verdict.passed, verdict.total) == ("no_answer", 0, 4)
    assert sandbox.asked == []


class ScriptedCalls(FakeSandbox):
    """Gives prepared answers, one CallExecution for each time it is asked."""

    def __init__(self, *executions):
        super().__init__()
        self.executions = list(executions)
        self.calls = []

    async def call(self, program, entry_point, calls, limits):
        self.calls.append([call.args for call in calls])
        return self.executions.pop(0)


VALUES = [Answer(kind="value", value=n + 1) for n in range(4)]
OK = execution("ok", exit_code=0, cpu_s=0.4)


async def test_a_call_that_ends_its_job_ends_the_grading_unless_every_case_is_wanted():
    late = CallExecution(execution=execution("time_limit", cpu_s=3.0), answers=tuple(VALUES[:1]))
    verdict = await grade(CALLS, INC, ScriptedCalls(late))
    assert (verdict.verdict, verdict.passed, verdict.total, len(verdict.cases)) == ("time_limit", 1, 4, 2)
    sandbox = ScriptedCalls(late, CallExecution(execution=OK, answers=tuple(VALUES[2:])))
    verdict = await grade(CALLS, INC, sandbox, every_case=True)
    assert [case.verdict for case in verdict.cases] == ["passed", "time_limit", "passed", "passed"]
    assert sandbox.calls == [[(0,), (1,), (2,), (3,)], [(2,), (3,)]]
    assert sum(case.cpu_s for case in verdict.cases) == pytest.approx(3.4)


async def test_a_program_that_never_loads_is_not_loaded_for_every_case():
    hangs = CallExecution(execution=execution("time_limit"))
    sandbox = ScriptedCalls(hangs, hangs)
    verdict = await grade(CALLS, INC, sandbox, every_case=True)
    assert [case.verdict for case in verdict.cases] == ["time_limit"] * 4
    assert len(sandbox.calls) == 2


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(kind="error", detail="KeyError: 1"), "runtime_error"),
        (Answer(kind="none", detail="exit status 0 without an answer"), "no_answer"),
        (Answer(kind="none", detail="answered with what cannot be read: a generator"), "wrong_answer"),
        (Answer(kind="value", value=True), "wrong_answer"),
        (Answer(kind="value", value=10**5000), "wrong_answer"),
    ],
)
async def test_answers_that_are_not_right(answer, expected):
    verdict = await grade(CALLS, INC, ScriptedCalls(CallExecution(execution=OK, answers=(answer, *VALUES[1:]))))
    assert (verdict.verdict, verdict.passed) == (expected, 0)


async def test_missing_answers_are_no_answer():
    verdict = await grade(CALLS, INC, ScriptedCalls(CallExecution(execution=OK, answers=tuple(VALUES[:2]))))
    assert (verdict.verdict, verdict.passed, verdict.total) == ("no_answer", 2, 4)


CHECK = "def check(given, output):\n    return sorted(map(int, output.split())) == [1, int(given)]\n"
CHECKED = Problem(stdin_cases=(StdinCase(stdin="3\n", expected="1 3\n"), StdinCase(stdin="4\n", expected="1 4\n")))


@pytest.mark.parametrize(
    ("checker", "source", "expected"),
    [
        (CHECK, "print(int(input()), 1)", "passed"),
        (CHECK, "print(1)", "wrong_answer"),
        (CHECK, "print('x')", "wrong_answer"),  # the checker raises on this answer, and not on a right one
        (CHECK, "raise ValueError", "runtime_error"),
        ("def check(given, output):\n    return 1\n", "print(1)", "wrong_answer"),
        ("def check(given, output):\n    raise ValueError\n", "print(1)", "infra_error"),
        ("raise ValueError\ndef check(given, output):\n    return True\n", "print(1)", "infra_error"),
    ],
)
async def test_checkers_of_outputs(checker, source, expected):
    problem = Problem(stdin_cases=CHECKED.stdin_cases, checker=checker)
    assert (await grade(problem, source)).verdict == expected


async def test_a_checker_at_fault_is_named():
    problem = Problem(stdin_cases=CHECKED.stdin_cases, checker="def check(given, output):\n    return output.nothing\n")
    assert "the checker is at fault" in (await grade(problem, "print(1)")).detail


async def test_checkers_of_values_see_the_arguments_as_they_were():
    check = "def check(args, value):\n    return args[0] == [3, 1, 2] and value == 1\n"
    case = FunctionCase(call=Call(args=([3, 1, 2],)), expected=None)
    problem = Problem(entry_point="f", cases=(case, case), checker=check)
    assert (await grade(problem, "def f(xs):\n    xs.sort()\n    return xs[0]\n")).verdict == "passed"
    assert (await grade(problem, "def f(xs):\n    return 2\n")).verdict == "wrong_answer"


@pytest.mark.parametrize(
    "fields",
    [
        {"tests": "print('nothing')"},
        {"tests": "def broken("},
        {"tests": "def check(candidate):\n    for x in (1, 2):\n        assert candidate(x) == x\n"},
        {"stdin_cases": CHECKED.stdin_cases, "checker": "def broken("},
        {"stdin_cases": CHECKED.stdin_cases, "checker": "x = 1"},
    ],
)
async def test_a_problem_that_cannot_grade_is_an_error_of_the_data(fields):
    with pytest.raises(DataError):
        await grade(Problem(**fields), INC)


async def test_asserts_are_lifted_and_the_rest_is_run_as_tests():
    sandbox = FakeSandbox()
    verdict = await grade(Problem(tests="assert f(1) == 2\nassert f(2) == 4\n"), INC, sandbox)
    assert (verdict.verdict, verdict.passed, verdict.total) == ("wrong_answer", 1, 2)
    assert "f(2) == 4: got 3" in verdict.detail
    assert [what for what, _ in sandbox.asked] == ["call"]
    check = "def check(candidate):\n    for n in range(3):\n        assert candidate(n) == n + 1\n"
    verdict = await grade(Problem(tests=check, entry_point="f"), INC, sandbox)
    assert (verdict.verdict, verdict.trust) == ("passed", "strong")
    assert [what for what, _ in sandbox.asked] == ["call", "test"]
    assert (await grade(Problem(tests=check, entry_point="f"), "def f(n):\n    return 1\n")).verdict == "wrong_answer"
    weak = await grade(Problem(tests="assert f(1) == 2\n", same_process=True), INC, sandbox)
    assert (weak.verdict, weak.trust) == ("passed", "weak")


class ScriptedTests(FakeSandbox):
    def __init__(self, records, solution=OK, tester=OK, finished=True):
        super().__init__()
        found = tuple(UnitRecord(name=name, outcome=outcome) for name, outcome in records.items())
        self.unit = UnitExecution(tester=tester, solution=solution, records=found, finished=finished)

    async def test(self, program, tests, names, limits, *, same_process=False):
        return self.unit


TESTS = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): f(1)\n    def test_b(self): f(2)\n"
PASSED = {"module": "passed", "T.test_a": "passed", "T.test_b": "passed"}


@pytest.mark.parametrize(
    ("sandbox", "expected"),
    [
        (ScriptedTests(PASSED), "passed"),
        (ScriptedTests({**PASSED, "T.test_b": "failed"}), "wrong_answer"),
        (ScriptedTests({**PASSED, "T.test_b": "error"}), "runtime_error"),
        (ScriptedTests({**PASSED, "T.test_b": "skipped"}), "wrong_answer"),
        (ScriptedTests({"module": "passed", "T.test_a": "passed"}), "no_answer"),
        (ScriptedTests({"module": "error"}), "runtime_error"),
        (ScriptedTests({}), "no_answer"),
        (ScriptedTests({}, finished=False), "no_answer"),
        (ScriptedTests(PASSED, finished=False), "no_answer"),
        (ScriptedTests({**PASSED, "T.test_b": "error"}, solution=execution("time_limit")), "time_limit"),
        (ScriptedTests(PASSED, solution=execution("memory_limit")), "memory_limit"),
        (ScriptedTests({}, tester=execution("time_limit"), finished=False), "time_limit"),
        (ScriptedTests({"solution": "error"}, solution=execution("compile_error")), "compile_error"),
        (ScriptedTests({"solution": "error"}, solution=execution("runtime_error", exit_code=1)), "runtime_error"),
    ],
)
async def test_records_of_named_tests(sandbox, expected):
    problem = Problem(tests=TESTS, test_names=("T.test_a", "T.test_b"))
    assert (await grade(problem, INC, sandbox)).verdict == expected


@pytest.mark.parametrize(
    ("records", "expected", "counted"),
    [
        (PASSED, "passed", 2),
        ({"module": "failed", "T.test_a": "passed"}, "wrong_answer", 2),
        ({"module": "passed", "T.test_a": "skipped"}, "wrong_answer", 1),
        ({"module": "passed"}, "passed", 1),
        ({}, "no_answer", 1),
    ],
)
async def test_records_of_all_tests(records, expected, counted):
    verdict = await grade(Problem(tests=TESTS), INC, ScriptedTests(records), every_case=True)
    assert (verdict.verdict, verdict.total) == (expected, counted)


async def test_limits_are_the_problems():
    seen = []

    class Watching(FakeSandbox):
        async def run(self, program, limits):
            seen.append(limits)
            return await super().run(program, limits)

    limits = Limits(cpu_s=1.5)
    await grade(Problem(stdin_cases=LINES.stdin_cases, limits=limits), DOUBLE, Watching())
    assert seen == [limits] * 4
