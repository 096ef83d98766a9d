"""The sandbox behind one or several servers: the same protocol, with retries, fair shares and no lost jobs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from strop.core.errors import ConfigError, DataError, InfraError
from strop.core.programs import Call, CallExecution, Execution, Limits, Program, Tier, UnitExecution
from strop.core.protocols import Sandbox
from strop.sandbox import wire
from strop.sandbox.fair_queue import FairQueue
from strop.sandbox.known_server import (
    BACK_OFF_S,
    MAX_BACK_OFF_S,
    KnownServer,
    error_text,
    refusal_text,
    retry_after_s,
)

CONNECT_S = 10.0
SLACK_S = 15.0  # set-up, compilation of a cached source, transport
COMPILE_S = 60.0

R = TypeVar("R", Execution, CallExecution, UnitExecution)


@dataclass(eq=False, slots=True)
class _Job:
    """One job on its way: its body, how its answer is read, and how often it may have run without one."""

    path: str
    body: bytes
    domain: str
    timeout_s: float
    read: Callable[[bytes], wire.Result]
    answer: asyncio.Future[wire.Result]
    attempt: asyncio.Task[None] | None = None
    failures: int = 0


class RemoteSandbox:
    """A Sandbox over servers at `urls`; an async context manager, for one event loop.

    A job goes to the server with the lowest share of its capacity in flight, at most `depth` times its capacity. What
    breaks on the way is sent again, elsewhere where possible, under the same key; its first answer is the one taken.
    After `max_failures` attempts that may have run, or when no server has answered for `patience_s`, the result is an
    infra_error. `queue_s` is what an answer may take beyond the limits of its job. Servers are asked for their health
    every `health_s` and are lost when they stay silent for `probe_s` twice.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token: str | None = None,
        patience_s: float = 60.0,
        health_s: float = 2.0,
        probe_s: float = 5.0,
        queue_s: float = 600.0,
        max_failures: int = 4,
        depth: float = 2.0,
    ) -> None:
        if not urls:
            raise ConfigError("a remote sandbox needs at least one server URL")
        for url in urls:
            if not url.startswith(("http://", "https://")):
                raise ConfigError(f"a sandbox server's URL starts with http:// or https://, got {url!r}")
            try:
                httpx2.URL(url)
            except httpx2.InvalidURL as error:
                raise ConfigError(f"{url!r} is no URL of a sandbox server: {error}") from None
        self.tier: Tier = "unsafe"  # that of the last server heard of; nothing better is known before
        self._servers = [KnownServer(url.rstrip("/")) for url in dict.fromkeys(urls)]
        self._token = token
        self._patience_s = patience_s
        self._health_s = health_s
        self._probe_s = probe_s
        self._queue_s = queue_s
        self._max_failures = max_failures
        self._depth = depth
        self._queue: FairQueue[_Job] = FairQueue()
        self._down_since: float | None = None
        self._watchers: list[asyncio.Task[None]] = []
        self._timers: set[asyncio.TimerHandle] = set()

    async def __aenter__(self) -> Self:
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        self._http = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(None, connect=CONNECT_S),  # every call has a time-out of its own
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=30),
            trust_env=False,  # a proxy of the environment is not meant for servers named here
        )
        self._down_since = time.monotonic()
        self._dispatch_in(self._patience_s)
        await asyncio.gather(*(self._ask(server) for server in self._servers))
        refused = [server for server in self._servers if server.trouble.startswith("HTTP 401")]
        if refused:
            await self._http.aclose()
            raise ConfigError(f"the sandbox server {refused[0].url} refuses the token; give the one it started with")
        self._watchers = [asyncio.create_task(self._watch(server)) for server in self._servers]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [*self._watchers, *(task for server in self._servers for task in server.attempts)]
        for server in self._servers:
            server.up, server.trouble = False, "this client is closed"
        self._down_since = -float("inf")  # from here on every job that waits is given up
        for timer in self._timers:
            timer.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._dispatch()
        await self._http.aclose()

    def for_domain(self, name: str) -> Sandbox:
        """The same sandbox for the jobs of one domain. Domains that wait are served in turn."""
        return _DomainSandbox(self, name)

    async def run(self, program: Program, limits: Limits) -> Execution:
        return await self.for_domain("").run(program, limits)

    async def call(self, program: Program, entry_point: str, calls: Sequence[Call], limits: Limits) -> CallExecution:
        return await self.for_domain("").call(program, entry_point, calls, limits)

    async def test(
        self, program: Program, tests: str, names: Sequence[str], limits: Limits, *, same_process: bool = False
    ) -> UnitExecution:
        return await self.for_domain("").test(program, tests, names, limits, same_process=same_process)

    async def answer(self, domain: str, path: str, body: bytes, wall_s: float, form: wire.Form[R]) -> R:
        """The result of one job. InfraError where no server gave one; DataError where the job itself is refused."""
        timeout_s = wall_s + COMPILE_S + SLACK_S + self._queue_s
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        job = _Job(path, body, domain, timeout_s, form.load, answer)
        self._queue.put(domain, job)
        self._dispatch()
        try:
            result: R = await answer
            return result
        finally:
            answer.cancel()
            if job.attempt is not None:
                job.attempt.cancel()

    def _dispatch(self) -> None:
        """Send what waits to servers with room, one domain after the other. Called whenever either may have changed."""
        now = time.monotonic()
        if self._down_since is not None and now >= self._down_since + self._patience_s:
            self._give_up()
        while len(self._queue):
            server = self._next_server(now)
            if server is None:
                return
            job = self._queue.take()
            if job.answer.done():  # its caller has left
                continue
            server.in_flight += 1
            job.attempt = asyncio.create_task(self._attempt(job, server))
            server.attempts.add(job.attempt)
            job.attempt.add_done_callback(functools.partial(self._ended, job, server))

    def _next_server(self, now: float) -> KnownServer | None:
        free = [
            server
            for server in self._servers
            if server.up and server.paused_until <= now and server.in_flight < server.max_in_flight
        ]
        return min(free, key=lambda server: server.in_flight / server.capacity, default=None)

    def _give_up(self) -> None:
        troubles = "; ".join(f"{server.url}: {server.trouble}" for server in self._servers)
        while len(self._queue):
            job = self._queue.take()
            if not job.answer.done():
                job.answer.set_exception(InfraError(f"no sandbox server answers: {troubles}"))

    async def _attempt(self, job: _Job, server: KnownServer) -> None:
        """Send `job` to `server` once and take the answer; a job without one goes back into the queue."""
        try:
            async with asyncio.timeout(job.timeout_s):
                response = await self._http.post(f"{server.url}{job.path}", content=job.body)
            self._settle(job, server, response)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:  # it was not sent, so it did not run
            self._suspect(server, error_text(error))
        except (httpx2.HTTPError, wire.WireError) as error:
            self._suspect(server, error_text(error))
            self._failed(job, server)
        except TimeoutError:
            server.strike(f"no answer to a job within {job.timeout_s:.0f} s")
            self._failed(job, server)

    def _ended(self, job: _Job, server: KnownServer, attempt: asyncio.Task[None]) -> None:
        """Account for an attempt, whatever became of it: also for one that was cancelled before it began."""
        server.in_flight -= 1
        server.attempts.discard(attempt)
        job.attempt = None
        if attempt.cancelled():  # its caller left, or its server was lost
            self._failed(job, server)
        elif (error := attempt.exception()) is not None and not job.answer.done():
            job.answer.set_exception(error)
        if not job.answer.done():
            self._queue.put_back(job.domain, job)
        self._dispatch_in(max(0.0, server.paused_until - time.monotonic()))
        self._dispatch()

    def _settle(self, job: _Job, server: KnownServer, response: httpx2.Response) -> None:
        """Take an answer, or note why there is none yet."""
        code = response.status_code
        if code == 429:
            server.pause(retry_after_s(response) * random.uniform(1, 1.5))
        elif code in (400, 409, 413, 415):
            if not job.answer.done():
                job.answer.set_exception(
                    DataError(f"the sandbox server {server.url} refuses a job: {refusal_text(response)}")
                )
        elif code != 200:
            self._suspect(server, f"HTTP {code}: {refusal_text(response)}")
            self._failed(job, server)
        else:
            result = job.read(response.content)
            if wire.status_of(result) == "infra_error" and job.failures + 1 < self._max_failures:
                server.strike("its sandbox answers with infra_error")
                job.failures += 1
                return
            server.strikes = 0
            if not job.answer.done():
                job.answer.set_result(result)

    def _failed(self, job: _Job, server: KnownServer) -> None:
        job.failures += 1
        if job.failures >= self._max_failures and not job.answer.done():
            trouble = f"{job.failures} attempts failed, the last at {server.url}: {server.trouble}"
            job.answer.set_exception(InfraError(trouble))

    def _suspect(self, server: KnownServer, trouble: str) -> None:
        """An attempt broke: send nothing more to the server until it has answered for its health."""
        server.strike(trouble)
        server.ask_now.set()
        self._down(server)

    def _lost(self, server: KnownServer, trouble: str) -> None:
        """A server does not answer for its health: what is on its way there goes elsewhere."""
        server.trouble = trouble
        self._down(server)
        for task in server.attempts:
            task.cancel()

    def _down(self, server: KnownServer) -> None:
        server.up = False
        if self._down_since is None and not any(server.up for server in self._servers):
            self._down_since = time.monotonic()
            self._dispatch_in(self._patience_s)

    async def _watch(self, server: KnownServer) -> None:
        """Ask a server for its health again and again, more seldom the longer it is away."""
        misses = 0
        while True:
            delay = min(BACK_OFF_S * 2**misses, MAX_BACK_OFF_S) * random.uniform(0.5, 1) if misses else self._health_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await server.ask_now.wait()
            server.ask_now.clear()
            well = await self._ask(server, patient=server.up and misses == 0)
            misses = 0 if well else min(misses + 1, 10)

    async def _ask(self, server: KnownServer, *, patient: bool = False) -> bool:
        """Whether the server is well. `patient` lets one silence pass: the server may only be busy."""
        try:
            async with asyncio.timeout(self._probe_s):
                response = await self._http.get(f"{server.url}/health")
            if response.status_code != 200:
                self._lost(server, f"HTTP {response.status_code}: {refusal_text(response)}")
                return False
            health = wire.HEALTH.load(response.content)
        except TimeoutError:
            if not patient:
                self._lost(server, f"no word of its health within {self._probe_s:g} s")
            return False
        except (httpx2.HTTPError, wire.WireError) as error:
            self._lost(server, error_text(error))
            return False
        self.tier = health.tier
        server.capacity = max(1, health.capacity)
        server.max_in_flight = max(1, min(int(self._depth * server.capacity), server.capacity + health.max_queue))
        server.up = True
        self._down_since = None
        self._dispatch()
        return True

    def _dispatch_in(self, seconds: float) -> None:
        """Dispatch again after a pause, when nothing else may call for it."""

        def fire() -> None:
            self._timers.discard(timer)
            self._dispatch()

        if seconds > 0:
            timer = asyncio.get_running_loop().call_later(seconds, fire)
            self._timers.add(timer)


@dataclass(frozen=True, slots=True)
class _DomainSandbox:
    """A RemoteSandbox as one domain sees it."""

    remote: RemoteSandbox
    domain: str

    async def run(self, program: Program, limits: Limits) -> Execution:
        body = wire.RUN_JOB.dump(wire.RunJob(key=_new_key(), program=program, limits=limits))
        try:
            return await self.remote.answer(self.domain, "/run", body, limits.wall, wire.EXECUTION)
        except InfraError as error:
            return self._infra(error)

    async def call(self, program: Program, entry_point: str, calls: Sequence[Call], limits: Limits) -> CallExecution:
        job = wire.CallJob(key=_new_key(), program=program, entry_point=entry_point, calls=tuple(calls), limits=limits)
        wall_s = (1 + len(calls)) * limits.wall  # the limits hold for the loading and for each call
        try:
            return await self.remote.answer(self.domain, "/call", wire.CALL_JOB.dump(job), wall_s, wire.CALL_EXECUTION)
        except InfraError as error:
            return CallExecution(execution=self._infra(error))

    async def test(
        self, program: Program, tests: str, names: Sequence[str], limits: Limits, *, same_process: bool = False
    ) -> UnitExecution:
        job = wire.UnitJob(
            key=_new_key(), program=program, tests=tests, names=tuple(names), limits=limits, same_process=same_process
        )
        try:
            return await self.remote.answer(
                self.domain, "/test", wire.UNIT_JOB.dump(job), 2 * limits.wall, wire.UNIT_EXECUTION
            )
        except InfraError as error:
            return UnitExecution(tester=self._infra(error), solution=self._infra(error))

    def _infra(self, error: InfraError) -> Execution:
        return Execution(status="infra_error", tier=self.remote.tier, detail=str(error))


def _new_key() -> str:
    return uuid.uuid4().hex
