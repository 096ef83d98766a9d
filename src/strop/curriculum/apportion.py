"""Which domain each ticket goes to, so that every count stays within one of the sum of its targets.

Every ticket adds to each domain its share: S_d grows by w_d, and sum_d S_d is the number of tickets. The k-th ticket of
a domain may come once S_d > k - 1 and must come before S_d exceeds k by any more: then |n_d - S_d| <= 1. Tickets are so
many unit jobs with a release and a deadline, and the one due first is taken (Tijdeman 1980, the chairman assignment
problem; earliest deadline first is optimal for unit jobs). Deadlines are those under the present shares. Constant
shares from n = S = 0 are always feasible; a change of shares is taken as far as every deadline can still be met.

Shapes: D domains.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
TOLERANCE = 1e-9  # of a ticket: sums of shares are rounded
HALVINGS = 6  # how finely a limited change of shares is sought


def wanted_at(ticket: int, first: int, base: Array, shares: Array) -> Array:
    """S [D] once `ticket` tickets are assigned, where it was `base` at `first` and `shares` are in force since."""
    return base + shares * (ticket - first)


def next_domain(ticket: int, counts: Counts, first: int, base: Array, shares: Array) -> int:
    """The domain of `ticket`, of those that would not exceed their quota the one due first; ties go to the lower one.

    `counts` [D] are of the tickets before it; `first`, `base` and `shares` as in `wanted_at`.
    """
    eligible = (counts < wanted_at(ticket + 1, first, base, shares)) & (shares > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        due = np.where(eligible, (counts + 1 - base) / shares, np.inf)
    return int(due.argmin())


def keeps_deadlines(owed: Array, shares: Array) -> bool:
    """Whether constant `shares` from here on can be served within one, where `owed` [D] = S - n now.

    Hall's condition of unit jobs: the j-th deadline must leave j tickets. Jobs released later meet it by themselves, so
    it is enough to look ahead until every domain that is ahead of its target (owed < 0) is no longer.
    """
    active = shares > 0
    owed, shares = owed[active], shares[active]
    horizon = float((-owed / shares).max())
    jobs = np.maximum(0, np.ceil(owed + shares * horizon)).astype(np.int64)
    ends = np.cumsum(jobs)
    number = np.arange(1, ends[-1] + 1) - np.repeat(ends - jobs, jobs)  # k, from 1, within each domain
    slack = np.sort((number - np.repeat(owed, jobs)) / np.repeat(shares, jobs))  # tickets that may pass without the job
    return bool((np.floor(slack + TOLERANCE) >= np.arange(len(slack))).all())


def furthest_change(owed: Array, old: Array, new: Array) -> tuple[float, Array]:
    """The part in [0, 1] of the way from `old` to `new` shares that keeps every deadline, and the shares [D] there.

    The old shares do, since they have so far. A part of 0 means that the change has to wait.
    """
    if keeps_deadlines(owed, new):
        return 1.0, new
    kept, broken = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (kept + broken) / 2
        if keeps_deadlines(owed, old + middle * (new - old)):
            kept = middle
        else:
            broken = middle
    return kept, old + kept * (new - old)
