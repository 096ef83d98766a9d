"""The Linux calls that Python 3.11 lacks, by ctypes. Each raises OSError with the call's name."""

import ctypes
import os
import platform
import struct

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 1, 4, 24, 36
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x04, 0x08

MACHINE = platform.machine()
NUMBERS = {
    "x86_64": {"pivot_root": 155, "capset": 126, "seccomp": 317},
    "aarch64": {"pivot_root": 41, "capset": 91, "seccomp": 277},
}.get(MACHINE, {}) | {"openat2": 437, "mount_setattr": 442, "landlock": 444}  # one number everywhere since Linux 5.0

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc_under_lock = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock over a call


def _checked(result, name):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def syscall(name, *arguments, offset=0):
    """A raw call; ints are passed as long, bytes as pointers."""
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _checked(_libc.syscall(ctypes.c_long(NUMBERS[name] + offset), *given), name)


def unshare(flags):
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source, target, kind=None, flags=0, data=None):
    def text(value):
        return None if value is None else os.fsencode(value)

    result = _libc.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(data))
    _checked(result, f"mount {target}")


def fork():
    """Fork a process that has one thread, without what Python does in the child: new locks for threads, new seeds.

    All that touches some 170 pages, each of which is copied then: a third of what it costs to make a child.
    """
    return _checked(_libc_under_lock.fork(), "fork")


def umount(target, flags=MNT_DETACH):
    _checked(_libc.umount2(os.fsencode(target), ctypes.c_int(flags)), f"umount {target}")


def pivot_root(new_root):
    """Make `new_root`, a mount point, the root and let go of the old one."""
    os.chdir(new_root)
    syscall("pivot_root", b".", b".")
    umount(".")
    os.chdir("/")


def prctl(option, *arguments):
    given = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(_libc.prctl(ctypes.c_int(option), *given), f"prctl {option}")


def read_only_tree(path):
    """Make a mount and all below it read-only, without setuid and devices (Linux 5.12)."""
    attributes = struct.pack("<QQQQ", MS_RDONLY | MS_NOSUID | MS_NODEV, 0, 0, 0)
    syscall("mount_setattr", AT_FDCWD, os.fsencode(path), AT_RECURSIVE, attributes, len(attributes))


def drop_bounding_set():
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            return  # beyond the last capability of this kernel


def drop_capabilities():
    """Empty the effective, permitted and inheritable sets of this process, for good."""
    header = struct.pack("<Ii", 0x20080522, 0)
    syscall("capset", header, bytes(24))


def open_beneath(folder, name):
    """A descriptor of a file below `folder`, never through a link or `..`; does not block on a FIFO."""
    how = struct.pack("<QQQ", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)
    return syscall("openat2", folder, os.fsencode(name), how, len(how))


def set_thread_stack(size):
    """What threads get that ask for no size of their own; glibc would take the main thread's limit at the start."""
    attributes = ctypes.create_string_buffer(64)
    _libc.pthread_attr_init(attributes)
    _libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size))
    _libc.pthread_setattr_default_np(attributes)
    _libc.pthread_attr_destroy(attributes)


def install_filter(program):
    """Install a seccomp program (bytes of sock_filter) for this process and its children."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    syscall("seccomp", 1, 0, header)
