"""Killable worker processes for functions that run heavy code on untrusted text.

A worker is a fresh interpreter, never a fork of this process. Deadline and memory limit hold from outside: one that
overruns is killed and replaced. The canary rule: every worker first gives the known answer of a known call; when two
fresh workers that did so die, raise or overrun on one call, that call is to blame (`timeout` or `crash`); when a worker
cannot be started or fails the known call, nobody is (`infra`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import select
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from strop.core.errors import InfraError
from strop.core.types import JSON
from strop.core.workers import WorkerOutcome

INSIDE = Path(__file__).with_name("worker_process.py")  # as a file: nothing but the target is imported
START_S = 60.0  # for the imports of a worker and its known call
MAX_REPLY = 1 << 20
ALARM_MARGIN_S = 5
FRESH_FAILURES = 2


@dataclass(frozen=True, slots=True)
class Canary:
    """A call whose value is known."""

    arguments: tuple[JSON, ...]
    value: JSON


class FailedCallError(Exception):
    """A call that a worker did not answer."""

    def __init__(self, kind: Literal["timeout", "crash"], detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


@dataclass(frozen=True, kw_only=True)
class WorkerPool:
    """Calls `target` ("module:function", JSON in and out) in up to `workers` processes, started when first needed.

    Each call has `deadline_s` from the moment a worker has it; each worker has `memory_bytes` of address space and is
    replaced after `max_calls` calls. A call that fails is tried again behind those that wait, so that it delays each of
    them by one deadline at most. Any event loop may call; `close` ends the workers, as does the end of this process.
    """

    target: str
    canary: Canary
    workers: int = 2
    deadline_s: float = 2.0
    memory_bytes: int = 2 << 30
    max_calls: int = 2000
    _state: _State = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if min(self.workers, self.deadline_s, self.memory_bytes, self.max_calls) <= 0:
            raise ValueError("workers, deadline_s, memory_bytes and max_calls must be above 0")
        object.__setattr__(self, "_state", _State(self.workers))

    def __reduce__(self) -> tuple[Any, ...]:
        fields = ("target", "canary", "workers", "deadline_s", "memory_bytes", "max_calls")
        return _again, (type(self), {name: getattr(self, name) for name in fields})

    async def call(self, *arguments: JSON) -> WorkerOutcome:
        """What the function returns for `arguments`, or which of them failed."""
        fresh_failures = 0
        fresh = False
        while True:
            try:
                future = self._state.executor.submit(self._attempt, arguments, fresh)
                return WorkerOutcome(value=await asyncio.wrap_future(future))
            except InfraError as error:
                return WorkerOutcome(outcome="infra", detail=str(error))
            except _AttemptError as error:
                fresh_failures += error.fresh
                fresh = True
                if fresh_failures >= FRESH_FAILURES:
                    return WorkerOutcome(outcome=error.failure.kind, detail=str(error.failure))

    def close(self) -> None:
        """Kill all workers; calls under way end as `infra` or `crash`."""
        self._state.executor.shutdown(wait=False, cancel_futures=True)
        with self._state.lock:
            workers = list(self._state.all)
        for worker in workers:
            worker.kill()

    def _attempt(self, arguments: Sequence[JSON], fresh: bool) -> JSON:
        worker = self._worker(fresh)
        was_fresh = worker.calls == 0
        try:
            value = worker.call(arguments, self.deadline_s)
        except FailedCallError as failure:
            self._drop(worker)
            raise _AttemptError(failure, was_fresh) from failure
        if worker.calls >= self.max_calls:
            self._drop(worker)
        else:
            self._state.idle.append(worker)
        return value

    def _worker(self, fresh: bool) -> _Worker:
        with contextlib.suppress(IndexError):
            worker = self._state.idle.pop()
            if not fresh and worker.process.poll() is None:
                return worker
            self._drop(worker)
        started = _Worker(self.target, self.memory_bytes, math.ceil(self.deadline_s) + ALARM_MARGIN_S)
        with self._state.lock:
            self._state.all.add(started)
        try:
            value = started.call(self.canary.arguments, START_S)
        except FailedCallError as failure:
            self._drop(started)
            raise InfraError(f"a worker for {self.target} did not start: {failure}") from failure
        if value != self.canary.value:
            self._drop(started)
            raise InfraError(f"a worker for {self.target} says {value!r} where {self.canary.value!r} is known")
        started.calls = 0
        return started

    def _drop(self, worker: _Worker) -> None:
        worker.kill()
        with self._state.lock:
            self._state.all.discard(worker)


def _again(kind: type[WorkerPool], fields: dict[str, Any]) -> WorkerPool:
    return kind(**fields)


class _AttemptError(Exception):
    def __init__(self, failure: FailedCallError, fresh: bool) -> None:
        super().__init__(str(failure))
        self.failure, self.fresh = failure, fresh


class _State:
    """What a pool holds while it lives."""

    def __init__(self, workers: int) -> None:
        self.executor = ThreadPoolExecutor(workers, thread_name_prefix="worker")
        self.idle: deque[_Worker] = deque()
        self.all: set[_Worker] = set()
        self.lock = threading.Lock()


class _Worker:
    """One process; used by one thread at a time."""

    def __init__(self, target: str, memory_bytes: int, alarm_s: int) -> None:
        self.calls = 0
        command = [sys.executable, "-P", str(INSIDE), target, str(memory_bytes), str(alarm_s)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def call(self, arguments: Sequence[JSON], deadline_s: float) -> JSON:
        """FailedCallError when it dies, raises or has no answer within the deadline."""
        assert self.process.stdin is not None
        self.calls += 1
        started = time.monotonic()
        try:
            self.process.stdin.write(json.dumps(list(arguments)).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise FailedCallError("crash", f"the worker died ({error.strerror})") from error
        reply = self._line(started + deadline_s, deadline_s)
        if "error" in reply:
            raise FailedCallError("crash", str(reply["error"]))
        value: JSON = reply["value"]
        return value

    def _line(self, until: float, deadline_s: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        received = b""
        while not received.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise FailedCallError("timeout", f"no answer in {deadline_s:g} s")
            part = os.read(descriptor, 1 << 16)
            received += part
            if not part or len(received) > MAX_REPLY:
                raise FailedCallError("crash", "the worker died" if not part else "the reply is too long")
        try:
            reply = json.loads(received)
        except ValueError as error:
            raise FailedCallError("crash", "the reply is no JSON") from error
        if not isinstance(reply, dict) or not {"value", "error"} & set(reply):
            raise FailedCallError("crash", "the reply is no reply")
        return reply

    def kill(self) -> None:
        """End the process and reap it; may be called again."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
