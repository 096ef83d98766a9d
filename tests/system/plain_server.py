"""A sandbox server for tests, in a process of its own: `python plain_server.py --capacity 2` prints its URL.

Most tests are about the way to a sandbox and back, so what is served is a plain, unconfined subprocess; with `--jail`
it is the local sandbox.
"""

import argparse
import ast
import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence

from strop.core.errors import ConfigError
from strop.core.programs import Answer, Call, CallExecution, Execution, Limits, Program, UnitExecution, UnitRecord
from strop.sandbox.jail import LocalSandbox
from strop.sandbox.server import ServeConfig, serve_forever

COMMANDS = {"python": [sys.executable, "-I", "-S", "-c"], "bash": ["bash", "-c"], "echo": ["echo"]}
CALLING = """
calls = {calls!r}
for args, kwargs in calls:
    print(repr({entry_point}(*args, **kwargs)))
"""


class PlainSandbox:
    """Honest about honest programs. The language `broken` stands for a fault of the sandbox itself."""

    async def run(self, program: Program, limits: Limits) -> Execution:
        if program.language == "broken":
            raise OSError("no space left for the jail\nnone at all")
        if program.language not in COMMANDS:
            raise ConfigError(f"unknown language {program.language!r}; known are bash, echo, python")
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *COMMANDS[program.language],
            program.source,
            *program.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limits.wall):
                stdout, stderr = await process.communicate(program.stdin)
        except TimeoutError:
            return Execution(status="time_limit", tier="unsafe", limit="wall", wall_s=time.monotonic() - began)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)  # with its children, which hold its pipes
                await process.wait()
        return Execution(
            status="ok" if process.returncode == 0 else "runtime_error",
            tier="unsafe",
            exit_code=process.returncode,
            stdout=stdout,
            stderr=stderr,
            wall_s=time.monotonic() - began,
        )

    async def call(self, program: Program, entry_point: str, calls: Sequence[Call], limits: Limits) -> CallExecution:
        pairs = [(call.args, dict(call.kwargs)) for call in calls]
        source = program.source + CALLING.format(calls=pairs, entry_point=entry_point)
        execution = await self.run(Program(language=program.language, source=source), limits)
        values = [ast.literal_eval(line) for line in execution.stdout.decode().splitlines()]
        return CallExecution(execution=execution, answers=tuple(Answer(kind="value", value=value) for value in values))

    async def test(
        self, program: Program, tests: str, names: Sequence[str], limits: Limits, *, same_process: bool = False
    ) -> UnitExecution:
        source = f"{program.source}\n{tests}"
        execution = await self.run(Program(language=program.language, source=source), limits)
        outcome = "passed" if execution.status == "ok" else "failed"
        records = tuple(UnitRecord(name=name, outcome=outcome) for name in names)
        return UnitExecution(tester=execution, solution=execution, records=records, finished=True)


@contextlib.asynccontextmanager
async def open_plain() -> AsyncIterator[PlainSandbox]:
    try:
        yield PlainSandbox()
    finally:
        print("closed", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token")
    parser.add_argument("--capacity", type=int, default=2)
    parser.add_argument("--max-queue", type=int, default=256)
    parser.add_argument("--max-body-bytes", type=int, default=1 << 20)
    parser.add_argument("--jail", action="store_true")
    options = vars(parser.parse_args())
    open_sandbox = LocalSandbox if options.pop("jail") else open_plain
    config = ServeConfig(**options)
    try:
        serve_forever(open_sandbox, config, ready=lambda url: print(url, flush=True))
    except ConfigError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
