"""A sandbox that confines nothing, for tests of what uses one, and the conformance checks of Sandbox and Grader."""

from __future__ import annotations

import asyncio
import copy
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from strop.core.programs import (
    Answer,
    Call,
    CallExecution,
    Execution,
    FunctionCase,
    Limits,
    Problem,
    Program,
    StdinCase,
    UnitExecution,
    UnitRecord,
)
from strop.core.protocols import Grader, Sandbox

OK = Execution(status="ok", tier="unsafe", exit_code=0)
Asked = tuple[str, Program]  # "run", "call" or "test", and the program


@dataclass
class FakeSandbox:
    """Runs trusted Python in this very process: `print` and `input`, calls, and test functions or bare asserts.

    `script` is asked first: an Execution that it gives for (what, program) is what happened, and nothing runs. `asked`
    records every job. `files` and `args` of a program are not supported, limits bind nothing.
    """

    script: Callable[[str, Program], Execution | None] = lambda what, program: None
    asked: list[Asked] = field(default_factory=list)

    async def run(self, program: Program, limits: Limits) -> Execution:
        self.asked.append(("run", program))
        await asyncio.sleep(0)
        scripted = self.script("run", program)
        return scripted if scripted is not None else _main(program)

    async def call(self, program: Program, entry_point: str, calls: Sequence[Call], limits: Limits) -> CallExecution:
        self.asked.append(("call", program))
        scripted = self.script("call", program)
        if scripted is not None:
            return CallExecution(execution=scripted)
        namespace: dict[str, Any] = {"__name__": "solution"}
        loaded = _load(program.source, namespace)
        if loaded.status == "ok" and entry_point not in namespace:
            loaded = _failed(NameError(f"the program defines no function {entry_point!r}"))
        if loaded.status != "ok":
            return CallExecution(execution=loaded)
        return CallExecution(execution=OK, answers=tuple(_answer(program.source, entry_point, call) for call in calls))

    async def test(
        self, program: Program, tests: str, names: Sequence[str], limits: Limits, *, same_process: bool = False
    ) -> UnitExecution:
        self.asked.append(("test", program))
        solution: dict[str, Any] = {"__name__": "solution"}
        loaded = _load(program.source, solution)
        scripted = self.script("test", program) or loaded
        if scripted.status != "ok":
            return UnitExecution(tester=OK, solution=scripted)
        namespace: dict[str, Any] = {**solution, "__name__": "tests"}
        records = [_record("module", lambda: exec(compile(tests, "tests.py", "exec"), namespace))]
        found = [name for name in namespace if name.startswith("test") and (not names or name in names)]
        records += [_record(name, namespace[name]) for name in found]
        return UnitExecution(tester=OK, solution=OK, records=tuple(records), finished=True)


def _failed(error: BaseException) -> Execution:
    text = f"{type(error).__name__}: {error}"
    return Execution(status="runtime_error", tier="unsafe", exit_code=1, stderr=text.encode(), detail=text)


def _load(source: str, namespace: dict[str, Any]) -> Execution:
    try:
        code = compile(source, "solution.py", "exec")
    except SyntaxError as error:
        return Execution(status="compile_error", tier="unsafe", exit_code=1, stderr=str(error).encode())
    try:
        exec(code, namespace)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        return OK if status == 0 else Execution(status="runtime_error", tier="unsafe", exit_code=status)
    except Exception as error:
        return _failed(error)
    return OK


def _main(program: Program) -> Execution:
    given, printed = io.StringIO(program.stdin.decode()), io.StringIO()

    def read_line(prompt: str = "") -> str:
        line = given.readline()
        if not line:
            raise EOFError("EOF when reading a line")
        return line.removesuffix("\n")

    names = {"__name__": "__main__", "input": read_line, "print": partial(print, file=printed)}
    done = _load(program.source, names)
    return replace(done, stdout=printed.getvalue().encode())


def _answer(source: str, entry_point: str, call: Call) -> Answer:
    """In a namespace of its own, so that no call sees what another did."""
    namespace: dict[str, Any] = {"__name__": "solution"}
    _load(source, namespace)
    args, kwargs = copy.deepcopy((call.args, dict(call.kwargs)))
    try:
        return Answer(kind="value", value=namespace[entry_point](*args, **kwargs))
    except (Exception, SystemExit) as error:
        return Answer(kind="error", detail=f"{type(error).__name__}: {error}")


def _record(name: str, test: Callable[[], Any]) -> UnitRecord:
    try:
        test()
    except AssertionError as error:
        return UnitRecord(name=name, outcome="failed", detail=str(error))
    except Exception as error:
        return UnitRecord(name=name, outcome="error", detail=f"{type(error).__name__}: {error}")
    return UnitRecord(name=name, outcome="passed")


def _python(source: str, stdin: str = "") -> Program:
    return Program(language="python", source=source, stdin=stdin.encode())


async def check_sandbox(sandbox: Sandbox) -> None:
    """What a program does is in the Execution; calls start clean; tests are recorded one by one; jobs run together."""
    limits = Limits(cpu_s=5)
    runs = [sandbox.run(_python("print(int(input()) + 1)", f"{n}\n"), limits) for n in range(3)]
    for n, done in enumerate(await asyncio.gather(*runs)):
        assert (done.status, done.stdout) == ("ok", f"{n + 1}\n".encode()), "stdin goes in and stdout comes out"
    raised = await sandbox.run(_python("print('so far')\nraise KeyError('k')"), limits)
    assert raised.status == "runtime_error", "an error that nothing catches is a runtime_error"
    assert raised.stdout == b"so far\n", "what was written before it is kept"
    assert b"KeyError" in raised.stderr, "stderr says which error"
    ended = await sandbox.run(_python("raise SystemExit(3)"), limits)
    assert (ended.status, ended.exit_code) == ("runtime_error", 3), "the exit status is the program's"
    broken = await sandbox.run(_python("def f(:"), limits)
    assert broken.status in ("compile_error", "runtime_error"), "what is no program does not run"
    await _check_calls(sandbox, limits)
    await _check_tests(sandbox, limits)


async def _check_calls(sandbox: Sandbox, limits: Limits) -> None:
    source = "seen = []\ndef f(x, y=0):\n    seen.append(x)\n    return (len(seen), {x: 1 // y})\n"
    calls = [Call(args=(1,), kwargs={"y": 1}), Call(args=(2, 0)), Call(args=("b",), kwargs={"y": 1})]
    done = await sandbox.call(_python(source), "f", calls, limits)
    assert [answer.kind for answer in done.answers] == ["value", "error", "value"], "one answer for each call, in order"
    assert done.answers[0].value == (1, {1: 1}), "values come back with their types"
    assert "ZeroDivisionError" in done.answers[1].detail, "an error answer names the error"
    assert done.answers[2].value == (1, {"b": 1}), "no call sees what another one did"
    absent = await sandbox.call(_python("x = 1"), "f", calls, limits)
    assert absent.execution.status == "runtime_error" and not absent.answers, "a function that is absent is an error"


async def _check_tests(sandbox: Sandbox, limits: Limits) -> None:
    tests = "def test_right():\n    assert twice(2) == 4\n\ndef test_wrong():\n    assert twice(2) == 5\n"
    program = _python("def twice(x):\n    return 2 * x\n")
    done = await sandbox.test(program, tests, (), limits)
    assert done.finished, "the tester says when it ran to its end"
    outcomes = {record.name: record.outcome for record in done.records}
    assert outcomes.get("test_right") == "passed", "a test that passes is recorded as passed"
    assert outcomes.get("test_wrong") == "failed", "a test whose assert fails is recorded as failed"
    named = await sandbox.test(program, tests, ("test_right",), limits)
    assert "test_wrong" not in {record.name for record in named.records}, "with names only those run"


async def check_grader(grader: Grader) -> None:
    """Right passes, wrong does not; counts are of all cases; the program is found in a whole answer."""
    right, wrong = "def inc(n):\n    return n + 1\n", "def inc(n):\n    return 2\n"
    cases = tuple(FunctionCase(call=Call(args=(n,)), expected=n + 1) for n in (1, 2))
    problem = Problem(entry_point="inc", cases=cases)
    good, bad = await asyncio.gather(grader.grade(problem, right), grader.grade(problem, wrong))
    assert (good.verdict, good.passed, good.total) == ("passed", 2, 2), "a right program passes every case"
    assert (bad.verdict, bad.passed, bad.total) == ("wrong_answer", 1, 2), "the first failure is the verdict"
    answer = f"Here it is:\n\n```python\n{right}```\n"
    assert (await grader.grade(problem, answer, response=True)).verdict == "passed", "code is taken out of an answer"
    empty = await grader.grade(problem, "I do not know.", response=True)
    assert (empty.verdict, empty.passed) == ("no_answer", 0), "an answer without a program is no_answer"
    lines = Problem(stdin_cases=(StdinCase(stdin="3\n", expected="6\n"),))
    assert (await grader.grade(lines, "print(int(input()) * 2)")).verdict == "passed", "output decides stdin cases"
    assert (await grader.grade(lines, "print(1)")).verdict == "wrong_answer", "wrong output is wrong_answer"
    raised = await grader.grade(lines, "raise ValueError('no')")
    assert raised.verdict == "runtime_error", "an error is runtime_error"
    tested = Problem(tests="for n in range(3):\n    assert inc(n) == n + 1\n")
    assert (await grader.grade(tested, right)).verdict == "passed", "tests decide where there are tests"
    assert (await grader.grade(tested, wrong)).verdict == "wrong_answer", "an assert that fails is wrong_answer"
