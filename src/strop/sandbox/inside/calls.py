"""Mode `calls`: load a program once, then answer each call in a fresh child.

Frames on fds["answers"]: `<II` index and length, then one letter (v plain value, e error text, n no answer) and its
bytes. Index LOAD is the loading. The program shares this process and can forge any frame, but a frame holds an answer
only: whether it is right is decided elsewhere.
"""

import contextlib
import gc
import os
import signal
import struct
import sys

import kernel
import plain
from loading import describe, load, show

LOAD = 0xFFFFFFFF
_ANSWERED = 77  # exit status of a child that wrote its frame, so that os._exit(0) in a call is told apart
_HEADER = struct.Struct("<II")


def run(job, code, fds):
    """Serve the calls in fds["input"], a list of [args, kwargs]; returns the exit status of the job."""
    answers = fds["answers"]
    calls = plain.decode(_read(fds["input"]), max_bytes=None)
    try:
        get_function = _entry_point(load(code), job["entry_point"])
        _flush()
    except BaseException as error:
        show(error)
        _send(answers, LOAD, b"e" + describe(error).encode("utf-8", "replace"))
        return 1
    _send(answers, LOAD, b"v" + plain.encode(None))
    gc.disable()
    gc.freeze()  # a collection would touch, and so copy, every page
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a program that ignores it hides how a child ended
    if calls:
        _serve(answers, calls, get_function)
    return 0


def _serve(answers, calls, get_function):
    """One call after another, each in a child that is forked while the one before it runs, and waits for its turn."""

    def fork(index, gate, following):
        pid = kernel.fork() if len(sys._current_frames()) == 1 else os.fork()  # with one thread, no lock is held
        if pid == 0:
            _answer(answers, index, calls[index], get_function, gate, following)
        return pid

    gate, following = _Gate(), _Gate()
    gate.open()
    child = fork(0, gate, following)
    for index in range(len(calls)):
        is_last = index + 1 == len(calls)
        after = _Gate()
        ahead = None
        if not is_last:
            with contextlib.suppress(OSError):  # this call may use all processes that the job may have
                ahead = fork(index + 1, following, after)
        status = _wait(child)
        if status != _ANSWERED:
            _send(answers, index, b"n" + _ending(status).encode())
        following.open()  # again where the child has done so: only one child waits there, and once
        gate.close()
        child = ahead if ahead or is_last else fork(index + 1, following, after)
        gate, following = following, after


class _Gate:
    """Where one child waits for its turn: a pipe of its own, so that no other child can go in its place."""

    def __init__(self):
        self.read, self.write = os.pipe()

    def wait(self):
        os.read(self.read, 1)

    def open(self):
        os.write(self.write, b".")

    def close(self):
        os.close(self.read)
        os.close(self.write)


def _answer(fd, index, call, get_function, gate, following):
    """Each call sees what the loading left, its random state too; the next one goes once this answer is whole."""
    status = 1
    try:
        gate.wait()
        args, kwargs = call
        try:
            value = get_function()(*args, **kwargs)
        except BaseException as error:
            payload = b"e" + describe(error).encode("utf-8", "replace")
        else:
            payload = _encoded(value)
        _send(fd, index, payload)
        _flush()
        following.open()
        status = _ANSWERED
    finally:
        os._exit(status)


def _encoded(value):
    try:
        return b"v" + plain.encode(value)
    except plain.PlainError as error:
        return b"nanswered with what cannot be read: " + str(error).encode("utf-8", "replace")
    except BaseException as error:
        return b"nanswered with what cannot be read: " + describe(error).encode("utf-8", "replace")


def _entry_point(module, name):
    """A function that gives the callable: each call of a method gets its own Solution."""
    holder, _, attribute = name.rpartition(".")
    own = vars(module)
    if not holder and callable(own.get(name)):
        return lambda: own[name]
    owner = own.get(holder or "Solution")
    if isinstance(owner, type) and callable(getattr(owner, attribute, None)):
        return lambda: getattr(owner(), attribute)
    raise NameError(f"the program defines no function {name!r}")


def _read(fd):
    parts = []
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    os.close(fd)
    return b"".join(parts)


def _send(fd, index, payload):
    data = _HEADER.pack(index, len(payload)) + payload
    done = os.write(fd, data)
    while done < len(data):
        done += os.write(fd, data[done:])


def _wait(pid):
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except OSError:  # a thread of the program took it: the frame, if any, came first and counts
        return 0


def _ending(status):
    return f"ended by signal {-status}" if status < 0 else f"exit status {status} without an answer"


def _flush():
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
