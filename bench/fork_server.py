"""What the sandbox is compared with: a small server that forks or spawns a child per request and confines little of it.

`python -I -S fork_server.py FD MODE [COMMAND...]`, where FD is a SOCK_SEQPACKET socket. A request is a source, a reply
what its child wrote. Modes: `exit` forks a child that ends at once; `namespaces` forks one that enters user, pid and
mount namespaces of its own, with a tmpfs and a /proc, and runs the source; `command` spawns COMMAND with the source as
its last argument.
"""

import ctypes
import os
import socket
import sys

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000
MS_REC_PRIVATE = 16384 | 1 << 18
BOX = b"/mnt"
libc = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source, target, kind, flags, data=None):
    checked(libc.mount(source, target, kind, ctypes.c_ulong(flags), data))


def write(path, text):
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, text)
    os.close(descriptor)


def enter_namespaces():
    """User, mount and pid namespaces; the pid namespace holds for the next fork."""
    uid, gid = os.geteuid(), os.getegid()
    checked(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID))
    write("/proc/self/setgroups", b"deny")
    write("/proc/self/uid_map", b"0 %d 1" % uid)
    write("/proc/self/gid_map", b"0 %d 1" % gid)
    mount(b"none", b"/", None, MS_REC_PRIVATE)


def run_in_namespaces(source):
    enter_namespaces()
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    mount(b"box", BOX, b"tmpfs", 0, b"size=64m")
    mount(b"proc", b"/proc", b"proc", 0)
    os.chdir(BOX)
    exec(compile(source, "solution.py", "exec"), {"__name__": "__main__"})
    sys.stdout.flush()
    return 0


def fork_child(mode, source, output):
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.dup2(output, 1)
        status = run_in_namespaces(source) if mode == "namespaces" else 0
    finally:
        os._exit(status)


def spawn(command, source, output):
    actions = [(os.POSIX_SPAWN_DUP2, output, 1)]
    return os.posix_spawn(command[0], [*command, source], {}, file_actions=actions)


def serve(requests, mode, command):
    while source := requests.recv(1 << 16):
        read, output = os.pipe()
        pid = spawn(command, source, output) if mode == "command" else fork_child(mode, source, output)
        os.close(output)
        written = b""
        while part := os.read(read, 1 << 16):
            written += part
        os.close(read)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        requests.send(b"%d " % status + written)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], sys.argv[3:])
