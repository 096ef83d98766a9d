"""The rows of tests/cases/code.jsonl as problems: programs and answers with the verdict that each must get."""

import json
from dataclasses import dataclass
from pathlib import Path

from strop.core.programs import Call, FunctionCase, Limits, Problem, StdinCase

ROWS = Path(__file__).parents[2] / "cases" / "code.jsonl"
SAME = {"no_verdict": "no_answer"}


@dataclass(frozen=True, kw_only=True)
class Row:
    id: str
    problem: Problem
    source: str
    response: bool
    verdicts: frozenset[str]  # any of these is right
    theme: str
    disputed: bool


def problem_of(row):
    """The conventions of these rows: other names for the same, seconds of CPU (three times that of wall), MiB."""
    tests = row["tests"]
    return Problem(
        language=row["language"],
        entry_point=tests.get("fn_name"),
        cases=tuple(
            FunctionCase(call=Call(args=tuple(case["args"]), kwargs=case.get("kwargs", {})), expected=case["expected"])
            for case in tests.get("calls", ())
        ),
        stdin_cases=tuple(StdinCase(stdin=c["stdin"], expected=c["stdout"]) for c in tests.get("cases", ())),
        tests=tests.get("code"),
        float_tolerance=tests.get("tolerance"),
        checker=tests.get("checker"),
        limits=Limits(cpu_s=tests["time_s"], memory_bytes=tests["memory_mb"] << 20),
    )


def verdicts_of(row):
    """A non-zero exit status is runtime_error; a grader may say no_answer to it, and where a row allows no verdict."""
    names = {SAME.get(name, name) for name in (row["expected_verdict"], *row["also_ok"])}
    return frozenset(names | {"no_answer"} if "runtime_error" in names else names)


def load_rows():
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    return [
        Row(
            id=row["id"],
            problem=problem_of(row),
            source=row["program"],
            response=row["program_is"] == "response",
            verdicts=verdicts_of(row),
            theme=row["theme"],
            disputed=row["disputed"],
        )
        for row in rows
    ]
