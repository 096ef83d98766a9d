"""strop sandbox: run and grade programs confined, see what holds on this machine, measure it, serve it."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Optional, TypeVar

import typer

from strop.core.errors import ConfigError, DataError
from strop.core.problems import problem_from_json
from strop.core.programs import Execution, Limits, Program, Verdict
from strop.sandbox.jail import LocalSandbox, SandboxSettings

INFRA_ERROR = 3  # exit status where the sandbox, not the program, failed
T = TypeVar("T")
sandbox = typer.Typer(no_args_is_help=True, help="Run what a model wrote, confined.")

Tier = Annotated[str, typer.Option(help="auto, full, rootless, landlock, gvisor or unsafe")]
Unsafe = Annotated[bool, typer.Option("--allow-unsafe", help="run unconfined where no tier works")]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]


@sandbox.callback()
def about() -> None:
    """Run what a model wrote, confined."""


@sandbox.command()
def run(
    file: Annotated[Path, typer.Argument(help="the source; its suffix says the language")],
    language: Annotated[Optional[str], typer.Option(help="where the suffix does not say it")] = None,  # noqa: UP045
    stdin: Annotated[Optional[Path], typer.Option(help="a file to give as standard input")] = None,  # noqa: UP045
    cpu: Annotated[float, typer.Option(help="CPU seconds")] = Limits().cpu_s,
    wall: Annotated[Optional[float], typer.Option(help="wall seconds; 3 times the CPU seconds by default")] = None,  # noqa: UP045
    memory: Annotated[int, typer.Option(help="bytes of the whole job")] = Limits().memory_bytes,
    processes: Annotated[int, typer.Option(help="processes and threads")] = Limits().processes,
    output: Annotated[int, typer.Option(help="bytes of stdout, and of stderr")] = Limits().output_bytes,
    disk: Annotated[int, typer.Option(help="bytes of files")] = Limits().disk_bytes,
    fetch: Annotated[Optional[list[str]], typer.Option(help="a file to return, as base64 under its name")] = None,  # noqa: UP045
    tier: Tier = "auto",
    allow_unsafe: Unsafe = False,
    as_json: AsJson = False,
) -> None:
    """Run one program. The exit status is 0 whatever the program did, and 3 where the sandbox failed."""
    limits = _checked(
        lambda: Limits(
            cpu_s=cpu,
            wall_s=wall,
            memory_bytes=memory,
            processes=processes,
            output_bytes=output,
            disk_bytes=disk,
        )
    )
    program = _checked(
        lambda: Program(
            language=language or language_of(file),
            source=_text(file),
            stdin=_bytes(stdin) if stdin else b"",
            fetch=tuple(fetch or ()),
        )
    )
    execution = _with_sandbox(tier, allow_unsafe, lambda made: made.run(program, limits))
    _show_execution(execution, as_json)
    if execution.status == "infra_error":
        raise typer.Exit(INFRA_ERROR)


@sandbox.command()
def grade(
    problem: Annotated[Path, typer.Argument(help="the problem, as JSON")],
    solution: Annotated[Path, typer.Argument(help="the program, or with --response a whole answer")],
    response: Annotated[bool, typer.Option("--response", help="extract the program from its fences first")] = False,
    every_case: Annotated[bool, typer.Option("--every-case", help="go on after a case that fails")] = False,
    tier: Tier = "auto",
    allow_unsafe: Unsafe = False,
    as_json: AsJson = False,
) -> None:
    """Grade one program. The exit status is 0 whenever there is a verdict, and 3 where the sandbox failed."""
    from strop.sandbox.grading import SandboxGrader

    graded = problem_from_json(_text(problem))
    source = _text(solution)

    async def verdict_on(made: LocalSandbox) -> Verdict:
        await made.start()
        grader = SandboxGrader(made, tier=made.tier)
        return await grader.grade(graded, source, response=response, every_case=every_case)

    verdict = _with_sandbox(tier, allow_unsafe, verdict_on)
    if as_json:
        print(json.dumps(dataclasses.asdict(verdict)))
    else:
        print(f"{verdict.verdict}: {verdict.passed} of {verdict.total} ({verdict.tier}, trust {verdict.trust})")
        for case in verdict.cases:
            print(f"  {case.name}: {case.verdict} {case.detail}".rstrip())
    if verdict.verdict == "infra_error":
        raise typer.Exit(INFRA_ERROR)


@sandbox.command()
def check(as_json: AsJson = False) -> None:
    """Try every tier by a complete trial run: which is used here, why others are not, and what languages there are."""
    from strop.sandbox.jail import AUTO

    tried = {tier: asyncio.run(_try(tier)) for tier in AUTO}
    used = next((tier for tier, found in tried.items() if found["works"]), None)
    report = {
        "tier": used,
        "tiers": tried,
        "languages": LocalSandbox().languages.available(),
        "cores": len(os.sched_getaffinity(0)),
    }
    if as_json:
        print(json.dumps(report))
    else:
        for tier, found in tried.items():
            counted = "memory counted by cgroup" if found["counts_memory"] else "memory sampled every 20 ms"
            print(f"{tier}: {'works, ' + counted if found['works'] else found['reason']}")
        print(f"languages: {', '.join(report['languages'])}")
        print(f"in use: {used}" if used else "in use: none; see docs/sandbox.md")
    if used is None:
        raise ConfigError("programs cannot be confined here; see docs/sandbox.md")


@sandbox.command()
def bench(
    jobs: Annotated[int, typer.Option(help="jobs at each concurrency")] = 400,
    tier: Tier = "auto",
    as_json: AsJson = False,
) -> None:
    """Jobs per second and latency of a one-line program at concurrency 1, 2, 8 and 64."""
    measured = _with_sandbox(tier, False, lambda made: _measure(made, jobs))
    if as_json:
        print(json.dumps(measured))
        return
    for row in measured["concurrency"]:
        print(
            "{concurrency:3d} at once: {jobs_per_s:6.1f} jobs/s, p50 {p50_ms:.2f} ms, p99 {p99_ms:.2f} ms".format(**row)
        )


@sandbox.command()
def serve(
    host: Annotated[str, typer.Option(help="beyond loopback a token is needed")] = "127.0.0.1",
    port: int = 8700,
    token: Annotated[Optional[str], typer.Option(envvar="STROP_SANDBOX_TOKEN", help="what clients must send")] = None,  # noqa: UP045
    max_queue: Annotated[int, typer.Option(help="jobs that may wait before clients are told to come back")] = 256,
    max_body: Annotated[int, typer.Option(help="bytes of one request")] = 64 << 20,
    package: Annotated[Optional[list[str]], typer.Option(help="an installed package that programs may import")] = None,  # noqa: UP045
    tier: Tier = "auto",
    allow_unsafe: Unsafe = False,
) -> None:
    """Serve this machine's sandbox over HTTP until SIGTERM: /run, /call, /test, /health and /metrics."""
    try:
        from strop.sandbox.server import ServeConfig, serve_forever
    except ModuleNotFoundError as error:
        raise ConfigError(f"serving needs {error.name}: pip install 'strop[server]'") from error
    settings = SandboxSettings(tier=tier, allow_unsafe=allow_unsafe, packages=tuple(package or ()))
    config = ServeConfig(host=host, port=port, token=token, max_queue=max_queue, max_body_bytes=max_body)
    serve_forever(lambda: LocalSandbox(settings), config, ready=lambda url: print(f"serving on {url}", flush=True))


def language_of(file: Path) -> str:
    """DataError for a suffix that no language has."""
    from strop.sandbox.languages import SUFFIXES

    if file.suffix not in SUFFIXES:
        raise DataError(f"{file}: its suffix names no language; say it with --language")
    return SUFFIXES[file.suffix]


def _with_sandbox(tier: str, allow_unsafe: bool, use: Callable[[LocalSandbox], Awaitable[T]]) -> T:
    async def used() -> T:
        async with open_sandbox(SandboxSettings(tier=tier, allow_unsafe=allow_unsafe)) as made:
            return await use(made)

    return asyncio.run(used())


def open_sandbox(settings: SandboxSettings) -> Any:
    """The backend a tier belongs to."""
    if settings.tier == "gvisor":
        from strop.sandbox.gvisor import GvisorSandbox

        return GvisorSandbox(settings)
    return LocalSandbox(settings)


async def _try(tier: str) -> dict[str, Any]:
    made = LocalSandbox(SandboxSettings(tier=tier))
    try:
        await made.start()
    except ConfigError:
        return {"works": False, "counts_memory": False, "reason": made.refusals.get(tier, "does not work")}
    counted = made.counts_memory
    made.close()
    return {"works": True, "counts_memory": counted, "reason": ""}


async def _measure(made: LocalSandbox, jobs: int) -> dict[str, Any]:
    program, limits = Program(language="python", source="print(1)"), Limits()
    rows = []
    for concurrency in (1, 2, 8, 64):
        gate = asyncio.Semaphore(concurrency)
        latencies: list[float] = []

        async def one(gate: asyncio.Semaphore = gate, latencies: list[float] = latencies) -> None:
            async with gate:
                started = time.perf_counter()
                await made.run(program, limits)
                latencies.append(time.perf_counter() - started)

        await asyncio.gather(*(one() for _ in range(2 * made.cores)))
        latencies.clear()
        started = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(jobs)))
        took = time.perf_counter() - started
        cuts = statistics.quantiles(latencies, n=100)
        rows.append(
            {"concurrency": concurrency, "jobs_per_s": jobs / took, "p50_ms": cuts[49] * 1e3, "p99_ms": cuts[98] * 1e3}
        )
    return {"tier": made.tier, "jobs": jobs, "concurrency": rows}


def _show_execution(execution: Execution, as_json: bool) -> None:
    if as_json:
        fields = (
            f.name for f in dataclasses.fields(Execution) if f.name not in ("stdout", "stderr", "files", "detail")
        )
        shown = {name: getattr(execution, name) for name in fields}
        shown["stdout"] = execution.stdout.decode("utf-8", "replace")
        shown["stderr"] = execution.stderr.decode("utf-8", "replace")
        shown["detail"] = execution.detail
        shown["files"] = {name: base64.b64encode(content).decode() for name, content in execution.files.items()}
        print(json.dumps(shown))
        return
    sys.stdout.buffer.write(execution.stdout)
    sys.stdout.flush()
    sys.stderr.buffer.write(execution.stderr)
    ended = f"exit status {execution.exit_code}" if execution.signal is None else f"signal {execution.signal}"
    print(
        f"{execution.status} ({ended}): {execution.cpu_s:.3f} s CPU, {execution.wall_s:.3f} s wall,"
        f" {execution.peak_memory_bytes / 2**20:.1f} MiB, tier {execution.tier} {execution.detail}".rstrip(),
        file=sys.stderr,
    )


def _checked(make: Callable[[], T]) -> T:
    try:
        return make()
    except ValueError as error:
        raise DataError(str(error)) from error


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}") from error


def _text(file: Path) -> str:
    try:
        return _bytes(file).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: is not UTF-8 text (byte {error.start})") from error
