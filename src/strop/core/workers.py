"""What a call in a worker process came to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from strop.core.types import JSON, Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerOutcome:
    """`value` is what the function returned, and None unless the outcome is `scored`.

    `timeout` and `crash` are the fault of what was given, by the canary rule; `infra` is nobody's.
    """

    value: JSON = None
    outcome: Outcome = "scored"
    detail: str = ""


WorkerCall = Callable[..., Awaitable[WorkerOutcome]]
