"""What a sandbox leaves behind: nothing. Many jobs, bombs among them, and a supervisor that is killed.

The long versions run by `make soak`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from strop.core.errors import ConfigError
from strop.core.programs import Call, Execution, Limits, Program
from strop.sandbox.jail import AUTO, LocalSandbox, SandboxSettings

MEGABYTE = 1 << 20
CONCURRENCY = 8
LIMITS = Limits(cpu_s=10.0, memory_bytes=256 * MEGABYTE)
BOMB_LIMITS = Limits(
    cpu_s=0.2, wall_s=0.2, memory_bytes=64 * MEGABYTE, processes=16, output_bytes=MEGABYTE, disk_bytes=8 * MEGABYTE
)
BOMBS = {
    "forks": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
    "memory": "held = []\nwhile True:\n    held.append(bytearray(1 << 20))",
    "output": "while True:\n    print('x' * 10_000)",
    "disk": "while True:\n    open('file', 'ab').write(bytes(1 << 16))",
    "sleep": "import time\ntime.sleep(60)",
    "spin": "while True:\n    pass",
    "daemon": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.fork()\n    time.sleep(60)\nprint('left')",
    "files": "import os\nwhile True:\n    os.open('/dev/null', 0)",
}
ENDS = {  # by what a bomb may be stopped; the daemon's parent ends well
    "forks": {"time_limit", "process_limit", "memory_limit"},
    "memory": {"memory_limit", "time_limit"},
    "output": {"output_limit", "time_limit"},
    "disk": {"runtime_error", "time_limit"},
    "sleep": {"time_limit"},
    "spin": {"time_limit"},
    "daemon": {"ok", "time_limit"},
    "files": {"runtime_error", "time_limit"},
}
# sizes of a run: jobs before anything is counted, and in all
SMALL = pytest.param(60, 260, id="260 jobs")
LARGE = pytest.param(1000, 11_000, id="11000 jobs", marks=pytest.mark.soak)


@pytest.fixture(params=AUTO)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[LocalSandbox]:
    made = LocalSandbox(SandboxSettings(tier=request.param))
    try:
        await made.start()
    except ConfigError as error:
        pytest.skip(str(error))
    yield made
    made.close()


@dataclass(frozen=True)
class Held:
    """What a sandbox holds on its host when no job runs."""

    processes: int
    descriptors: Counter[str]  # of the supervisor, and of the processes below it, by what they are
    mounts: int
    cgroups: int
    files: int


def launcher_of(sandbox: LocalSandbox) -> int:
    zygotes = sandbox._zygotes
    assert zygotes is not None
    return zygotes.process.pid


def tree_of(root: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path("/proc", name, "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def descriptors_of(pid: int) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{name}")
            kinds[link if link.startswith("/memfd:") else link.partition(":")[0]] += 1
        except FileNotFoundError:
            continue  # that of this very listing
    return kinds


def cgroups_of(pid: int) -> list[str]:
    """Folders of the groups that this launcher made."""
    return [
        str(path) for path in Path("/sys/fs/cgroup").glob(f"**/strop.{pid}.*") for path in (path, *path.rglob("*/"))
    ]


def held_by(sandbox: LocalSandbox) -> Held:
    gc.collect()  # what an earlier test of this process left to it, such as a compiled program
    launcher = launcher_of(sandbox)
    pids = tree_of(launcher)
    folder = sandbox._zygotes and sandbox._zygotes.folder
    return Held(
        processes=len(pids),
        descriptors=sum((descriptors_of(pid) for pid in (os.getpid(), *pids)), Counter()),
        mounts=len(Path("/proc/self/mounts").read_text().splitlines()),
        cgroups=len(cgroups_of(launcher)),
        files=len(list(Path(folder.path).rglob("*"))) if folder else 0,
    )


async def held_when_idle(sandbox: LocalSandbox, expected: Held | None = None) -> Held:
    """Once the pool is full and nothing changes any more, or `expected` is reached; at most after some seconds."""
    end = time.monotonic() + 20
    held = held_by(sandbox)
    unchanged = 0
    while time.monotonic() < end and held != expected and (unchanged < 4 or expected is not None):
        await asyncio.sleep(0.3)
        before, held = held, held_by(sandbox)
        unchanged = unchanged + 1 if held == before else 0
    return held


def memory_of_this_process() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


async def honest(sandbox: LocalSandbox, number: int) -> str | None:
    """One of three kinds of job, with an answer that no other job has; what is wrong with it, if anything."""
    text = str(number)
    if number % 3 == 0:
        program = Program(language="python", source="print(input()[::-1])", stdin=text.encode())
        done = await sandbox.run(program, LIMITS)
        right = done.stdout == text[::-1].encode() + b"\n"
    elif number % 3 == 1:
        source = "cat given; echo $1 > made"
        program = Program(language="bash", source=source, args=(text,), files={"given": b"x"}, fetch=("made",))
        done = await sandbox.run(program, LIMITS)
        right = (done.stdout, done.files) == (b"x", {"made": text.encode() + b"\n"})
    else:
        program = Program(language="python", source="def double(x): return (x, [x])")
        called = await sandbox.call(program, "double", [Call(args=(number,)), Call(args=(text,))], LIMITS)
        done = called.execution
        right = [answer.value for answer in called.answers] == [(number, [number]), (text, [text])]
    return None if right and done.status == "ok" else f"job {number}: {done}"


async def bomb(sandbox: LocalSandbox, number: int) -> str | None:
    """What is wrong with how a bomb ended, if anything."""
    name = list(BOMBS)[number % len(BOMBS)]
    done: Execution = await sandbox.run(Program(language="python", source=BOMBS[name]), BOMB_LIMITS)
    return None if done.status in ENDS[name] else f"{name}: {done.status} {done.detail} {done.stderr[-200:]!r}"


async def run_mixed(sandbox: LocalSandbox, numbers: range) -> list[str]:
    """Jobs by number, of which every tenth is a bomb; returns what went wrong."""
    wrong: list[str] = []
    left = iter(numbers)

    async def worker() -> None:
        for number in left:
            trouble = await (bomb(sandbox, number // 10) if number % 10 == 9 else honest(sandbox, number))
            if trouble:
                wrong.append(trouble)

    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return wrong


@pytest.mark.parametrize(("before", "jobs"), [SMALL, LARGE])
async def test_nothing_grows_over_many_jobs_and_bombs(sandbox: LocalSandbox, before: int, jobs: int) -> None:
    assert await run_mixed(sandbox, range(before)) == []
    held, memory = await held_when_idle(sandbox), memory_of_this_process()
    assert await run_mixed(sandbox, range(before, jobs)) == []
    now = await held_when_idle(sandbox, held)
    assert asdict(now) == asdict(held)
    assert memory_of_this_process() - memory < 5 * MEGABYTE


@pytest.mark.parametrize("jobs", [20, pytest.param(400, marks=pytest.mark.soak)])
async def test_a_time_limit_is_kept_soon_after_it_has_passed(
    sandbox: LocalSandbox, jobs: int, record_property: pytest.RecordProperty
) -> None:
    """Programs that sleep or compute, as many at once as there are cores; the bound holds for the middle of them."""
    limits = Limits(cpu_s=0.2, wall_s=0.3)
    late: list[float] = []
    left = iter(range(jobs))

    async def worker() -> None:
        for number in left:
            name, allowed = ("sleep", limits.wall) if number % 2 else ("spin", limits.cpu_s)
            done = await sandbox.run(Program(language="python", source=BOMBS[name]), limits)
            assert done.status == "time_limit"
            late.append((done.wall_s if name == "sleep" else done.cpu_s) - allowed)

    await asyncio.gather(*(worker() for _ in range(sandbox.cores)))
    late.sort()
    record_property("median_s", statistics.median(late))
    record_property("p99_s", late[int(0.99 * len(late))])
    print(f"{sandbox.tier}: {1000 * statistics.median(late):.0f} ms late at the median, {1000 * late[-1]:.0f} at most")
    assert statistics.median(late) <= 0.1


KILLED = """
import asyncio, sys
from strop.core.programs import Limits, Program
from strop.sandbox.jail import LocalSandbox, SandboxSettings

async def main():
    sandbox = LocalSandbox(SandboxSettings(tier=sys.argv[1]))
    await sandbox.start()
    sleeper = Program(language="python", source=sys.argv[2])
    jobs = [asyncio.create_task(sandbox.run(sleeper, Limits(cpu_s=60))) for _ in range(8)]
    await asyncio.sleep(float(sys.argv[3]))
    print(sandbox._zygotes.process.pid, flush=True)
    await asyncio.gather(*jobs)

asyncio.run(main())
"""
LEAVES_MUCH = """
import os, time
open("file", "wb").write(bytes(1 << 20))
os.makedirs("a/b/c")
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
time.sleep(600)
"""


def alive(pids: list[int]) -> list[int]:
    """Those that still run; an ended one that nobody has reaped yet does not."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            found.append(pid)
    return found


@pytest.mark.parametrize("tier", AUTO)
@pytest.mark.parametrize("with_launcher", [False, True], ids=["supervisor", "supervisor and launcher"])
@pytest.mark.parametrize("times", [1, pytest.param(30, marks=pytest.mark.soak)])
async def test_a_killed_supervisor_leaves_nothing_after_the_next_start(
    tier: str, with_launcher: bool, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o711)
    for parent in list(tmp_path.parents)[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    for _ in range(times):
        command = [sys.executable, "-c", KILLED, tier, LEAVES_MUCH, str(random.uniform(0.1, 0.6))]
        supervisor = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        said = await asyncio.to_thread(supervisor.stdout.readline)
        if not said:
            error = supervisor.communicate()[1]
            assert "programs cannot be confined here" in error, error
            pytest.skip(error.splitlines()[-1])
        launcher = int(said)
        left = tree_of(launcher)
        assert len(left) > 8
        supervisor.kill()
        if with_launcher:
            os.kill(launcher, 9)
        supervisor.communicate()
        async with LocalSandbox(SandboxSettings(tier=tier)) as after:
            assert (await after.run(Program(language="python", source="print(1)"), LIMITS)).stdout == b"1\n"
            end = time.monotonic() + 10
            while (alive(left) or cgroups_of(launcher)) and time.monotonic() < end:
                await asyncio.sleep(0.05)
            assert alive(left) == []
            assert cgroups_of(launcher) == []
        assert list(tmp_path.iterdir()) == []
