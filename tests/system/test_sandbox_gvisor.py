"""The gVisor backend keeps the promise of every sandbox; most of it is skipped where `runsc` is not installed."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from strop.core.errors import ConfigError
from strop.core.programs import Limit, Limits, Program
from strop.sandbox.gvisor import BLAMED, GvisorSandbox
from strop.sandbox.jail import SandboxSettings
from strop.testing.sandbox import check_sandbox

MEGABYTE = 1 << 20
LIMITS = Limits(cpu_s=1.0, wall_s=2.0, memory_bytes=128 * MEGABYTE, processes=16, output_bytes=MEGABYTE)

# A runtime that answers the trial as a container would, and dies under any other program.
FRAGILE = """
import json, struct, sys
def read(): return sys.stdin.buffer.read(struct.unpack("<II", sys.stdin.buffer.read(8))[1])
def tell(kind, data): sys.stdout.buffer.write(struct.pack("<II", kind, len(data)) + data)
job, contents = json.loads(read()), read()
if b"confined" not in contents:
    sys.exit("the machine is on fire")
tell(5, b"\\0confined\\n")
result = dict(stage="running", detail="", limit=None, killed=False, code=0, cpu_s=0.0, wall_s=0.0, lengths=[9, 0, 0])
tell(6, json.dumps(result | dict(peak_memory_bytes=0, counted=False, files=[])).encode())
"""


def python(source: str, stdin: bytes = b"", fetch: tuple[str, ...] = ()) -> Program:
    return Program(language="python", source=source, stdin=stdin, fetch=fetch)


def fake_runtime(folder: Path, source: str) -> str:
    path = folder / "runsc"
    path.write_text(f"#!{sys.executable}\n{source}")
    path.chmod(stat.S_IRWXU)
    return str(path)


@pytest.fixture(scope="module")
def gvisor() -> Iterator[GvisorSandbox]:
    if shutil.which("runsc") is None:
        pytest.skip("runsc is not installed")
    made = GvisorSandbox(SandboxSettings(jobs=2))
    try:
        asyncio.run(made.start())
    except ConfigError as error:
        pytest.skip(str(error))
    yield made
    made.close()


async def test_an_absent_runtime_is_one_line() -> None:
    with pytest.raises(ConfigError, match="not installed") as caught:
        await GvisorSandbox(runsc="runsc-that-is-nowhere").start()
    assert "\n" not in str(caught.value)


async def test_a_runtime_that_fails_says_why(tmp_path: Path) -> None:
    runsc = fake_runtime(tmp_path, "import sys\nsys.exit('no such platform here')\n")
    with pytest.raises(ConfigError, match=r"systrap: .*no such platform here.*ptrace: ") as caught:
        await GvisorSandbox(runsc=runsc).start()
    assert "\n" not in str(caught.value)


async def test_containers_lost_under_one_program_only_are_that_programs_fault(tmp_path: Path) -> None:
    async with GvisorSandbox(runsc=fake_runtime(tmp_path, FRAGILE)) as sandbox:
        done = await sandbox.run(python("crash()"), LIMITS)
        assert (done.status, done.detail) == ("runtime_error", BLAMED)


async def test_a_runtime_that_is_gone_is_infra(tmp_path: Path) -> None:
    runsc = fake_runtime(tmp_path, FRAGILE)
    async with GvisorSandbox(runsc=runsc) as sandbox:
        fake_runtime(tmp_path, "import sys\nsys.exit('broken')\n")
        done = await sandbox.run(python("print(1)"), LIMITS)
        assert done.status == "infra_error" and "broken" in done.detail


async def test_conformance(gvisor: GvisorSandbox) -> None:
    await check_sandbox(gvisor)


FORKS = {
    "time_limit",
    "process_limit",
    "memory_limit",
    "runtime_error",
}  # sampling may miss a program that ends at once


@pytest.mark.parametrize(
    ("source", "statuses", "limit"),
    [
        ("while True: pass", {"time_limit"}, "cpu"),
        ("import time\ntime.sleep(60)", {"time_limit"}, "wall"),
        ("x = [bytearray(1 << 20) for _ in range(4000)]", {"memory_limit"}, "memory"),
        ("import os, time\nos.fork(), os.fork()\nx = b'a' * (70 << 20)\ntime.sleep(9)", {"memory_limit"}, "memory"),
        ("while True: print('x' * 1000)", {"output_limit"}, "output"),
        ("import os\nwhile True: os.fork()", FORKS, None),
        ("f = open('f', 'wb')\nwhile True: f.write(bytes(1 << 20))", {"runtime_error"}, None),
        ("def f(:", {"compile_error"}, None),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", {"runtime_error"}, None),
        ("import os\nos.kill(os.getpid(), 19)", {"time_limit"}, "wall"),
        ("import os\nos.closerange(0, 64)\nos._exit(0)", {"ok"}, None),
    ],
)
async def test_limits(gvisor: GvisorSandbox, source: str, statuses: set[str], limit: Limit | None) -> None:
    limits = replace(LIMITS, cpu_s=20.0, wall_s=30.0) if limit == "memory" else LIMITS  # pages come slowly when busy
    done = await gvisor.run(python(source), limits)
    assert done.status in statuses, done
    assert limit is None or done.limit == limit
    assert done.wall_s < limits.wall + 1.0 and done.tier == "gvisor"


async def test_input_output_and_files(gvisor: GvisorSandbox) -> None:
    source = "import os, sys\ndata = sys.stdin.buffer.read()\nsys.stdout.buffer.write(data[::-1])\n"
    source += "open('kept', 'wb').write(data[:5])\nos.symlink('/etc/passwd', 'link')\nos.mkfifo('pipe')\n"
    given = bytes(range(256)) * 12_000
    limits = Limits(output_bytes=4 * MEGABYTE)
    done = await gvisor.run(python(source, given, ("kept", "link", "pipe", "absent", "x/kept")), limits)
    assert (done.status, done.stdout) == ("ok", given[::-1])
    assert dict(done.files) == {"kept": given[:5]}


async def test_other_languages(gvisor: GvisorSandbox) -> None:
    source = '#include <stdio.h>\nint main(void) { int n; scanf("%d", &n); printf("%d\\n", 2 * n); }\n'
    done = await gvisor.run(Program(language="c", source=source, stdin=b"21\n"), Limits())
    assert (done.status, done.stdout) == ("ok", b"42\n"), done
    shell = await gvisor.run(
        Program(language="bash", source='read x; echo "$x" | tr a-z A-Z', stdin=b"abc\n"), Limits()
    )
    assert (shell.status, shell.stdout) == ("ok", b"ABC\n"), shell


async def test_neither_host_nor_first_process_is_in_reach(gvisor: GvisorSandbox) -> None:
    source = """
import os, socket
def reach(what, f):
    try:
        f()
    except OSError:
        return
    print("reached", what)
reach("shadow", lambda: open("/etc/shadow"))
reach("root", lambda: open("/usr/x", "w"))
reach("own", lambda: os.listdir("/own"))
reach("fd", lambda: open("/proc/1/fd/1", "wb"))
reach("memory", lambda: open("/proc/1/mem", "r+b"))
reach("kill", lambda: os.kill(1, 9))
reach("user", lambda: os.setuid(0))
reach("network", lambda: socket.create_connection(("127.0.0.1", 22), 1))
"""
    done = await gvisor.run(python(source), Limits())
    assert done.status == "ok" and b"reached" not in done.stdout, done


async def test_a_cancelled_job_leaves_nothing(gvisor: GvisorSandbox) -> None:
    run = asyncio.ensure_future(gvisor.run(python("import time\ntime.sleep(60)"), Limits()))
    await asyncio.sleep(1.0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not any(b"strop-gvisor" in _command(pid) for pid in os.listdir("/proc") if pid.isdigit())


def _command(pid: str) -> bytes:
    try:
        return Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return b""
