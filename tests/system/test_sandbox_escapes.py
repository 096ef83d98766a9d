"""What no job may reach at any tier here, by kinds; and what no job may leave behind or break for the next."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from strop.core.errors import ConfigError
from strop.core.programs import Limits, Program
from strop.sandbox.jail import LocalSandbox, SandboxSettings

LIMITS = Limits(cpu_s=2.0, memory_bytes=256 << 20)
REACH = """
import ctypes, errno, mmap, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def reach(what, f):
    try:
        f()
    except OSError:
        return
    print("REACHED", what, flush=True)
def call(name, *arguments):
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    if libc.syscall(*given) >= 0:
        print("REACHED", name, flush=True)
"""
# by number on x86-64, all with arguments that a kernel that allowed them would take or fault on
REFUSED = """
zeros = bytes(256)
table = dict(
    ptrace=(101, 0, 0, 0, 0), process_vm_readv=(310, 1, 0, 0, 0, 0, 0), pidfd_getfd=(438, 3, 0, 0),
    fsopen=(430, b"tmpfs", 0),
    name_to_handle=(303, -100, b"/", zeros, zeros, 0), open_by_handle=(304, -100, zeros, 0),
    open_tree=(428, -100, b"/", 1),
    move_mount=(429, 0, b"/", 0, b"/", 0), setns=(308, 0, 0), unshare=(272, 0x10000000), keyctl=(250, 0, -3, 1),
    add_key=(248, b"user", b"x", b"y", 1, -3), bpf=(321, 0, zeros, 64), perf=(298, zeros, 0, -1, -1, 0),
    userfaultfd=(323, 1), io_uring=(425, 4, zeros), personality=(135, 0x40000), chroot=(161, b"/"), iopl=(172, 3),
    mount=(165, b"x", b"/tmp", b"tmpfs", 0, 0), umount=(166, b"/proc", 2), sethostname=(170, b"x", 1),
    kcmp=(312, 1, 1, 0, 0, 0),
    syslog=(103, 3, zeros, 100), shmget=(29, 0, 4096, 0o1777), semget=(64, 0, 1, 0o1777), msgget=(68, 0, 0o1777),
    mq_open=(240, b"q", 0o102, 0o600, 0), fanotify=(300, 0, 0), clone_newuser=(56, 0x10000011, 0, 0, 0, 0),
    clone3=(435, struct.pack("<11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88), setuid=(105, 0),
    setreuid=(113, 0, 0), inet=(41, 2, 1, 0), inet_high=(41, 0x100000002, 1, 0), netlink=(41, 16, 3, 0),
    alg=(41, 38, 5, 0), vsock=(41, 40, 1, 0),
    inet_pair=(53, 2, 1, 0, zeros), prctl_mm=(157, 35, 1, 0, 0, 0), prlimit_of_init=(302, 1, 7, 0, zeros),
    push_input=(16, 0, 0x5412, b"a"), memfd_secret=(447, 0), of_the_future=(463, 0), and_beyond=(600, 0),
)
for name, arguments in table.items():
    call(name, *arguments)
"""
OTHERS = """
parent = os.getppid()
for pid in {1, parent, %d}:
    reach("signal", lambda: os.kill(pid, 0))
    reach("priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    reach("cores", lambda: os.sched_setaffinity(pid, {0}))
    reach("memory", lambda: open(f"/proc/{pid}/mem", "rb"))
    reach("environment", lambda: open(f"/proc/{pid}/environ", "rb").read(1))
    reach("descriptors", lambda: os.listdir(f"/proc/{pid}/fd"))
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/self/uid_map", "/proc/self/oom_score_adj"):
    reach(path, lambda: os.open(path, os.O_WRONLY))
for descriptor in range(3, 256):
    reach("a descriptor", lambda: os.fstat(descriptor))
"""
SOCKETS = """
def send(kind):
    ends = (ctypes.c_int * 2)()
    if libc.socketpair(1, kind, 0, ends) < 0:
        raise OSError
    socket.socket(fileno=ends[0]).sendto(b"from a job", %r)
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | 0x800, socket.SOCK_DGRAM | 0x80000):
    reach("a socket of the host", lambda: send(kind))
for name in (%r, "\\0" + "strop-escape"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        reach("a socket of the host", lambda: socket.socket(socket.AF_UNIX, kind).connect(name))
"""
# each is followed by an honest job on the same slots; none may be the sandbox's fault
WRECKS = {
    "folders too deep for any path": "import os\nfor _ in range(1500):\n os.mkdir('d' * 200)\n os.chdir('d' * 200)",
    "closed folders": "import os\nos.makedirs('a/b')\nfor p in ('a/b', 'a', '.', '../tmp'):\n os.chmod(p, 0)",
    "its own place closed": "import os\np = os.path.dirname(os.getcwd())\ntry: os.chmod(p, 0)\nexcept OSError: pass",
    "names of bytes": "import os\nfor n in (b'\\xff', b'a\\nb', b'.moved-1'): open(n, 'w')\nos.mkdir('.moved-2')",
    "links, pipes and holes": (
        "import os\nos.symlink('/etc', 'l')\nos.symlink('.', 'round')\nos.mkfifo('p')\n"
        "open('s', 'wb').truncate(40 << 20)"
    ),
    "stopped children": "import os\nfor _ in range(9):\n if not os.fork(): os.kill(os.getpid(), 19)",
    "daemons": "import os, time\nif not os.fork():\n os.setsid()\n if not os.fork(): time.sleep(60)\n os._exit(0)",
    "a new priority": "import os\nos.nice(19)\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
    "exit status of the sandbox": "import os\nos._exit(125)",
    "messages to the zygote": "import os\nfor n in range(3, 64):\n try: os.write(n, b'failed')\n except OSError: pass",
    "no descriptors": "import os\nos.closerange(0, 256)",
    "a nest of source": "x = " + "-" * 100_000 + "1",
    "a tower of source": "x = " + "+".join(["1"] * 50_000),
    "a source of zero bytes": "\0" * 1000,
    "no source at all": "",
    "a broken encoding": "# coding: utf-16\nprint(1)",
}


@pytest.fixture(scope="module", params=["full", "rootless", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    made = LocalSandbox(SandboxSettings(tier=request.param, jobs=1))
    try:
        asyncio.run(made.start())
    except ConfigError as error:
        pytest.skip(str(error))
    yield made
    made.close()


async def reached(sandbox: LocalSandbox, source: str) -> str:
    await sandbox.start()
    done = await sandbox.run(Program(language="python", source=REACH + source), LIMITS)
    assert done.status == "ok", done
    return done.stdout.decode()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers are those of x86-64")
async def test_calls_that_lead_out_are_refused(sandbox: LocalSandbox) -> None:
    assert await reached(sandbox, REFUSED) == ""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="instructions are those of x86-64")
@pytest.mark.parametrize(
    "source",
    [
        "code = mmap.mmap(-1, 4096, prot=7)\ncode.write(bytes.fromhex('b814000000cd80c3'))\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()",
        "libc.syscall(ctypes.c_long(0x40000000 | 39))",
    ],
    ids=["int 0x80", "x32"],
)
async def test_calls_of_another_architecture_kill(sandbox: LocalSandbox, source: str) -> None:
    await sandbox.start()
    done = await sandbox.run(Program(language="python", source=REACH + source + "\nprint('REACHED')"), LIMITS)
    assert (done.status, done.stdout) == ("runtime_error", b"")


async def test_other_processes_are_out_of_reach(sandbox: LocalSandbox) -> None:
    assert await reached(sandbox, OTHERS % os.getpid()) == ""


async def test_sockets_of_the_host_are_out_of_reach(sandbox: LocalSandbox, tmp_path: Path) -> None:
    path = f"/tmp/strop-escape-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as named, socket.socket(socket.AF_UNIX) as abstract:
        named.bind(path)
        try:
            os.chmod(path, 0o777)
            abstract.bind("\0strop-escape")
            abstract.listen()
            assert await reached(sandbox, SOCKETS % (path, path)) == ""
            named.setblocking(False)
            with pytest.raises(BlockingIOError):
                named.recv(16)
        finally:
            os.unlink(path)


async def test_what_goes_on_in_the_host_cannot_be_watched(sandbox: LocalSandbox) -> None:
    source = "w = libc.inotify_init()\nprint(*[libc.inotify_add_watch(w, p, 0xFFF) for p in (b'/var/log', b'/home')])"
    assert await reached(sandbox, source) == "-1 -1\n"


@pytest.mark.parametrize("name", WRECKS)
async def test_the_next_job_finds_nothing_and_runs(sandbox: LocalSandbox, name: str) -> None:
    await sandbox.start()
    wrecked = await sandbox.run(Program(language="python", source=WRECKS[name]), LIMITS)
    assert wrecked.status != "infra_error", wrecked
    look = (
        "import os\nprint(os.listdir('.'), os.listdir(os.environ['TMPDIR']), os.nice(0), len(os.sched_getaffinity(0)))"
    )
    cores = len(os.sched_getaffinity(0))
    for _ in range(3):  # as many as there are slots, and one
        after = await sandbox.run(Program(language="python", source=look), LIMITS)
        assert (after.status, after.stdout.decode()) == ("ok", f"['solution.py'] [] {os.nice(0)} {cores}\n"), after
