"""How estimates become weights of domains. Each is a frozen callable that reads like its equation.

Shapes: D domains. `prior` are the static weights of the recipe; a domain whose prior is 0 stays at 0. Every strategy
that adapts mixes in a uniform `floor`, so that no domain is given up on an estimate that may be wrong or old.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from strop.core.errors import ConfigError
from strop.curriculum.estimates import Array, Table

Strategy = Callable[[Table, Array], Array]  # estimates and prior [D] -> weights [D], of any sum
Cost = Literal["none", "tokens", "seconds"]
MOST_COST = 100.0  # one domain is at most so many times as dear or cheap as the mean
LARGEST_EXPONENT = 50.0


@dataclass(frozen=True)
class Static:
    """w_d = prior_d."""

    def __call__(self, table: Table, prior: Array) -> Array:
        return prior


@dataclass(frozen=True)
class Uniform:
    """The same for every domain with a weight, whatever the weight."""

    def __call__(self, table: Table, prior: Array) -> Array:
        return (prior > 0).astype(np.float64)


@dataclass(frozen=True)
class Learnability:
    """w_d = prior_d E[p_d (1 - p_d)]^(1 / temperature), LILO (2502.12272) on decayed counts."""

    temperature: float = 1.0
    floor: float = 0.1

    def __post_init__(self) -> None:
        _check(self.floor, temperature=self.temperature)

    def __call__(self, table: Table, prior: Array) -> Array:
        return with_floor(prior * table.learnability ** (1 / self.temperature), prior, self.floor)


@dataclass(frozen=True)
class Ucb:
    """w_d = prior_d exp(u_d / temperature), u_d = mean |A|_d + bonus sqrt(2 ln(N + 1) / (n_d + 1)), DUMP (2504.09710).

    |A| is taken before scaling; n_d are the groups in the decaying window, N all of them together.
    """

    temperature: float = 0.1
    bonus: float = 1.0
    floor: float = 0.1

    def __post_init__(self) -> None:
        _check(self.floor, temperature=self.temperature)

    def __call__(self, table: Table, prior: Array) -> Array:
        optimism = np.sqrt(2 * np.log(table.weight.sum() + 1) / (table.weight + 1))
        value = table.advantage + self.bonus * optimism
        return with_floor(prior * _exp(value / self.temperature), prior, self.floor)


@dataclass(frozen=True)
class MtGrpo:
    """w_d = prior_d exp(-rate (progress_d + level * p_d)) / max(signal rate_d, min_signal), after MT-GRPO (2602.05547).

    Low reward and low recent progress raise a domain. The division preserves ratios: a domain whose groups often have
    no signal is sampled more often, so that the groups that teach have the shares w. Unlike the paper's, the exponents
    are not summed over steps, so a weight depends on where a domain stands and not on how long it stood there. Domains
    out of reach are raised most: it is for mixes whose every domain can be learned.
    """

    rate: float = 2.0
    level: float = 1.0
    min_signal: float = 0.1
    floor: float = 0.1

    def __post_init__(self) -> None:
        _check(self.floor, rate=self.rate, min_signal=self.min_signal)

    def __call__(self, table: Table, prior: Array) -> Array:
        weights = prior * _exp(-self.rate * (table.progress + self.level * table.pass_rate))
        return with_floor(weights / np.maximum(table.signal_rate, self.min_signal), prior, self.floor)


@dataclass(frozen=True)
class Strop:
    """w_d = prior_d (u_d / c_d^cost_power)^(1 / temperature), with the usefulness of a group

        u_d = s_d (1 - p_d) + recovery * max(0, best_d - slow_d - margin)

    The first term is the chance that a group teaches (its signal rate s) times what is left to learn. Unlike p (1 - p)
    it prefers a domain at p = 0.1 to one at 0.9: as many groups of it teach, and it has more to gain; at p = 0 or 1
    both vanish with s. Both factors are posterior means whose evidence ages, so a domain little or not lately seen
    counts as one with signal at p = 1/2. The second term brings back what was known and is being forgotten, which may
    show no spread yet. c is the cost of a group over the mean cost; domains never seen cost the mean.
    """

    temperature: float = 0.5
    recovery: float = 1.0
    margin: float = 0.1
    cost: Cost = "tokens"
    cost_power: float = 0.25
    floor: float = 0.1

    def __post_init__(self) -> None:
        _check(self.floor, temperature=self.temperature)

    def __call__(self, table: Table, prior: Array) -> Array:
        useful = table.signal_rate * (1 - table.pass_rate)
        useful = useful + self.recovery * np.maximum(0.0, table.fell - self.margin)
        if self.cost != "none":
            useful = useful / relative_cost(getattr(table, self.cost)) ** self.cost_power
        return with_floor(prior * useful ** (1 / self.temperature), prior, self.floor)


STRATEGIES: Mapping[str, Callable[..., Strategy]] = {
    "static": Static,
    "uniform": Uniform,
    "learnability": Learnability,
    "ucb": Ucb,
    "mt_grpo": MtGrpo,
    "strop": Strop,
}


def _check(floor: float, **positive: float) -> None:
    if not 0 <= floor <= 1:
        raise ConfigError(f"floor must be from 0 to 1, got {floor}")
    for name, value in positive.items():
        if not value > 0:
            raise ConfigError(f"{name} must be above 0, got {value}")


def with_floor(weights: Array, prior: Array, floor: float) -> Array:
    """(1 - floor) * weights / their sum + floor * uniform over the domains with a prior; the sum is 1."""
    active = prior > 0
    uniform = active / active.sum()
    total = weights.sum()
    return np.asarray(uniform if total == 0 else (1 - floor) * weights / total + floor * uniform)


def relative_cost(cost: Array) -> Array:
    """Cost [D] over the mean of the domains that were seen (cost > 0); 1 for the others."""
    seen = cost > 0
    if not seen.any():
        return np.ones_like(cost)
    return np.clip(np.where(seen, cost / cost[seen].mean(), 1.0), 1 / MOST_COST, MOST_COST)


def _exp(values: Array) -> Array:
    """exp up to a common factor; what is far below the largest keeps a positive weight."""
    return np.asarray(np.exp(np.maximum(values - values.max(), -LARGEST_EXPONENT)))


def named_strategy(name: str, params: Mapping[str, Any]) -> Strategy:
    """One of STRATEGIES with its parameters; KeyError on another name, TypeError on another parameter."""
    return STRATEGIES[name](**params)
