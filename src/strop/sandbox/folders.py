"""Temporary folders that outlive no sandbox for long: what a killed one left, the next one removes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strop.sandbox.inside.trees import clear

PREFIX = "strop-sandbox-"


@dataclass(frozen=True)
class Folder:
    """`lock` is an open descriptor of the folder; the kernel lets go of its lock when this process ends."""

    path: str
    lock: int

    @staticmethod
    def make() -> Folder:
        """A new folder, others may pass it but not list it. First removes those whose makers are gone."""
        for left in Path(tempfile.gettempdir()).glob(PREFIX + "*"):
            with contextlib.suppress(OSError), _locked(str(left)):
                _end_processes(str(left))
                _remove(str(left))
        while True:
            path = tempfile.mkdtemp(prefix=PREFIX)
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.exists(path):
                os.chmod(path, 0o711)
                return Folder(path, lock)
            os.close(lock)  # another sandbox took it for a left one before it was locked

    def remove(self) -> None:
        _remove(self.path)
        os.close(self.lock)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """OSError where it is not ours, or in use."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(path)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _end_processes(path: str) -> None:
    """Kill what still runs in a left folder, or as the user that a folder in it was made for."""
    users = {str(entry.stat(follow_symlinks=False).st_uid) for entry in os.scandir(path)} - {str(os.geteuid())}
    for _ in range(100):  # new ones may appear while the others are being killed
        found = [pid for pid in os.listdir("/proc") if pid.isdigit() and _belongs(pid, path, users)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        if not found:
            return


def _belongs(pid: str, path: str, users: set[str]) -> bool:
    try:
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "\t" in line
        )
        if status["State"][0] in "ZX":
            return False
        return status["Uid"].split()[0] in users or os.readlink(f"/proc/{pid}/cwd").startswith(path + "/")
    except (OSError, KeyError):
        return False  # it has ended, or is not ours


def _remove(path: str) -> None:
    clear(path)
    os.rmdir(path)
