"""The state of a mixture as rows, one per domain, for a terminal table and for records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from strop.core.types import JSON
from strop.curriculum.estimates import Decay, Estimates


class Interval(Protocol):
    """The ends of an interval, as `strop.evaluation.intervals.wilson` returns them."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class DomainRow:
    """One domain. `wanted` and `realised` are shares of the tickets observed, `num_wanted` and `num_realised` how many,
    `share` what is in force for the last ticket whose share is fixed.

    Pass and signal rate, tokens and seconds (per group) are decayed means of what was sampled in training, None where
    nothing was; `low` and `high` are the 95% interval of the pass rate for its decayed number of rollouts.
    """

    domain: str
    wanted: float
    realised: float
    num_wanted: float
    num_realised: int
    share: float
    level: int | None
    pass_rate: float | None
    low: float | None
    high: float | None
    signal_rate: float | None
    tokens: float | None
    seconds: float | None


def domain_rows(
    state: Mapping[str, JSON], interval: Callable[[float, float], Interval], decay: Decay | None = None
) -> list[DomainRow]:
    """A row per domain. `interval(num_right, num_rollouts)` is Wilson's; `decay` is the mixture's."""
    content: Mapping[str, Any] = state  # JSON has no finer type
    domains, decay = content["domains"], decay or Decay()
    estimates = [Estimates(**domain["estimates"]) for domain in domains.values()]
    observed = sum(content["observed"].values())
    evidence = [e.evidence * decay.ticket ** (observed - e.updated) for e in estimates]
    shares = dict(zip(content["observed"], content["rounds"][-1]["shares"], strict=True))
    return [
        _row(name, domain, e, n, observed, shares[name], interval)
        for (name, domain), e, n in zip(domains.items(), estimates, evidence, strict=True)
    ]


def _row(
    name: str,
    domain: Mapping[str, Any],
    estimates: Estimates,
    evidence: float,
    observed: int,
    share: float,
    interval: Callable[[float, float], Interval],
) -> DomainRow:
    seen, paid = estimates.evidence > 0, estimates.costed > 0
    rate = estimates.passes / estimates.evidence if seen else None
    ends = interval(rate * evidence, evidence) if rate is not None else None
    return DomainRow(
        domain=name,
        wanted=domain["wanted"] / max(1, observed),
        realised=domain["realised"] / max(1, observed),
        num_wanted=domain["wanted"],
        num_realised=domain["realised"],
        share=share,
        level=domain["level"],
        pass_rate=rate,
        low=None if ends is None else ends.low,
        high=None if ends is None else ends.high,
        signal_rate=estimates.signals / estimates.weight if seen else None,
        tokens=estimates.tokens / estimates.costed if paid else None,
        seconds=estimates.seconds / estimates.costed if paid else None,
    )
