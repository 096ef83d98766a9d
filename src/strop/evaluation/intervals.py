"""How sure a number is. A task is the unit: its samples are a cluster.

Shapes: n tasks, B resamples, D domains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95% interval."""

    value: float
    low: float
    high: float


def clustered_se(scores: Sequence[Sequence[float]]) -> float:
    """Standard error of the mean over all scores, those of one task being correlated (2411.00640, eq. 4)."""
    flat = np.array([score for task in scores for score in task], np.float64)
    mean = flat.mean()
    within = sum(float((np.array(task, np.float64) - mean).sum()) ** 2 for task in scores)
    return float(np.sqrt(within)) / len(flat)


def bootstrap_mean(values: Sequence[float], seed: int = 0) -> Estimate:
    """Mean over tasks with the percentile interval of a bootstrap that resamples tasks."""
    return stratified_bootstrap([values], seed)


def stratified_bootstrap(domains: Sequence[Sequence[float]], seed: int = 0) -> Estimate:
    """Mean over domains of their mean over tasks, with the interval of a bootstrap within each domain.

    Give it paired differences to compare two models: the pairing is what makes the interval narrow.
    """
    low, high = np.quantile(_resampled_means(domains, seed), (0.025, 0.975))
    value = float(np.mean([np.mean(values) for values in domains]))
    return Estimate(value, float(low), float(high))


def bootstrap_p_value(differences: Sequence[float], seed: int = 0) -> float:
    """Two-sided p-value of "the mean of these paired differences is 0": twice the resampled share beyond 0.

    At least 2 / (B + 1); the observed sample counts as one resample (Davison and Hinkley 1997, section 4.2).
    """
    means = _resampled_means([differences], seed)
    beyond = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return min(1.0, 2.0 * (beyond + 1) / (RESAMPLES + 1))


def holm(p_values: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which hypotheses are rejected when the chance of any false rejection is at most `level` (Holm 1979)."""
    rejected = [False] * len(p_values)
    for rank, number in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[number] > level / (len(p_values) - rank):
            break
        rejected[number] = True
    return rejected


def _resampled_means(domains: Sequence[Sequence[float]], seed: int) -> Array:
    """[B]; tasks are drawn with replacement within each domain, and domains weigh the same."""
    draw = np.random.default_rng(seed)
    means = np.zeros(RESAMPLES)
    for values in domains:
        array = np.asarray(values, np.float64)
        means += array[draw.integers(0, len(array), (RESAMPLES, len(array)))].mean(axis=1)
    return means / len(domains)
