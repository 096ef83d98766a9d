"""A reward model in a process of its own, so that it never holds up the sampler: this is the side that asks."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from strop.core.errors import InfraError, RewardError
from strop.core.types import IntArray

MAX_STARTS = 2
LOAD_TIMEOUT_S = 900.0
ANSWER_TIMEOUT_S = 300.0  # of a whole batch, which a call may have to wait for before its own


@dataclass(frozen=True, kw_only=True)
class ScorerSettings:
    """Which model, and how it is run. `threads` None leaves the number to torch."""

    folder: str
    device: str
    dtype: str
    threads: int | None
    max_batch_tokens: int


class ScoringProcess:
    """Started at the first call, in a new interpreter. One that dies or overruns is started once more, then every call
    is an InfraError; a model that cannot be loaded is a RewardError, since no retry can mend it.
    """

    def __init__(self, settings: ScorerSettings) -> None:
        self.settings = settings
        self.num_starts = 0
        self._lock = threading.Lock()
        self._running: _Running | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        return self._running.process.pid if self._running is not None else None

    async def score(self, sequences: Sequence[IntArray]) -> list[float]:
        """One score for each sequence of token ids. Concurrent calls are computed together."""
        running = self._current()
        await _within(LOAD_TIMEOUT_S, running, running.ready)
        return await _within(ANSWER_TIMEOUT_S, running, running.submit(sequences))

    def close(self) -> None:
        with self._lock:
            if self._running is not None:
                self._running.close()

    def _current(self) -> _Running:
        with self._lock:
            if self._running is None or (self._running.dead is not None and not self._running.hopeless):
                if self.num_starts == MAX_STARTS and self._running is not None:
                    raise InfraError(f"the reward model's process ended {MAX_STARTS} times: {self._running.dead}")
                self.num_starts += 1
                self._running = _Running(self.settings)
            return self._running


async def _within(limit_s: float, running: _Running, answer: Future[Any]) -> Any:
    try:
        async with asyncio.timeout(limit_s):
            return await asyncio.shield(asyncio.wrap_future(answer))  # others may wait for the same
    except TimeoutError:
        running.end(f"no answer in {limit_s:g} s")
        raise InfraError(f"the reward model gave no answer in {limit_s:g} s") from None


class _Running:
    """One life of the process. `dead` says what ended it; whatever was asked then fails with an InfraError. Where it
    is `hopeless` the model could not be loaded, and `ready` raises why.
    """

    def __init__(self, settings: ScorerSettings) -> None:
        self.ready: Future[str] = Future()
        self.dead: str | None = None
        self.hopeless = False
        self._lock = threading.Lock()
        self._pending: dict[int, Future[list[float]]] = {}
        self._numbers = itertools.count()
        self._outbox: SimpleQueue[Any] = SimpleQueue()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the process
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "strop.rewards.scoring_worker", str(theirs.fileno()), str(os.getpid())]
        with theirs:
            self.process = subprocess.Popen(
                [*command, json.dumps(asdict(settings))],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
            )
        self._connection = Connection(ours.detach())
        for work in (self._read, self._write, self._watch):
            threading.Thread(target=work, name="reward model", daemon=True).start()

    def submit(self, sequences: Sequence[IntArray]) -> Future[list[float]]:
        answer: Future[list[float]] = Future()
        answer.set_running_or_notify_cancel()  # a caller that goes away cannot cancel what is on its way
        with self._lock:
            if self.dead is not None:
                answer.set_exception(InfraError(f"the reward model's process ended: {self.dead}"))
                return answer
            number = next(self._numbers)
            self._pending[number] = answer
        self._outbox.put((number, list(sequences)))
        return answer

    def end(self, reason: str) -> None:
        """Kill the process, for a reason that is told to all who wait."""
        self._fail(reason)
        self.process.kill()

    def close(self) -> None:
        self.end("it was closed")
        self.process.wait()

    def _write(self) -> None:
        """In a thread: a full pipe must not hold up who asks."""
        while (message := self._outbox.get()) is not None:
            try:
                self._connection.send(message)
            except OSError:  # the reader tells
                return

    def _watch(self) -> None:
        """End the reading when the process ends, whoever else may hold its side of the pipe."""
        self.process.wait()
        self._outbox.put(None)
        with socket.socket(fileno=os.dup(self._connection.fileno())) as twin:
            twin.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        try:
            kind, message = self._connection.recv()
            if kind == "failed":
                self.hopeless = True
                self.ready.set_exception(RewardError(f"reward model: {message}"))
                self._fail(message)
                return
            self.ready.set_result(message)
            while True:
                self._settle(*self._connection.recv())
        except (EOFError, OSError):
            self.process.wait()
            self._fail(self._last_words())

    def _settle(self, number: int, outcome: Any) -> None:
        with self._lock:
            answer = self._pending.pop(number, None)
        if answer is None:
            return
        if isinstance(outcome, tuple):
            kind, message = outcome
            answer.set_exception(RewardError(message) if kind == "reward" else InfraError(message))
        else:
            answer.set_result(outcome)

    def _fail(self, reason: str) -> None:
        with self._lock:
            self.dead = self.dead or reason
            pending, self._pending = list(self._pending.values()), {}
        error = InfraError(f"the reward model's process ended: {reason}")
        for answer in pending:
            answer.set_exception(error)
        if not self.ready.done():
            self.ready.set_exception(error)

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        said = f", saying: {lines[-1][:200]}" if lines else ""
        return f"exit code {self.process.returncode}{said}"
