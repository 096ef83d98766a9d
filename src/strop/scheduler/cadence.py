"""When something is due."""

from __future__ import annotations


def is_due(step: int, every: int, last: int) -> bool:
    """Whether step `step` (counted from 1) ends an interval of `every` steps, or the run. `every = 0`: never."""
    return every > 0 and (step % every == 0 or step == last)
