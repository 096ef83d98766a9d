"""The jobs of a sandbox server: admitted, run once per key, counted, and remembered for a while."""

from __future__ import annotations

import asyncio
import bisect
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace

from strop.core.errors import StropError
from strop.core.programs import CallExecution, Execution, ExecutionStatus, Tier, UnitExecution
from strop.core.protocols import Sandbox
from strop.sandbox import wire

MAX_KEPT = 4096
MAX_KEPT_BYTES = 256 << 20
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class KeyReused(ValueError):
    """A key that came before with another body."""


@dataclass(eq=False, slots=True)
class _Entry:
    """One key: the digest of its body, its job, and how many requests wait for it."""

    digest: bytes
    task: asyncio.Task[bytes]
    joined: int = 0


@dataclass(eq=False, slots=True)
class _Kept:
    digest: bytes
    answer: bytes
    until: float


@dataclass(kw_only=True, slots=True)
class Counts:
    """What `/metrics` tells."""

    jobs: Counter[tuple[str, str]] = field(default_factory=Counter)  # by path and status
    refused: Counter[int] = field(default_factory=Counter)  # by HTTP status
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    seconds: float = 0.0

    def finished(self, path: str, status: str, seconds: float) -> None:
        self.jobs[path, status] += 1
        self.buckets[bisect.bisect_left(BUCKETS_S, seconds)] += 1
        self.seconds += seconds


class JobTable:
    """Runs at most `capacity` jobs at once on `sandbox`, in the order they came.

    A key that comes again while its job runs joins it; for `keep_s` after that it is given the same answer. A job that
    nobody waits for any more is cancelled. An answer of status infra_error is not kept: the next try may do better.
    """

    def __init__(self, sandbox: Sandbox, *, tier: Tier, capacity: int, keep_s: float) -> None:
        self.tier = tier
        self.capacity = capacity
        self.running = 0
        self.waiting = 0
        self.counts = Counts()
        self._sandbox = sandbox
        self._keep_s = keep_s
        self._cores = asyncio.Semaphore(capacity)
        self._entries: dict[str, _Entry] = {}
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._kept_bytes = 0

    async def answer(self, path: str, job: wire.Job, digest: bytes) -> bytes:
        """The body of the answer to `job`; KeyReused where its key stands for another body, StropError where the
        sandbox cannot take it.
        """
        self._forget()
        known = self._kept.get(job.key) or self._entries.get(job.key)
        if known is not None and known.digest != digest:
            raise KeyReused(f"key {job.key[:80]!a} came before with another body; a new job needs a new key")
        if isinstance(known, _Kept):
            return known.answer
        entry = known or self._start(path, job, digest)
        entry.joined += 1
        try:
            return await asyncio.shield(entry.task)
        finally:
            entry.joined -= 1
            if entry.joined == 0 and not entry.task.done():
                self._entries.pop(job.key, None)  # at once: a retry must not join a job that is being cancelled
                entry.task.cancel()

    async def close(self) -> None:
        """Cancel what runs and wait until it has ended."""
        tasks = [entry.task for entry in self._entries.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, path: str, job: wire.Job, digest: bytes) -> _Entry:
        entry = _Entry(digest, asyncio.create_task(self._work(path, job, digest)))
        self._entries[job.key] = entry

        def ended(task: asyncio.Task[bytes]) -> None:
            if self._entries.get(job.key) is entry:
                del self._entries[job.key]

        entry.task.add_done_callback(ended)
        return entry

    async def _work(self, path: str, job: wire.Job, digest: bytes) -> bytes:
        came = time.monotonic()
        self.waiting += 1
        try:
            await self._cores.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            queue_s = time.monotonic() - came
            status, answer = await self._result(job, queue_s)
        finally:
            self.running -= 1
            self._cores.release()
        self.counts.finished(path, status, time.monotonic() - came)
        if status != "infra_error":
            self._keep(job.key, digest, answer)
        return answer

    async def _result(self, job: wire.Job, queue_s: float) -> tuple[ExecutionStatus, bytes]:
        try:
            result = waited(await carry_out(self._sandbox, job), queue_s)
            return wire.status_of(result), dump(result)
        except StropError:  # a job that this sandbox cannot take, such as one in a language it has not
            raise
        except Exception as error:  # the sandbox's border: a fault of it is no answer of the program's
            detail = " ".join(f"{type(error).__name__}: {error}".split())
            return "infra_error", dump(failed(job, self.tier, detail[:500]))

    def _keep(self, key: str, digest: bytes, answer: bytes) -> None:
        if key in self._kept:
            self._kept_bytes -= len(self._kept.pop(key).answer)
        self._kept[key] = _Kept(digest, answer, time.monotonic() + self._keep_s)
        self._kept_bytes += len(answer)
        while len(self._kept) > MAX_KEPT or self._kept_bytes > MAX_KEPT_BYTES:
            self._drop_oldest()

    def _forget(self) -> None:
        now = time.monotonic()
        while self._kept and next(iter(self._kept.values())).until < now:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._kept_bytes -= len(self._kept.popitem(last=False)[1].answer)


def carry_out(sandbox: Sandbox, job: wire.Job) -> Awaitable[wire.Result]:
    """The call of the Sandbox protocol that `job` stands for."""
    match job:
        case wire.RunJob():
            return sandbox.run(job.program, job.limits)
        case wire.CallJob():
            return sandbox.call(job.program, job.entry_point, job.calls, job.limits)
        case wire.UnitJob():
            return sandbox.test(job.program, job.tests, job.names, job.limits, same_process=job.same_process)


def failed(job: wire.Job, tier: Tier, detail: str) -> wire.Result:
    """The infra_error result of the type that `job` asks for."""
    execution = Execution(status="infra_error", tier=tier, detail=detail)
    match job:
        case wire.RunJob():
            return execution
        case wire.CallJob():
            return CallExecution(execution=execution)
        case wire.UnitJob():
            return UnitExecution(tester=execution, solution=execution)


def waited(result: wire.Result, queue_s: float) -> wire.Result:
    """The same result with the wait for a core of this server added."""

    def longer(execution: Execution) -> Execution:
        return replace(execution, queue_s=execution.queue_s + queue_s)

    match result:
        case Execution():
            return longer(result)
        case CallExecution():
            return replace(result, execution=longer(result.execution))
        case UnitExecution():
            return replace(result, tester=longer(result.tester), solution=longer(result.solution))


def dump(result: wire.Result) -> bytes:
    match result:
        case Execution():
            return wire.EXECUTION.dump(result)
        case CallExecution():
            return wire.CALL_EXECUTION.dump(result)
        case UnitExecution():
            return wire.UNIT_EXECUTION.dump(result)


def metrics(table: JobTable) -> str:
    """The counts in the text format of Prometheus."""
    counts = table.counts
    lines = ["# TYPE strop_sandbox_jobs_total counter"]
    lines += [
        f'strop_sandbox_jobs_total{{path="{path}",status="{status}"}} {n}'
        for (path, status), n in sorted(counts.jobs.items())
    ]
    lines += ["# TYPE strop_sandbox_refused_total counter"]
    lines += [f'strop_sandbox_refused_total{{code="{code}"}} {n}' for code, n in sorted(counts.refused.items())]
    for name, value in (("running", table.running), ("waiting", table.waiting), ("capacity", table.capacity)):
        lines += [f"# TYPE strop_sandbox_{name} gauge", f"strop_sandbox_{name} {value}"]
    lines += ["# TYPE strop_sandbox_job_seconds histogram"]
    total = 0
    for bound, n in zip((*map(str, BUCKETS_S), "+Inf"), counts.buckets, strict=True):
        total += n
        lines += [f'strop_sandbox_job_seconds_bucket{{le="{bound}"}} {total}']
    lines += [f"strop_sandbox_job_seconds_sum {counts.seconds:.6f}", f"strop_sandbox_job_seconds_count {total}"]
    return "\n".join(lines) + "\n"
