"""What a sandbox does with a program: compile it, run it, call it, read what it answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from strop.core.errors import DataError
from strop.core.programs import Call, CallExecution, Execution, Limits, Program, UnitExecution
from strop.sandbox.answers import read_answers, read_records
from strop.sandbox.compiling import Compiler
from strop.sandbox.inside.plain import PlainError, encode
from strop.sandbox.jobs import Done, Job
from strop.sandbox.languages import Languages


@dataclass(frozen=True, kw_only=True)
class Runner:
    """`run_job` runs one confined job and reports faults of the sandbox as infra_error."""

    languages: Languages
    compiler: Compiler
    run_job: Callable[[Job], Awaitable[Done]]

    async def run(self, program: Program, limits: Limits) -> Execution:
        language = self.languages.find(program.language)
        if language.in_zygote:
            return (await self.run_job(Job.script(program, limits))).plain()
        artifact = None
        if language.compile:
            made = await self.compiler.artifact(language, program, self.run_job)
            if isinstance(made, Execution):
                return made
            artifact = made
        return (await self.run_job(Job.native(program, limits, language, language.run, artifact))).plain()

    async def call(self, program: Program, entry_point: str, calls: Sequence[Call], limits: Limits) -> CallExecution:
        self.only_python(program)
        try:
            given = encode([[list(call.args), dict(call.kwargs)] for call in calls], max_bytes=None)
        except PlainError as error:
            raise DataError(f"arguments of a call must be plain data: {error}") from error
        done = await self.run_job(Job.calls(program, limits, entry_point, len(calls), given))
        load, answers = read_answers(done.answers, len(calls))
        if load is not None and load.kind != "value" and done.status == "ok":
            done = done.failed(load.detail)
        return CallExecution(execution=done.plain(), answers=answers)

    def only_python(self, program: Program) -> None:
        if not self.languages.find(program.language).in_zygote:
            raise DataError(f"calls and unit tests are for Python; {program.language} programs get stdin cases")


def units_of(tester: Done, solution: Done) -> UnitExecution:
    records, finished = read_records(tester.answers)
    return UnitExecution(tester=tester.plain(), solution=solution.plain(), records=records, finished=finished)
