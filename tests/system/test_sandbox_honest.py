"""Honest programs of many kinds do at every tier here what they do under a plain interpreter."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from strop.core.errors import ConfigError, DataError
from strop.core.programs import Limits, Program
from strop.sandbox.jail import LocalSandbox, SandboxSettings

LIMITS = Limits(cpu_s=5.0, memory_bytes=512 << 20, disk_bytes=16 << 20)
POOL = "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n"

# name: source, stdout, and whether it needs what only a namespace gives (unix sockets, /dev/shm)
PROGRAMS: dict[str, tuple[str, str, bool]] = {
    "stdout closed early": ("import sys\nprint('early', flush=True)\nsys.stdout.close()", "early\n", False),
    "file left open": ("f = open(1, 'w', closefd=False)\nf.write('hi')", "hi", False),
    "stdout replaced": ("import io, sys\nprint('first')\nsys.stdout = io.StringIO()\nprint('lost')", "first\n", False),
    "stdout gone": ("import sys\nprint('a')\ndel sys.stdout", "a\n", False),
    "stdout of one's own": (
        "import sys\nclass W:\n def write(self, x): sys.__stdout__.write(x.upper())\n def flush(self): pass\n"
        "sys.stdout = W()\nprint('a')",
        "A\n",
        False,
    ),
    "finalizer": ("class A:\n def __del__(self): print('bye')\na = A()\na.a = a\nb = A()", "bye\nbye\n", False),
    "exits in order": (
        "import atexit\natexit.register(print, 1)\natexit.register(print, 2)\nprint(0)",
        "0\n2\n1\n",
        False,
    ),
    "thread at exit": (
        "import threading, time\nx = 5\ndef f():\n time.sleep(0.05)\n print(x)\nthreading.Thread(target=f).start()",
        "5\n",
        False,
    ),
    "daemon thread": (
        "import threading\nx = 1\ndef f():\n while True: y = x + 1\n"
        "threading.Thread(target=f, daemon=True).start()\nprint('m')",
        "m\n",
        False,
    ),
    "exit in the middle": ("print('a')\nexit()\nprint('b')", "a\n", False),
    "pool": (POOL + " with m.Pool(2) as p: print(p.map(f, range(3)))", "[0, 1, 4]\n", True),
    "spawn": (POOL + " with m.get_context('spawn').Pool(1) as p: print(p.map(f, [3]))", "[9]\n", True),
    "manager": (POOL + " with m.Manager() as g: print(g.list([f(2)])[0])", "4\n", True),
    "unix server": (
        "import socket, socketserver, threading\nclass H(socketserver.StreamRequestHandler):\n"
        " def handle(self): self.wfile.write(self.rfile.readline().upper())\n"
        "s = socketserver.UnixStreamServer('s', H)\nthreading.Thread(target=s.handle_request).start()\n"
        "c = socket.socket(socket.AF_UNIX)\nc.connect('s')\nc.sendall(b'abc\\n')\nprint(c.recv(10))",
        "b'ABC\\n'\n",
        True,
    ),
    "asyncio subprocess": (
        "import asyncio\nasync def m():\n p = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\n"
        " print(await p.communicate())\nasyncio.run(m())",
        "(b'hi\\n', None)\n",
        False,
    ),
    "pipeline": (
        "import subprocess as s\na = s.Popen(['echo', 'b\\na'], stdout=-1)\n"
        "print(s.run(['sort'], stdin=a.stdout, stdout=-1).stdout)",
        "b'a\\nb\\n'\n",
        False,
    ),
    "own interpreter": (
        "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(6 * 7)'], stdout=-1).stdout)",
        "b'42\\n'\n",
        False,
    ),
    "temporary files": (
        "import os, tempfile\nwith tempfile.NamedTemporaryFile() as f: print(os.path.exists(f.name))\n"
        "with tempfile.TemporaryDirectory() as d: print(os.listdir(d))",
        "True\n[]\n",
        False,
    ),
    "sqlite": (
        "import sqlite3\nc = sqlite3.connect('x.db')\nc.execute('create table t(a)')\n"
        "c.execute('insert into t values(5)')\nc.commit()\nprint(c.execute('select * from t').fetchall())",
        "[(5,)]\n",
        False,
    ),
    "deep recursion in a thread": (
        "import sys, threading\nsys.setrecursionlimit(10 ** 6)\nthreading.stack_size(200 << 20)\n"
        "def f(n): return n and 1 + f(n - 1)\nt = threading.Thread(target=lambda: print(f(100_000)))\n"
        "t.start()\nt.join()",
        "100000\n",
        False,
    ),
    "doctest": (
        "def f():\n '''\n >>> f()\n 1\n '''\n return 1\nimport doctest\nprint(doctest.testmod()[0])",
        "0\n",
        False,
    ),
    "pickle of one's own class": (
        "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__name__)",
        "A\n",
        False,
    ),
    "own source": (
        "import inspect\ndef f(): return 1\nprint(inspect.getsource(f), end='')",
        "def f(): return 1\n",
        False,
    ),
    "replace itself": (
        "import os, sys\nif len(sys.argv) < 2: os.execv(sys.executable, [sys.executable, __file__, 'again'])\n"
        "print(sys.argv[1])",
        "again\n",
        False,
    ),
    "bytes that are no text": ("import sys\nprint(ascii(input()), sys.stdin.read())", "'\\udcff' x\n", False),
    "many small writes": ("import os\nfor _ in range(50_000): os.write(1, b'x')", "x" * 50_000, False),
}


@pytest.fixture(scope="module", params=["full", "rootless", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    made = LocalSandbox(SandboxSettings(tier=request.param))
    try:
        asyncio.run(made.start())
    except ConfigError as error:
        pytest.skip(str(error))
    yield made
    made.close()


@pytest.mark.parametrize("name", PROGRAMS)
async def test_honest(sandbox: LocalSandbox, name: str) -> None:
    source, stdout, isolated = PROGRAMS[name]
    stdin = b"\xff\nx" if "input" in source else b""
    await sandbox.start()
    if isolated and sandbox.tier == "landlock":
        pytest.skip("the landlock tier has no unix sockets and no shared memory of its own")
    done = await sandbox.run(Program(language="python", source=source, stdin=stdin), LIMITS)
    assert (done.status, done.stdout.decode()) == ("ok", stdout), done


@pytest.mark.parametrize(
    ("code", "status"),
    [("256", 0), ("-1", 255), ("10 ** 30", 255), ("'text'", 1), ("True", 1), ("None", 0), ("126", 126)],
)
async def test_exit_status(sandbox: LocalSandbox, code: str, status: int) -> None:
    await sandbox.start()
    done = await sandbox.run(Program(language="python", source=f"import sys\nsys.exit({code})"), LIMITS)
    assert (done.status, done.exit_code) == ("runtime_error" if status else "ok", status)


async def test_files_go_in_and_come_out(sandbox: LocalSandbox) -> None:
    await sandbox.start()
    files = {"a\nb": b"1", "é": b"2", "d/e/f": b"3"}
    source = "f = open('left open', 'w')\nf.write('kept')\nimport sys\nprint(sys.argv[1:])"
    program = Program(
        language="python", source=source, files=files, fetch=(*files, "left open"), args=("x\ny", "é", "")
    )
    done = await sandbox.run(program, LIMITS)
    assert dict(done.files) == {**files, "left open": b"kept"}
    assert done.stdout.decode() == "['x\\ny', 'é', '']\n"


@pytest.mark.parametrize(
    "given",
    [
        {"files": {"a": b"", "a/b": b""}},
        {"files": {"solution.py/x": b""}},
        {"files": {"x" * 300: b""}},
        {"files": {".": b""}},
        {"files": {"a//b": b""}},
        {"files": {"\ud800": b""}},
        {"files": {f"{i}": b"" for i in range(3000)}},
        {"fetch": ("a",) * 9000},
        {"args": ("\0",)},
        {"args": ("\ud800",)},
        {"args": ("é" * 60_000,)},
    ],
)
async def test_what_no_folder_can_hold_is_the_callers_fault(sandbox: LocalSandbox, given: dict[str, Any]) -> None:
    await sandbox.start()
    with pytest.raises(DataError):
        await sandbox.run(Program(language="python", source="print(1)", **given), LIMITS)


MANY_FILES = {
    "many files": "n = 0\nwhile True:\n    n += 1\n    open(f'file{n}', 'wb').write(bytes(1 << 20))",
    "many folders": "import os\nn = 0\nwhile True:\n    n += 1\n    os.makedirs(f'{n}/a/b')\n"
    "    open(f'{n}/a/b/c', 'wb').write(bytes(1 << 16))",
    "deep folders": "import os\nwhile True:\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\n"
    "    open('file', 'wb').write(bytes(1 << 16))",
    "in /tmp": "import tempfile\nheld = []\nwhile True:\n    held.append(tempfile.NamedTemporaryFile())\n"
    "    held[-1].write(bytes(1 << 20))\n    held[-1].flush()",
}


@pytest.mark.parametrize("name", MANY_FILES)
async def test_the_sum_of_a_jobs_files_is_limited(sandbox: LocalSandbox, name: str) -> None:
    """By the file system of the job, or where it has none of its own by counting; never by time."""
    limits = Limits(cpu_s=20.0, wall_s=30.0, disk_bytes=16 << 20, memory_bytes=512 << 20)
    done = await sandbox.run(Program(language="python", source=MANY_FILES[name]), limits)
    assert done.status == "runtime_error" and done.limit in (None, "disk"), done
