"""Chat completions over HTTP: bounded concurrency, retries with backoff, and every way to fail told apart."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import httpx2

from strop.core.errors import ConfigError, InfraError, RewardError

BUSY = frozenset({408, 409, 425, 429})  # and all from 500: another try may do
CONTENT = frozenset({400, 413, 422})  # may be about what was sent
MAX_BACKOFF_S = 30.0
MAX_WAIT_S = 300.0  # a server that asks for more is as good as gone
JITTER = 0.5


class RequestRefused(InfraError):
    """The endpoint will not take this request, perhaps for what it holds."""


class _Trouble(Exception):
    """A failure that another try may mend, with what the server asks to wait."""

    def __init__(self, text: str, wait_s: float = 0.0) -> None:
        super().__init__(text)
        self.wait_s = wait_s


class Lane:
    """The connections and turns of one event loop; open while a call of that loop is on its way."""

    def __init__(self, http: httpx2.AsyncClient, max_concurrency: int) -> None:
        self.http = http
        self.turns = asyncio.Semaphore(max_concurrency)
        self.num_users = 0
        self.not_before = 0.0  # what a 429 says holds for all calls, not for the one that met it
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, key: str) -> asyncio.Lock:
        """Equal questions that come at once are asked once."""
        return self._locks.setdefault(key, asyncio.Lock())

    async def wait(self) -> None:
        while (rest := self.not_before - time.monotonic()) > 0:
            await asyncio.sleep(rest * random.uniform(1.0, 1.1))


class ChatClient:
    """Calls of one OpenAI-compatible endpoint. `counts` holds requests, retries, failures and tokens."""

    def __init__(
        self,
        endpoint: str,
        *,
        key_env: str | None,
        max_concurrency: int,
        call_timeout_s: float,
        max_tries: int,
        backoff_s: float,
    ) -> None:
        self.url = f"{checked_endpoint(endpoint)}/chat/completions"
        self.counts: Counter[str] = Counter()
        self._key_env = key_env
        self._max_concurrency = max_concurrency
        self._call_timeout_s = call_timeout_s
        self._max_tries = max_tries
        self._backoff_s = backoff_s
        self._lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, Lane] = WeakKeyDictionary()

    @contextlib.asynccontextmanager
    async def lane(self) -> AsyncIterator[Lane]:
        """The running loop's lane. Its connections are closed by the last who leaves, so none outlives its loop."""
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(loop)
        if lane is None:
            lane = self._lanes[loop] = Lane(self._connect(), self._max_concurrency)
        lane.num_users += 1
        try:
            yield lane
        finally:
            lane.num_users -= 1
            if not lane.num_users:
                del self._lanes[loop]
                await lane.http.aclose()

    def _connect(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            verify=_certificates() if self.url.startswith("https") else False,
            headers={"Authorization": f"Bearer {key_in(self._key_env)}"} if self._key_env is not None else {},
            timeout=None,  # every call has one of its own
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=self._max_concurrency),
        )

    async def complete(self, lane: Lane, body: Mapping[str, Any]) -> str:
        """The text of one completion.

        InfraError when no try gave one, RequestRefused when the endpoint will not take this request, RewardError when
        it takes none as it is set up here.
        """
        trouble: _Trouble | None = None
        for attempt in range(self._max_tries):
            if trouble is not None:
                self.counts["retries"] += 1
                await asyncio.sleep(delay_s(attempt, self._backoff_s, random.random()))
            try:
                return await self._once(lane, body)
            except _Trouble as met:
                trouble = met
            self.counts["failures"] += 1
            if trouble.wait_s > MAX_WAIT_S:
                break
            lane.not_before = max(lane.not_before, time.monotonic() + trouble.wait_s)
        raise InfraError(f"the judge at {self.url} gave no answer: {trouble}")

    async def _once(self, lane: Lane, body: Mapping[str, Any]) -> str:
        try:
            async with lane.turns:
                await lane.wait()  # with the turn in hand: a wait may have been asked for since
                self.counts["requests"] += 1
                async with asyncio.timeout(self._call_timeout_s):
                    response = await lane.http.post(self.url, content=json.dumps(body).encode(), headers=JSON_HEADERS)
        except TimeoutError:
            raise _Trouble(f"none in {self._call_timeout_s} s") from None
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise _Trouble(f"{type(error).__name__} {error}".strip()) from error
        if response.status_code in BUSY or response.status_code >= 500:
            raise _Trouble(_said(response), retry_after_s(response.headers.get("Retry-After")))
        if response.status_code in CONTENT:
            raise RequestRefused(f"the judge at {self.url} refused: {_said(response)}")
        if response.status_code != 200:
            raise RewardError(f"the judge at {self.url} answers {_said(response)}: mend its endpoint, model or key_env")
        return self._text(response)

    def _text(self, response: httpx2.Response) -> str:
        try:
            answer = json.loads(response.content)
            text = answer["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise _Trouble("what came is no chat completion") from None
        usage = answer.get("usage")
        for name in ("prompt_tokens", "completion_tokens"):
            count = usage.get(name) if isinstance(usage, dict) else None
            self.counts[name] += count if isinstance(count, int) else 0
        return text if isinstance(text, str) else ""  # null: a judge that only thought


JSON_HEADERS = {"Content-Type": "application/json"}


@cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


def checked_endpoint(endpoint: str) -> str:
    """`endpoint` without a slash at its end. ConfigError when it is no HTTP URL."""
    try:
        fits = endpoint.startswith(("http://", "https://")) and bool(httpx2.URL(endpoint).host)
    except httpx2.InvalidURL:
        fits = False
    if not fits:
        raise ConfigError(f"endpoint must be the URL of a chat API, such as http://127.0.0.1:8000/v1, got {endpoint!r}")
    return endpoint.rstrip("/").removesuffix("/chat/completions")


def key_in(name: str) -> str:
    """The key in the environment variable `name`. ConfigError when it holds none."""
    key = os.environ.get(name, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigError(f"the environment variable {name!r} holds no key for the judge: export it, or drop key_env")
    return key


def delay_s(attempt: int, backoff_s: float, draw: float) -> float:
    """Seconds before try number `attempt` (1 is the second): doubling, with jitter by `draw` in [0, 1)."""
    longest = min(MAX_BACKOFF_S, backoff_s * 2.0 ** min(attempt - 1, 30))
    return longest * (1.0 - JITTER * draw)


def retry_after_s(value: str | None, now: datetime | None = None) -> float:
    """Seconds that a Retry-After header asks for, as a number or a date; 0 when there is none that can be read."""
    if value is None:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
        except (ValueError, TypeError, IndexError):
            return 0.0
        until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
        seconds = (until - (now or datetime.now(UTC))).total_seconds()
    return seconds if 0.0 < seconds < float("inf") else 0.0


def _said(response: httpx2.Response) -> str:
    """A refusal on one short line, with its status."""
    return f"{response.status_code} {' '.join(response.text.split())[:160]}".strip()
