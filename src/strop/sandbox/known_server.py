"""What a client knows of one sandbox server, and how it reads what the server says when it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass, field

import httpx2

BACK_OFF_S = 0.25
MAX_BACK_OFF_S = 15.0


@dataclass(eq=False, slots=True)
class KnownServer:
    """What the client knows of one server. `strikes` counts faults in a row, each a longer pause."""

    url: str
    up: bool = False
    capacity: int = 1
    max_in_flight: int = 1
    in_flight: int = 0
    attempts: set[asyncio.Task[None]] = field(default_factory=set)
    paused_until: float = 0.0
    strikes: int = 0
    trouble: str = "not reached yet"
    ask_now: asyncio.Event = field(default_factory=asyncio.Event)

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, time.monotonic() + seconds)

    def strike(self, trouble: str) -> None:
        """A fault: the longer it lasts, the longer the pause. Faults of jobs sent before the pause count once."""
        self.trouble = trouble
        if time.monotonic() >= self.paused_until:
            self.pause(min(BACK_OFF_S * 2**self.strikes, MAX_BACK_OFF_S))
            self.strikes += 1


def error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200] if str(error) else type(error).__name__


def refusal_text(response: httpx2.Response) -> str:
    """What a refusal says, whether it comes from a sandbox server or from something before it."""
    text = response.text
    with contextlib.suppress(ValueError):
        given = json.loads(text[:2000])
        text = given["error"] if isinstance(given, dict) and isinstance(given.get("error"), str) else text
    return " ".join(text[:300].split())


def retry_after_s(response: httpx2.Response) -> float:
    text = response.headers.get("Retry-After", "1")
    return min(float(text), MAX_BACK_OFF_S) if text.isdecimal() else 1.0
