"""Adversarial programs (escapes, bombs, reward hacks) and honest ones, with their right outcomes at every tier here."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strop.core.errors import ConfigError
from strop.core.problems import problem_from_json
from strop.core.programs import Execution, Limits, Program
from strop.sandbox.grading import SandboxGrader
from strop.sandbox.jail import LocalSandbox, SandboxSettings

CASES = Path(__file__).parents[1] / "cases" / "sandbox"
PROGRAMS = json.loads((CASES / "index.json").read_text())["programs"]
TASKS = json.loads((CASES / "tasks.json").read_text())
MEGABYTE = 1 << 20
LIMITS = Limits(
    cpu_s=1.0,
    wall_s=1.5,
    memory_bytes=256 * MEGABYTE,
    processes=64,
    output_bytes=16 * MEGABYTE,
    disk_bytes=64 * MEGABYTE,
)
STATUS = {"timeout": {"time_limit"}, "killed": {"time_limit", "memory_limit", "output_limit", "process_limit"}}
STATUS["disk_limit"] = {"runtime_error", "ok"}


@pytest.fixture(scope="module", params=["full", "rootless", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    token = os.environ["SBX_CANARY"] = "canary-" + secrets.token_hex(8)
    made = LocalSandbox(SandboxSettings(tier=request.param))
    try:
        asyncio.run(made.start())
    except ConfigError as error:
        pytest.skip(str(error))
    assert made.tier == request.param
    listening = Listeners()
    yield made
    made.close()
    assert listening.nobody_came()
    assert token == os.environ.pop("SBX_CANARY")


class Listeners:
    """Where an escaped job could reach the host: TCP on loopback, and abstract unix sockets."""

    def __init__(self) -> None:
        self.sockets = []
        for family, address in ((socket.AF_INET, ("127.0.0.1", 18999)), (socket.AF_UNIX, "\0sbx-canary")):
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(address)
            except OSError:
                continue  # another suite on this machine holds it
            listener.listen()
            listener.setblocking(False)
            self.sockets.append(listener)

    def nobody_came(self) -> bool:
        came = 0
        for listener in self.sockets:
            try:
                listener.accept()
                came += 1
            except BlockingIOError:
                pass
            listener.close()
        return came == 0


def problem_of(name: str) -> Any:
    task = {key: value for key, value in TASKS[name].items() if key not in ("prompt", "note")}
    if "cases" in task and "stdin" in task["cases"][0]:
        task["stdin_cases"] = task.pop("cases")
    limits = {"cpu_s": 1.0, "wall_s": 1.5, "memory_bytes": 256 * MEGABYTE}
    return problem_from_json({**task, "limits": limits})


def outcome_fits(execution: Execution, wanted: list[str]) -> bool:
    allowed = set().union(*(STATUS.get(name, {name}) for name in wanted))
    return execution.status in allowed


@pytest.mark.parametrize("entry", PROGRAMS, ids=[entry["file"] for entry in PROGRAMS])
async def test_right_outcome(sandbox: LocalSandbox, entry: dict[str, Any]) -> None:
    await sandbox.start()
    source = (CASES / entry["file"]).read_text()
    expect = entry["expect"]
    if entry["task"] == "none":
        await check_run(sandbox, entry, source)
    else:
        await check_graded(sandbox, entry, source)
    for name in expect.get("no_file", ()):
        assert not Path(name).exists()


async def check_run(sandbox: LocalSandbox, entry: dict[str, Any], source: str) -> None:
    expect = entry["expect"]
    program = Program(language=entry["lang"], source=source, fetch=tuple(expect.get("fetch_files", ())))
    if entry["lang"] == "c":
        await sandbox.run(Program(language=entry["lang"], source=source), LIMITS)  # compiled before it is timed
    for _ in range(2 if expect.get("run_twice") else 1):
        started = time.monotonic()
        execution = await sandbox.run(program, LIMITS)
        took = time.monotonic() - started - execution.queue_s
        assert execution.status != "infra_error", execution.detail
        output = (execution.stdout + execution.stderr).decode("utf-8", "replace")
        for text in (*expect.get("no_stdout", ()), os.environ["SBX_CANARY"]):
            assert text not in output
        assert "status" not in expect or outcome_fits(execution, expect["status"]), (execution.status, output[-2000:])
        assert took < LIMITS.wall + expect.get("max_wall_over_limit_s", 3.0)
        if "stdout_len" in expect and execution.status == "ok":
            assert len(execution.stdout) == expect["stdout_len"]
        assert expect.get("stdout_contains", "") in output
        if expect.get("total_memory_le_limit"):
            factor = 1.25 if sandbox.counts_memory else 2.0  # sampling sees a burst of many processes late
            assert execution.peak_memory_bytes <= LIMITS.memory_bytes * factor
        assert all(len(content) <= LIMITS.disk_bytes for content in execution.files.values())
    after = await sandbox.run(Program(language="python", source="print('next')"), LIMITS)
    assert (after.status, after.stdout) == ("ok", b"next\n")


async def check_graded(sandbox: LocalSandbox, entry: dict[str, Any], source: str) -> None:
    expect = entry["expect"]
    problem = problem_of(entry["task"])
    if entry["lang"] != "python":
        problem = problem_from_json({**_io(entry["task"]), "language": entry["lang"]})
    verdict = await SandboxGrader(sandbox).grade(problem, source)
    assert verdict.verdict != "infra_error", verdict.detail
    assert (verdict.verdict == "passed") == bool(expect["reward"]), verdict
    assert verdict.tier == sandbox.tier
    if expect.get("status") == ["timeout"]:
        assert verdict.verdict == "time_limit"
    control = await SandboxGrader(sandbox).grade(problem_of("io"), (CASES / "control_io_right.py").read_text())
    assert control.verdict == "passed"


def _io(name: str) -> dict[str, Any]:
    task = TASKS[name]
    return {"stdin_cases": task["cases"], "limits": {"cpu_s": 1.0, "wall_s": 3.0, "memory_bytes": 256 * MEGABYTE}}
