"""The seccomp filter: an allow-list as a search tree over ranges of system call numbers, with argument checks.

A call that is refused gives EPERM; one that is newer than the tables gives ENOSYS, so that libraries fall back.
"""

import itertools
import struct

import syscalls

ALLOW, KILL, REFUSE, ABSENT = 0x7FFF0000, 0x80000000, 0x00050000 | 1, 0x00050000 | 38
IGNORE = 0x00050000  # nothing happens, and the caller is told that all is well
AND = 0x54
LOAD, JUMP_EQUAL, JUMP_FROM, JUMP_ANY_BIT, JUMP, RETURN = 0x20, 0x15, 0x35, 0x45, 0x05, 0x06
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32 = 0x40000000

NEW_NAMESPACES = 0x7E020000
AF_UNIX = 1
# names, parent death, dumpable, bounding set (read), no_new_privs, timer slack, seccomp (read), names of mappings
PRCTL = (1, 2, 3, 15, 16, 21, 23, 29, 30, 38, 39, 0x53564D41)
IOCTL = (0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TIOCGPGRP, TIOCGWINSZ, FION*, FIO(N)CLEX

SOCKET_BUFFERS = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF and their FORCE: what lies in them is counted nowhere
NAMED_SOCKETS = ("connect", "bind", "listen", "accept", "accept4")
CONNECTED = (1, 5)  # stream, seqpacket; from a datagram pair any socket of the host could be sent to
OWNERS_CALLS = tuple("chmod fchmod fchmodat chown fchown lchown fchownat utime utimes futimesat utimensat".split())


def build(machine, unix_sockets, memory_files, own_user=True):
    """The program, as bytes of sock_filter.

    `unix_sockets` allows named AF_UNIX sockets and all that is harmless in namespaces of one's own; without it nothing
    may reach processes and files of the host that Landlock does not cover. `memory_files` allows memfd_create (where a
    memory cgroup counts it) and large socket buffers. Without `own_user`, the
    job's user may own files of the host, and changes of modes, owners and times do nothing.
    """
    numbers = syscalls.numbers(machine)
    checks = {
        "clone": _forbid_bits(NEW_NAMESPACES),
        "clone3": [_return(ABSENT)],
        "socket": _one_of(0, (AF_UNIX,)) if unix_sockets else [_return(REFUSE)],
        "socketpair": _one_of(0, (AF_UNIX,)),
        "prctl": _one_of(0, PRCTL),
        "ioctl": _one_of(1, IOCTL),
        "prlimit64": _one_of(0, (0,)),
        "memfd_create": [_return(ALLOW if memory_files else REFUSE)],
    }
    if not memory_files:
        checks["setsockopt"] = _none_of(2, SOCKET_BUFFERS)
    if not unix_sockets:
        checks |= {name: [_return(REFUSE)] for name in NAMED_SOCKETS}
        checks |= {"socketpair": _one_of(1, CONNECTED, mask=0xF), "inotify_add_watch": [_return(REFUSE)]}
        checks |= {"sched_setaffinity": _one_of(0, (0,)), "setpriority": _all_zero(0, 1)}
    if not own_user:
        checks |= {name: [_return(IGNORE)] for name in OWNERS_CALLS}
    blocks = {number: checks.get(name, [_return(ALLOW)]) for name, number in numbers.items()}
    tree = _tree(_segments(blocks))
    head = [
        (LOAD, 0, 0, 4),
        (JUMP_EQUAL, 1, 0, ARCHITECTURES[machine]),
        _return(KILL),
        (LOAD, 0, 0, 0),
        (JUMP_FROM, 0, 1, X32),
        _return(KILL),
    ]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in head + tree)


def _return(action):
    return (RETURN, 0, 0, action)


def _argument(index):
    return (LOAD, 0, 0, 16 + 8 * index)  # the low half; what is checked here is an int for the kernel


def _one_of(index, values, mask=0xFFFFFFFF):
    return [_argument(index), (AND, 0, 0, mask), *_jumps(values), _return(REFUSE), _return(ALLOW)]


def _none_of(index, values):
    return [_argument(index), *_jumps(values), _return(ALLOW), _return(REFUSE)]


def _jumps(values):
    """Over the next instruction for any of the values."""
    last = len(values) - 1
    return [(JUMP_EQUAL, last - i + 1, 0, value) for i, value in enumerate(values)]


def _all_zero(*indices):
    checks = [(_argument(index), (JUMP_EQUAL, 1, 0, 0), _return(REFUSE)) for index in indices]
    return [*itertools.chain(*checks), _return(ALLOW)]


def _forbid_bits(bits):
    return [_argument(0), (JUMP_ANY_BIT, 0, 1, bits), _return(REFUSE), _return(ALLOW)]


def _segments(blocks):
    """(first number, block) pairs that cover all numbers, neighbours with equal blocks joined."""
    found = []
    for number in range(max(blocks) + 2):
        block = blocks.get(number, [_return(REFUSE)]) if number <= max(blocks) else [_return(ABSENT)]
        if not found or found[-1][1] != block:
            found.append((number, block))
    return found


def _tree(segments):
    if len(segments) == 1:
        return segments[0][1]
    middle = len(segments) // 2
    left, right = _tree(segments[:middle]), _tree(segments[middle:])
    pivot = segments[middle][0]
    if len(left) <= 255:
        return [(JUMP_FROM, len(left), 0, pivot), *left, *right]
    return [(JUMP_FROM, 0, 1, pivot), (JUMP, 0, 0, len(left)), *left, *right]
