"""Checkers: source of `check(input, output)` or `check(args, value)`, run in a job of its own after the solution's end.

A checker must answer exactly True. One that fails on an answer is tried on the expected one (or, where there is none,
only loaded): if that fails too the checker is at fault and the case is `infra_error`; if not, the answer is to blame.
"""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from strop.core.errors import DataError
from strop.core.programs import Answer, Call, CallExecution, Limits, Program, VerdictName
from strop.sandbox.verdicts import show, verdict_of_answer

LIMITS = Limits(memory_bytes=2 << 30)
CallFn = Callable[[Program, str, Sequence[Call], Limits], Awaitable[CallExecution]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a checker is asked: the input or arguments, what the program gave, and what a right answer would be."""

    given: Any
    got: Any
    expected: Any = None


def parse_checker(source: str) -> None:
    """DataError for what cannot be a checker."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError) as error:
        raise DataError(f"problem.checker: is no Python source: {error}") from error
    if not any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in body):
        raise DataError("problem.checker: must define check(input, output) or check(args, value)")


async def run_checker(call: CallFn, source: str, questions: Sequence[Question]) -> list[tuple[VerdictName, str]]:
    """A verdict and a detail for each question."""
    program = Program(language="python", source=source)
    found: list[tuple[VerdictName, str]] = []
    while len(found) < len(questions):
        rest = questions[len(found) :]
        done = await call(program, "check", [Call(args=(q.given, q.got)) for q in rest], LIMITS)
        if done.execution.status == "infra_error":
            return found + [("infra_error", f"the checker: {done.execution.detail}")] * len(rest)
        answers: list[Answer | None] = list(done.answers[: len(rest)])
        if len(answers) < len(rest):
            answers.append(None)
        for question, answer in zip(rest, answers, strict=False):
            if answer is not None and answer.kind == "value":
                found.append(_said(answer.value))
            else:
                failure = ": ".join(verdict_of_answer(answer, done.execution))
                found.append(await _blamed(call, program, question, failure))
    return found


def _said(value: Any) -> tuple[VerdictName, str]:
    return ("passed", "") if value is True else ("wrong_answer", f"the checker said {show(value)}")


async def _blamed(call: CallFn, program: Program, question: Question, failure: str) -> tuple[VerdictName, str]:
    known = question.expected not in (None, "")
    canary = [Call(args=(question.given, question.expected))] if known else []
    done = await call(program, "check", canary, LIMITS)
    values = [answer for answer in done.answers if answer.kind == "value"]
    if done.execution.status == "ok" and len(values) == len(canary):
        return "wrong_answer", f"the checker failed on this answer only: {failure}"[:500]
    return "infra_error", f"the checker is at fault, not the program: {failure}"[:500]
