"""The supervisor's side of the launcher: starts it, holds the slots' sockets, and reads what they answer."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strop.core.errors import InfraError
from strop.core.programs import Tier
from strop.sandbox.folders import Folder

LAUNCHER = Path(__file__).parent / "inside" / "launcher.py"
START_TIMEOUT_S = 30.0
MESSAGE_BYTES = 1 << 17
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/box/job/work",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "USER": "job",
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")},
}


class SlotLost(InfraError):
    """A zygote ended while it had a job: the sandbox's fault, and reason to run the job again elsewhere."""


@dataclass(eq=False)
class Slot:
    """One zygote: its control socket, the memory files its jobs' output lands in, and the job it runs."""

    control: socket.socket
    memory: tuple[int, ...] = ()
    waiting: asyncio.Future[dict[str, Any]] | None = None
    alive: bool = True

    def close(self) -> None:
        self.alive = False
        self.control.close()
        for descriptor in self.memory:
            os.close(descriptor)
        self.memory = ()


@dataclass(eq=False)
class Zygotes:
    """A running launcher of one tier with its slots. Made by `start`; usable from one event loop at a time."""

    tier: Tier
    process: subprocess.Popen[bytes]
    channel: socket.socket
    folder: Folder | None
    slots: set[Slot] = field(default_factory=set)
    free: deque[Slot] = field(default_factory=deque)
    takers: deque[asyncio.Future[Slot]] = field(default_factory=deque)
    loop: asyncio.AbstractEventLoop | None = None
    failure: str | None = None

    @staticmethod
    def start(tier: Tier, slots: int, settings: Mapping[str, Any]) -> Zygotes:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = None if tier in ("full", "rootless") else Folder.make()
        with theirs:
            process = subprocess.Popen(
                [interpreter_for(tier), "-I", "-S", str(LAUNCHER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        own = {"tier": tier, "slots": slots, "namespaces": tier in ("full", "rootless")}
        ours.send(json.dumps({**settings, **own, "folder": folder.path if folder else None}).encode())
        ours.setblocking(False)
        return Zygotes(tier, process, ours, folder)

    def attach(self) -> None:
        """Listen in the running loop; an earlier loop, if there was one, is over."""
        loop = asyncio.get_running_loop()
        if self.loop is loop:
            return
        self.loop = loop
        self.takers.clear()
        loop.add_reader(self.channel.fileno(), self._hear_launcher)
        for slot in self.slots:
            loop.add_reader(slot.control.fileno(), self._hear_slot, slot)

    async def take(self) -> Slot:
        """The slot that has been free longest. InfraError when the launcher is gone."""
        assert self.loop is not None
        while self.free:
            slot = self.free.popleft()
            if slot.alive:
                return slot
        if self.failure is not None:
            raise InfraError(self.failure)
        future: asyncio.Future[Slot] = self.loop.create_future()
        self.takers.append(future)
        return await future

    def give(self, slot: Slot) -> None:
        if not slot.alive:
            return
        while self.takers:
            taker = self.takers.popleft()
            if not taker.done():
                taker.set_result(slot)
                return
        self.free.append(slot)

    async def ask(self, slot: Slot, task: Mapping[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
        """Run one job on a taken slot. SlotLost when its zygote ends meanwhile. Cancelling ends the job.

        The caller gives the slot back, except after cancellation, where it frees itself once the job is dead.
        """
        assert self.loop is not None
        if not slot.alive:  # it ended between being handed over and being used
            raise SlotLost("a zygote of the sandbox is gone")
        future = slot.waiting = self.loop.create_future()
        try:
            socket.send_fds(slot.control, [json.dumps(task).encode()], list(descriptors))
        except OSError as error:
            self._lose(slot, f"a zygote of the sandbox is gone ({error.strerror})")
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self._take_back(slot, future)
            raise

    def _take_back(self, slot: Slot, future: asyncio.Future[dict[str, Any]]) -> None:
        def freed(done: asyncio.Future[dict[str, Any]]) -> None:
            if not done.cancelled() and done.exception() is None:
                self.give(slot)

        future.add_done_callback(freed)
        if slot.alive and not future.done():
            slot.control.send(b"cancel")

    def _hear_launcher(self) -> None:
        try:
            message, descriptors, _, _ = socket.recv_fds(self.channel, MESSAGE_BYTES, 4)
        except BlockingIOError:
            return
        except OSError:
            message, descriptors = b"", []
        if not message:
            self._fail(self.last_words())
            return
        said = json.loads(message)
        if "failed" in said:
            self._fail(said["failed"])
            return
        slot = Slot(socket.socket(fileno=descriptors[0]))
        slot.control.setblocking(False)
        self.slots.add(slot)
        assert self.loop is not None
        self.loop.add_reader(slot.control.fileno(), self._hear_slot, slot)

    def _hear_slot(self, slot: Slot) -> None:
        try:
            message, descriptors, _, _ = socket.recv_fds(slot.control, MESSAGE_BYTES, 8)
        except BlockingIOError:
            return
        except OSError:
            message, descriptors = b"", []
        said = json.loads(message) if message else {"failed": "a zygote of the sandbox ended"}
        if "failed" in said:
            self._lose(slot, said["failed"])
        elif "hello" in said:
            slot.memory = tuple(descriptors)
            self.give(slot)
        elif slot.waiting is not None and not slot.waiting.done():
            slot.waiting.set_result(said)

    def _lose(self, slot: Slot, reason: str) -> None:
        if not slot.alive:
            return
        assert self.loop is not None
        self.loop.remove_reader(slot.control.fileno())
        had_started = bool(slot.memory)
        slot.close()
        self.slots.discard(slot)
        if slot.waiting is not None and not slot.waiting.done():
            slot.waiting.set_exception(SlotLost(reason))
        elif not had_started:
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        """Nothing of this tier works here, or not any more: all who wait learn why."""
        self.failure = self.failure or reason
        if self.loop is not None:
            self.loop.remove_reader(self.channel.fileno())
        for taker in self.takers:
            if not taker.done():
                taker.set_exception(InfraError(self.failure))
        self.takers.clear()

    def last_words(self) -> str:
        """The launcher's last line of stderr, once it has ended."""
        try:
            _, error = self.process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            return "the launcher of the sandbox does not answer"
        lines = error.decode("utf-8", "replace").strip().splitlines()
        return f"the launcher of the sandbox ended: {lines[-1] if lines else self.process.returncode}"

    def close(self) -> None:
        """End the launcher and everything below it, and wait until it is gone."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.remove_reader(self.channel.fileno())
            for slot in self.slots:
                self.loop.remove_reader(slot.control.fileno())
        self.channel.close()
        for slot in list(self.slots):
            slot.close()
        self.slots.clear()
        self.failure = self.failure or "the sandbox is closed"
        try:
            self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        if self.folder is not None:
            self.folder.remove()


def base_interpreter() -> str:
    """The interpreter without a virtual environment around it; its path must mean the same inside the jail."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def interpreter_for(tier: Tier) -> str:
    """Where root asks for a lesser tier, its processes are of another user, who may not reach root's interpreter."""
    own = base_interpreter()
    if os.geteuid() != 0 or tier in ("full", "unsafe"):
        return own
    if all(os.stat(folder).st_mode & stat.S_IXOTH for folder in Path(own).parents):
        return own
    return os.path.realpath("/usr/bin/python3")
