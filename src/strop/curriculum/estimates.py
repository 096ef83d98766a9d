"""What is known of each domain: decayed sums over its groups, counted before any filtering.

Every sum is multiplied by `Decay.group` when another group of the domain arrives, and by `Decay.ticket` for every
ticket of any domain, since the policy moves in the meantime. Means are ratios of such sums, so they are unbiased from
the first group on. Shapes: D domains, G scored rollouts of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from strop.core.types import RolloutGroup

Array = NDArray[np.float64]
MIN_SPREAD = 1e-6  # below it scores differ by rounding only
GROUPS_FOR_BEST = 8  # an average over fewer is too lucky to be held against a domain


@dataclass(frozen=True, kw_only=True, slots=True)
class Decay:
    """What is left of old evidence: per `group` of the domain, per `ticket` of any, and of the two running averages."""

    group: float = 0.9
    ticket: float = 0.9997
    fast: float = 0.7
    slow: float = 0.95


@dataclass(frozen=True, slots=True)
class Seen:
    """What one group shows: scores in [0, 1] of its trainable rollouts, and what all of them cost."""

    scores: tuple[float, ...]
    tokens: float
    seconds: float

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimates:
    """Sums of one domain. `evidence` counts scored rollouts, `weight` groups with one, `costed` all groups, decayed.

    `fast`, `slow` and `best` are running averages of the pass rate and the highest `slow` so far; `groups` and
    `rollouts` are plain counts, and `updated` is the number of tickets of all domains when the last group arrived.
    """

    groups: int = 0
    rollouts: int = 0
    updated: int = 0
    evidence: float = 0.0
    passes: float = 0.0
    weight: float = 0.0
    signals: float = 0.0
    advantages: float = 0.0
    costed: float = 0.0
    tokens: float = 0.0
    seconds: float = 0.0
    fast: float = 0.0
    slow: float = 0.0
    best: float = 0.0
    averaged: int = 0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Table:
    """Estimates of all domains as arrays [D]; `strategies` turn them into weights.

    `pass_rate` and `learnability` are the posterior means of p and p(1 - p) under Beta(1 + passes, 1 + fails)
    (2502.12272); `signal_rate` counts one imagined group with signal, so that a domain never seen is worth a try.
    `advantage` is the mean |A| before scaling. Costs are per group, 0 where none was seen. `confidence` in [0, 1) is
    the part of the posterior that is evidence. `fell` is how far `slow` lies below its best.
    """

    groups: Array
    weight: Array
    confidence: Array
    pass_rate: Array
    learnability: Array
    signal_rate: Array
    advantage: Array
    tokens: Array
    seconds: Array
    progress: Array
    fell: Array


def measure(group: RolloutGroup, signal: str) -> Seen:
    """The raw scores named `signal` of the group's trainable members, clipped to [0, 1], and its tokens and seconds."""
    scores = []
    for rollout in group.trainable:
        if rollout.reward is not None and signal in rollout.reward.scores:
            value = rollout.reward.scores[signal].value
            scores += [min(1.0, max(0.0, value))] if value is not None else []
    seconds = (r.timing["rollout_s"] for r in group.rollouts if "rollout_s" in r.timing)
    return Seen(tuple(scores), float(sum(r.num_tokens for r in group.rollouts)), float(sum(seconds)))


def with_group(old: Estimates, seen: Seen, ticket: int, decay: Decay, *, current: bool = True) -> Estimates:
    """`old` with one more group, the `ticket`-th of all (from 1). Where its scores are not `current` only its cost
    counts: it is of a level that the domain has left."""
    new = replace(
        _aged(old, decay.ticket ** (ticket - old.updated)), groups=old.groups + 1, rollouts=old.rollouts, updated=ticket
    )
    new = replace(
        new,
        costed=decay.group * new.costed + 1,
        tokens=decay.group * new.tokens + seen.tokens,
        seconds=decay.group * new.seconds + seen.seconds,
    )
    if not seen.scores or not current:
        return new
    scores = np.array(seen.scores)
    count = new.averaged + 1
    fast = new.fast + max(1 - decay.fast, 1 / count) * (seen.mean - new.fast)
    slow = new.slow + max(1 - decay.slow, 1 / count) * (seen.mean - new.slow)
    return replace(
        new,
        rollouts=new.rollouts + len(scores),
        evidence=decay.group * new.evidence + len(scores),
        passes=decay.group * new.passes + float(scores.sum()),
        weight=decay.group * new.weight + 1,
        signals=decay.group * new.signals + float(np.ptp(scores) > MIN_SPREAD),
        advantages=decay.group * new.advantages + float(np.abs(scores - scores.mean()).mean()),
        fast=fast,
        slow=slow,
        best=max(new.best, slow) if count >= GROUPS_FOR_BEST else 0.0,
        averaged=count,
    )


def at_new_level(old: Estimates) -> Estimates:
    """Counts and cost alone: what was known of the pass rate is of another level."""
    kept = ("groups", "rollouts", "updated", "costed", "tokens", "seconds")
    return Estimates(**{name: getattr(old, name) for name in kept})


def tabulate(estimates: Sequence[Estimates], ticket: int, decay: Decay) -> Table:
    """The estimates of all domains as of `ticket` tickets."""
    names = [field.name for field in fields(Estimates)]
    rows = np.array([[getattr(e, name) for name in names] for e in estimates], np.float64)
    get = dict(zip(names, rows.T, strict=True))
    age = decay.ticket ** (ticket - get["updated"])
    right = 1 + age * get["passes"]
    wrong = 1 + age * (get["evidence"] - get["passes"])
    both = right + wrong
    return Table(
        groups=get["groups"],
        weight=age * get["weight"],
        confidence=1 - 2 / both,
        pass_rate=right / both,
        learnability=right * wrong / (both * (both + 1)),
        signal_rate=(age * get["signals"] + 1) / (age * get["weight"] + 1),
        advantage=_ratio(get["advantages"], get["weight"]),
        tokens=_ratio(get["tokens"], get["costed"]),
        seconds=_ratio(get["seconds"], get["costed"]),
        progress=get["fast"] - get["slow"],
        fell=np.maximum(0.0, get["best"] - get["slow"]),
    )


def _aged(old: Estimates, factor: float) -> Estimates:
    sums = ("evidence", "passes", "weight", "signals", "advantages", "costed", "tokens", "seconds")
    return replace(old, **{name: factor * getattr(old, name) for name in sums})


def _ratio(sums: Array, counts: Array) -> Array:
    return np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
