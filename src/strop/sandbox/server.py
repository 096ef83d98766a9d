"""A sandbox over HTTP: `/run`, `/call` and `/test` take the bodies of `wire`, `/health` and `/metrics` tell how it is.

A refusal is one line of JSON, `{"error": ...}`: 400 a body that is not of its form, 401 a wrong token, 409 a key used
for two bodies, 413 a body too large, 415 a body not said to be JSON, 429 too many jobs waiting (with Retry-After).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import importlib.metadata
import ipaddress
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from strop.core.errors import ConfigError, StropError
from strop.core.programs import Limits, Program, Tier
from strop.core.protocols import Sandbox
from strop.sandbox import wire
from strop.sandbox.job_table import JobTable, KeyReused, metrics

RETRY_AFTER_S = 1
FORMS: dict[str, wire.Form[wire.RunJob] | wire.Form[wire.CallJob] | wire.Form[wire.UnitJob]] = {
    "/run": wire.RUN_JOB,
    "/call": wire.CALL_JOB,
    "/test": wire.UNIT_JOB,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeConfig:
    """How a server listens and what it takes.

    `capacity` jobs run at once and `max_queue` more may wait; a job may ask for at most `max_wall_s` of wall time. An
    answer is kept for `keep_s` for a client that asks again. On shut-down running jobs get `grace_s` to finish.
    """

    host: str = "127.0.0.1"
    port: int = 8700
    token: str | None = None
    capacity: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    max_queue: int = 256
    max_body_bytes: int = 64 << 20
    max_wall_s: float = 600.0
    body_s: float = 60.0
    keep_s: float = 300.0
    grace_s: float = 10.0

    def __post_init__(self) -> None:
        if self.token is not None and (not self.token.isascii() or not self.token.isprintable() or " " in self.token):
            raise ConfigError("the token must be printable ASCII without blanks")
        if self.token == "":
            raise ConfigError("the token is empty; give one, or none at all to listen on loopback only")
        if self.capacity < 1 or self.max_queue < 0:
            raise ConfigError("capacity must be at least 1 and max_queue at least 0")


class _Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Service:
    """The endpoints over one job table."""

    def __init__(self, table: JobTable, config: ServeConfig) -> None:
        self._table = table
        self._config = config
        self._admitted = 0  # requests being read, waiting or running

    async def job(self, request: Request) -> Response:
        """Answer one job, or refuse it in one line."""
        full = self._admitted >= self._config.capacity + self._config.max_queue
        self._admitted += not full
        try:
            body = await self._body(request, discard=full)
            if full:
                raise _Refusal(429, f"{self._table.waiting} jobs are waiting; try again later or another server")
            return await self._answer(request, body)
        except _Refusal as refusal:
            return self._refused(refusal)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        finally:
            self._admitted -= not full

    async def health(self, request: Request) -> Response:
        table = self._table
        health = wire.Health(
            tier=table.tier,
            running=table.running,
            waiting=table.waiting,
            capacity=table.capacity,
            max_queue=self._config.max_queue,
            version=importlib.metadata.version("strop"),
        )
        return Response(wire.HEALTH.dump(health), media_type="application/json")

    async def metrics(self, request: Request) -> Response:
        return PlainTextResponse(metrics(self._table), media_type="text/plain; version=0.0.4")

    async def _body(self, request: Request, *, discard: bool) -> bytes:
        """The body, read to its end even where it is refused: a client that still writes would miss the refusal."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise _Refusal(415, "the content type must be application/json")
        limit = self._config.max_body_bytes
        too_large = _Refusal(413, f"the body has more than {limit} bytes; send less, or raise max_body_bytes")
        declared = request.headers.get("content-length", "0")
        if declared.isdecimal() and int(declared[:20]) > 2 * limit:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._config.body_s):
                async for part in request.stream():
                    size += len(part)
                    if size > 2 * limit:
                        raise too_large
                    if not discard and size <= limit:
                        parts.append(part)
        except TimeoutError:
            raise _Refusal(408, f"the body did not arrive within {self._config.body_s} s") from None
        if size > limit:
            raise too_large
        return b"".join(parts)

    async def _answer(self, request: Request, body: bytes) -> Response:
        path = request.url.path
        try:
            job = FORMS[path].load(body)
        except wire.WireError as error:
            raise _Refusal(400, str(error)) from None
        if job.limits.wall > self._config.max_wall_s:
            raise _Refusal(400, f"limits: at most {self._config.max_wall_s:g} s of wall time, got {job.limits.wall:g}")
        digest = hashlib.blake2b(path.encode() + body).digest()
        answer = asyncio.create_task(self._table.answer(path, job, digest))
        gone = asyncio.create_task(_disconnect(request))
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ClientDisconnect
            if answer.cancelled():
                raise _Refusal(503, "the server is shutting down; try another")
            return Response(answer.result(), media_type="application/json")
        except KeyReused as error:
            raise _Refusal(409, str(error)) from None
        except StropError as error:
            raise _Refusal(400, str(error)) from None
        finally:
            gone.cancel()
            answer.cancel()

    def _refused(self, refusal: _Refusal) -> Response:
        self._table.counts.refused[refusal.status] += 1
        headers = {"Retry-After": str(RETRY_AFTER_S)} if refusal.status == 429 else None
        return _error(refusal.status, str(refusal), headers)


@dataclass(frozen=True, slots=True)
class _TokenGate:
    """Lets through what bears the token."""

    app: ASGIApp
    token: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"]).get(b"authorization", b"")
        if hmac.compare_digest(given, b"Bearer " + self.token.encode()):
            return await self.app(scope, receive, send)
        await _error(401, "a bearer token is needed", {"WWW-Authenticate": "Bearer"})(scope, receive, send)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to `serve_forever`: this one would end the process before the sandbox is closed."""
        yield


def make_app(table: JobTable, config: ServeConfig) -> ASGIApp:
    """The ASGI application that serves the jobs of `table`."""
    service = _Service(table, config)
    routes = [Route(path, service.job, methods=["POST"]) for path in FORMS]
    routes += [Route("/health", service.health), Route("/metrics", service.metrics)]
    app = Starlette(routes=routes)
    return app if config.token is None else _TokenGate(app, config.token)


async def serve(
    sandbox: Sandbox, config: ServeConfig, listener: socket.socket, *, ready: Callable[[str], None] = lambda url: None
) -> None:
    """Serve on `listener` until cancelled; then running jobs finish or, after `grace_s`, are cancelled.

    `ready` is given the URL. ConfigError where the sandbox fails a trial run.
    """
    table = JobTable(sandbox, tier=await _trial(sandbox), capacity=config.capacity, keep_s=config.keep_s)
    server = _Server(
        uvicorn.Config(
            make_app(table, config),
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            backlog=1024,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=max(1, round(config.grace_s)),
            server_header=False,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        ready(_url(listener))
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        try:
            await serving
        finally:
            await table.close()


def serve_forever(
    open_sandbox: Callable[[], AbstractAsyncContextManager[Sandbox]],
    config: ServeConfig,
    *,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Open a sandbox and serve it until SIGINT or SIGTERM. For the main thread of a process of its own.

    ConfigError, before the sandbox is opened, where the address needs a token or cannot be used.
    """

    async def main(listener: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        async with open_sandbox() as sandbox:
            await serve(sandbox, config, listener, ready=ready)

    with contextlib.closing(bind(config)) as listener, contextlib.suppress(asyncio.CancelledError):
        asyncio.run(main(listener))


def bind(config: ServeConfig) -> socket.socket:
    """A socket at the address of `config` that does not listen yet; ConfigError where that is not to be."""
    try:
        found = socket.getaddrinfo(config.host or None, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        if config.token is None and not ipaddress.ip_address(address[0]).is_loopback:
            raise ConfigError(f"listening on {config.host!r} is open to other machines: give a token, or use 127.0.0.1")
        with contextlib.ExitStack() as on_error:
            # the protocol by name: without it asyncio leaves Nagle's algorithm on, which costs 40 ms an answer
            listener = on_error.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            on_error.pop_all()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot listen on {config.host}:{config.port}: {reason}; choose another address") from None
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _trial(sandbox: Sandbox) -> Tier:
    """The tier of a complete run, so that a server that listens is one that works."""
    execution = await sandbox.run(Program(language="python", source="print(6 * 7)"), Limits())
    if execution.status != "ok" or execution.stdout != b"42\n":
        raise ConfigError(f"the sandbox failed its trial run: {execution.status} {execution.detail}".rstrip())
    return execution.tier


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps({"error": " ".join(message.split())})
    return Response(body, status, headers, media_type="application/json")
