"""Verdicts as values: of an execution, of an answer, and of all cases together."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

from strop.core.programs import Answer, CaseVerdict, Execution, Tier, Trust, Verdict, VerdictName
from strop.sandbox.answers import UNREADABLE

_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 200
_SHOWN.maxlist = _SHOWN.maxtuple = _SHOWN.maxdict = _SHOWN.maxset = 20


def show(value: Any) -> str:
    """A value in at most a few hundred characters."""
    if isinstance(value, bytes):
        value = value[:400].decode("utf-8", "replace")
    try:
        return _SHOWN.repr(value)[:400]
    except ValueError:  # an integer of more digits than Python writes out
        return "a value too large to show"


def case_of_execution(name: str, execution: Execution) -> CaseVerdict:
    """`passed` where it ended as it should; whether the output is right is still to be judged."""
    return CaseVerdict(
        name=name,
        verdict="passed" if execution.status == "ok" else execution.status,
        detail="" if execution.status == "ok" else reason(execution),
        cpu_s=execution.cpu_s,
        peak_memory_bytes=execution.peak_memory_bytes,
    )


def reason(execution: Execution) -> str:
    """Why an execution did not end well: its detail, or the last line on stderr, or how it ended."""
    said = execution.stderr[-2000:].decode("utf-8", "replace").strip().splitlines()
    ending = f"signal {execution.signal}" if execution.signal is not None else f"exit status {execution.exit_code}"
    limit = f"over the limit of {execution.limit}" if execution.limit is not None else ""
    return (execution.detail or limit or (said[-1] if said else ending))[:500]


def verdict_of_answer(answer: Answer | None, execution: Execution) -> tuple[VerdictName, str]:
    """`passed` for a value, which is still to be judged. Without an answer it is how the job ended that counts."""
    if answer is None:
        if execution.status == "ok":
            return "no_answer", "the program ended without an answer"
        return execution.status, reason(execution)
    if answer.kind == "error":
        return "runtime_error", answer.detail[:500]
    if answer.kind == "none":
        return "wrong_answer" if answer.detail.startswith(UNREADABLE) else "no_answer", answer.detail[:500]
    return "passed", ""


def total(cases: Sequence[CaseVerdict], num_cases: int, tier: Tier, trust: Trust) -> Verdict:
    """All cases as one verdict: that of the first that did not pass."""
    first = next((case for case in cases if case.verdict != "passed"), None)
    passed = sum(case.verdict == "passed" for case in cases)
    return Verdict(
        verdict="passed" if first is None else first.verdict,
        passed=passed,
        total=max(num_cases, len(cases)),
        cases=tuple(cases),
        tier=tier,
        trust=trust,
        detail="" if first is None else f"{first.name}: {first.detail}" if first.detail else first.name,
    )
