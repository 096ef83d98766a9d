"""Propose a program, see how it does on public tests, and correct it."""

from __future__ import annotations

from collections.abc import Mapping

from strop.core.errors import ConfigError, DataError, InfraError
from strop.core.problems import problem_from_json
from strop.core.programs import CaseVerdict, Problem, Verdict
from strop.core.protocols import Grader
from strop.core.types import JSON, Message, Observation, StepResult, Task

VALUE_CHARS = 100  # of what a case was given; twice as much of what came of it


class ExecuteVerifyCorrect:
    """Each attempt but the last is run on the public tests, `task.data["public"]`; a digest of failures comes back.

    Ends when the public tests pass, or with attempt `max_attempts`, which is not run here. The reward grades the last
    answer on the hidden tests of `task.reference`; the digest only ever speaks of the public ones. `max_turns` of the
    domain must be at least `max_attempts`. Evidence: number of attempts, and the public verdict of each that was run.
    """

    def __init__(self, grader: Grader, max_attempts: int = 2, digest_chars: int = 400) -> None:
        if max_attempts < 1:
            raise ConfigError(f"max_attempts must be at least 1, got {max_attempts}")
        if digest_chars < 40:
            raise ConfigError(f"digest_chars must be at least 40, got {digest_chars}")
        self.grader = grader
        self.max_attempts = max_attempts
        self.digest_chars = digest_chars
        self._public: Problem | None = None
        self._attempts = 0
        self._verdicts: list[str] = []

    async def start(self, task: Task) -> Observation:
        try:
            self._public = problem_from_json(task.data.get("public"))  # type: ignore[arg-type]  # it checks
        except DataError as error:
            raise DataError(
                f"task {task.id}: execute_verify_correct needs public tests in data['public']: {error}"
            ) from error
        return Observation(messages=task.prompt, tools=task.tools)

    async def step(self, message: Message) -> StepResult:
        assert self._public is not None, "step() before start()"
        self._attempts += 1
        if self._attempts >= self.max_attempts:
            return StepResult(done=True)
        verdict = await self.grader.grade(self._public, message.content, response=True)
        if verdict.verdict == "infra_error":
            raise InfraError(f"the public tests could not be run: {verdict.detail}")
        self._verdicts.append(verdict.verdict)
        if verdict.verdict == "passed":
            return StepResult(done=True)
        reply = Message(role="user", content=digest(self._public, verdict, self.digest_chars))
        return StepResult(replies=(reply,), done=False)

    async def close(self) -> Mapping[str, JSON]:
        return {"attempts": self._attempts, "public": list(self._verdicts)}

    def fork(self) -> ExecuteVerifyCorrect:
        copy = ExecuteVerifyCorrect(self.grader, self.max_attempts, self.digest_chars)
        copy._public, copy._attempts, copy._verdicts = self._public, self._attempts, list(self._verdicts)
        return copy


def digest(public: Problem, verdict: Verdict, limit: int) -> str:
    """What failed, at most `limit` characters, and the request to mend it."""
    request = f"Fix it. Reply with only the corrected code in a ```{public.language} block."
    if verdict.verdict == "no_answer" and all(case.name == "program" for case in verdict.cases):
        return f"There was no code to run. {request}"
    if verdict.verdict == "compile_error":
        return f"{_cut(f'The code does not compile: {_last_line(_detail(verdict))}', limit)}\n{request}"
    inputs = _inputs(public)
    lines = [f"{verdict.passed} of {verdict.total} public tests passed."]
    lines += [_failure(case, inputs.get(case.name)) for case in verdict.cases if case.verdict != "passed"]
    return f"{_cut(chr(10).join(lines), limit)}\n{request}"


def _inputs(public: Problem) -> dict[str, str]:
    """What each case was given, by the name that the grader gives the case: `call 1`, `stdin 1` and so on."""
    found = {f"stdin {number}": f"input {case.stdin!r}" for number, case in enumerate(public.stdin_cases, 1)}
    for number, case in enumerate(public.cases, 1):
        arguments = [repr(a) for a in case.call.args] + [f"{k}={v!r}" for k, v in case.call.kwargs.items()]
        found[f"call {number}"] = f"{public.entry_point}({', '.join(arguments)})"
    return found


def _failure(case: CaseVerdict, given: str | None) -> str:
    """One line for a failed case. The grader's detail says what was expected and what came, or how the error ends."""
    detail = _cut(_last_line(case.detail), 2 * VALUE_CHARS)
    kind = "" if case.verdict == "wrong_answer" and detail else case.verdict.replace("_", " ")
    return ": ".join(part for part in (_cut(given or case.name, VALUE_CHARS), kind, detail) if part)


def _detail(verdict: Verdict) -> str:
    return verdict.detail or next((case.detail for case in verdict.cases if case.detail), "")


def _last_line(text: str) -> str:
    """The last line that says something: of a traceback, the error itself."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
