"""An alarm for a policy that learns to please a learned reward instead of doing better.

Gao et al. 2023 (arXiv 2210.10760), figure 1: under optimisation the score of a reward model keeps rising while the gold
score turns and falls. Both are logged here when a rule's score is recorded beside a reward model (`weight = 0`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean

RAW, SCORE = "raw/", "score/"


@dataclass
class OverOptimisation:
    """Watches the steps of one stage: `raw/NAME`, what reward models said, against `score/GOLD` for each of `gold`.

    It fires once for a pair when over the last `window` steps the least-squares slope of the learned score is above
    zero by `rise` and that of the gold one below zero by `fall` of their standard errors.
    """

    gold: tuple[str, ...]
    window: int = 16
    rise: float = 3.0
    fall: float = 4.0
    _series: dict[str, list[float]] = field(default_factory=dict)
    _fired: set[tuple[str, str]] = field(default_factory=set)

    def observe(self, step: int, metrics: Mapping[str, float]) -> list[str]:
        """What to say of this step; every step of the stage is shown once, in order."""
        for name, value in metrics.items():
            if name.startswith(RAW) or (name.startswith(SCORE) and name.removeprefix(SCORE) in self.gold):
                self._series.setdefault(name, []).append(value)
        learned = [name.removeprefix(RAW) for name in metrics if name.startswith(RAW)]
        return [
            f"step {step}: over the last {self.window} steps the reward model {name!r} is pleased more and more while "
            f"{gold!r} falls: the policy exploits the model; stop here, or raise kl_coef or train it on new rollouts"
            for name in learned
            for gold in self.gold
            if gold != name and self._fires(name, gold)
        ]

    def _fires(self, name: str, gold: str) -> bool:
        rising, falling = (self._series.get(key, [])[-self.window :] for key in (RAW + name, SCORE + gold))
        if (name, gold) in self._fired or min(len(rising), len(falling)) < self.window:
            return False
        fires = slope_in_errors(rising) > self.rise and slope_in_errors(falling) < -self.fall
        self._fired |= {(name, gold)} if fires else set()
        return fires


def slope_in_errors(values: list[float]) -> float:
    """The least-squares slope of three values or more over their place, divided by its standard error."""
    places = range(len(values))
    middle, mean = fmean(places), fmean(values)
    spread = sum((place - middle) ** 2 for place in places)
    slope = sum((place - middle) * (value - mean) for place, value in zip(places, values, strict=True)) / spread
    rest = sum((v - mean - slope * (p - middle)) ** 2 for p, v in zip(places, values, strict=True))
    error = math.sqrt(rest / (len(values) - 2) / spread)
    return slope / error if error else math.copysign(math.inf, slope) if slope else 0.0
