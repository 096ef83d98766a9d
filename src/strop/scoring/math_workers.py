"""The worker processes of the reward `math`."""

from __future__ import annotations

from functools import cache

from strop.scoring.workers import Canary, WorkerPool

DECIDE = "strop.rewards.math.symbolic:decide"
KNOWN = Canary((r"\frac{1}{3}", [r"\int_0^1 x^2 dx"]), True)  # it imports all that later calls may need
MEMORY_BYTES = 2 << 30  # address space: the libraries alone take a few hundred MiB of it


def open_math_workers(workers: int = 2, deadline_s: float = 2.0, memory_bytes: int = MEMORY_BYTES) -> WorkerPool:
    """Workers that say whether a reading of an answer is the gold one; their owner closes them."""
    return WorkerPool(
        target=DECIDE, canary=KNOWN, workers=workers, deadline_s=deadline_s, memory_bytes=memory_bytes, max_calls=2000
    )


@cache
def math_workers() -> WorkerPool:
    """The workers that all rewards of this process share; none starts before the first call, all end with it."""
    return open_math_workers()
