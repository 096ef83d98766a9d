"""What a mixture knows, as typed values and as JSON for checkpoints.

The JSON form:

    observed   {domain: tickets observed}
    rounds     shares and levels in force from ticket `first` on, from the last observed ticket to the last fixed one;
               `base` are the sums of targets before `first`, `part` how much of the wished change deadlines allowed
    factors    {domain: what its weight is multiplied by}, of the domains that an action raised or lowered
    solved     tasks that were passed clean or that rest; see `retirement`
    domains    {domain: wanted (the sum of its targets), realised, level, level_rollouts, level_passes, estimates}

Lists are in the order of the run's domains. Shapes: D domains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np

from strop.core.errors import ConfigError
from strop.core.types import JSON
from strop.curriculum.apportion import Array, Counts, next_domain, wanted_at
from strop.curriculum.difficulty import Standing
from strop.curriculum.estimates import Estimates
from strop.curriculum.retirement import Solved


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Round:
    """What is in force from ticket `first` on: shares [D], sums of targets [D] before it, and frontier levels."""

    first: int
    base: Array
    shares: Array
    levels: tuple[int | None, ...]
    part: float = 1.0

    def wanted(self, ticket: int) -> Array:
        return wanted_at(ticket, self.first, self.base, self.shares)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Known:
    """A state with its consequences: `plan` are (domain, its turn) of the tickets from `observed` on whose shares are
    fixed, and `ahead` the counts [D] after them."""

    observed: int
    counts: Counts
    rounds: tuple[Round, ...]
    estimates: tuple[Estimates, ...]
    standings: tuple[Standing | None, ...]
    plan: tuple[tuple[int, int], ...]
    ahead: Counts
    factors: Array
    solved: Solved

    def round_of(self, ticket: int) -> Round:
        return next(r for r in reversed(self.rounds) if r.first <= ticket)


def planned(
    plan: Sequence[tuple[int, int]], ahead: Counts, rounds: Sequence[Round], first: int, end: int
) -> tuple[tuple[tuple[int, int], ...], Counts]:
    """`plan` and `ahead` with the tickets from `first` to before `end`."""
    added, counts = list(plan), ahead.copy()
    for ticket in range(first, end):
        now = next(r for r in reversed(rounds) if r.first <= ticket)
        number = next_domain(ticket, counts, now.first, now.base, now.shares)
        added.append((number, int(counts[number])))
        counts[number] += 1
    return tuple(added), counts


def to_json(known: Known, names: Sequence[str]) -> dict[str, JSON]:
    wanted, counts = _wanted(known), known.counts.tolist()
    return {
        "observed": dict(zip(names, counts, strict=True)),
        "rounds": [_round_json(r) for r in known.rounds],
        "factors": {n: f for n, f in zip(names, known.factors.tolist(), strict=True) if f != 1},
        "solved": cast(JSON, known.solved),
        "domains": {
            name: _domain_json(wanted[n], counts[n], known.estimates[n], known.standings[n])
            for n, name in enumerate(names)
        },
    }


def next_json(known: Known, names: Sequence[str], number: int, before: Mapping[str, Any]) -> dict[str, JSON]:
    """`to_json(known, names)`, made from the state `before` the last group, which was of domain `number`."""
    wanted, domains = _wanted(known), before["domains"]
    changed = _domain_json(wanted[number], int(known.counts[number]), known.estimates[number], known.standings[number])
    rounds = {r["first"]: r for r in before["rounds"]}
    return {
        "observed": {**before["observed"], names[number]: changed["realised"]},
        "rounds": [rounds[r.first] if r.first in rounds else _round_json(r) for r in known.rounds],
        "factors": before["factors"],
        "solved": cast(JSON, known.solved),
        "domains": {n: {**domains[n], "wanted": w} for n, w in zip(names, wanted, strict=True)}
        | {names[number]: changed},
    }


def _wanted(known: Known) -> list[float]:
    return cast(list[float], known.round_of(known.observed).wanted(known.observed).tolist())


def _round_json(now: Round) -> dict[str, JSON]:
    return {
        "first": now.first,
        "part": now.part,
        "shares": now.shares.tolist(),
        "base": now.base.tolist(),
        "levels": list(now.levels),
    }


def _domain_json(wanted: float, count: int, estimates: Estimates, standing: Standing | None) -> dict[str, JSON]:
    return {
        "wanted": wanted,
        "realised": count,
        "level": None if standing is None else standing.level,
        "level_rollouts": 0 if standing is None else standing.rollouts,
        "level_passes": 0.0 if standing is None else standing.passes,
        "estimates": asdict(estimates),
    }


def from_json(state: Mapping[str, Any], names: Sequence[str], levelled: Sequence[bool], num_planned: int) -> Known:
    """ConfigError where the state is of other domains than `names`, or of levels a domain has no more, or had not."""
    if "rounds" not in state:
        raise ConfigError("the checkpoint's curriculum is of an earlier version of Strop: start a new run")
    domains = state["domains"]
    if set(domains) != set(names):
        other = sorted(set(domains) ^ set(names))
        raise ConfigError(f"the checkpoint's curriculum has other domains than the run, such as {other[0]!r}")
    changed = [n for n, has in zip(names, levelled, strict=True) if has != (domains[n]["level"] is not None)]
    if changed:
        raise ConfigError(f"domain {changed[0]!r} has levels in the checkpoint or in the run, but not in both")
    counts = np.array([domains[name]["realised"] for name in names], np.int64)
    rounds = tuple(
        Round(
            first=r["first"],
            base=np.array(r["base"], np.float64),
            shares=np.array(r["shares"], np.float64),
            levels=tuple(r["levels"]),
            part=r["part"],
        )
        for r in state["rounds"]
    )
    observed = int(counts.sum())
    plan, ahead = planned((), counts, rounds, observed, observed + num_planned)
    factors = {**dict.fromkeys(names, 1.0), **state["factors"]}
    return Known(
        observed=observed,
        counts=counts,
        rounds=rounds,
        estimates=tuple(Estimates(**domains[name]["estimates"]) for name in names),
        standings=tuple(_standing(domains[name]) for name in names),
        plan=plan,
        ahead=ahead,
        factors=np.array([factors[name] for name in names]),
        solved=state.get("solved", {}),
    )


def _standing(domain: Mapping[str, Any]) -> Standing | None:
    if domain["level"] is None:
        return None
    return Standing(level=domain["level"], rollouts=domain["level_rollouts"], passes=domain["level_passes"])
