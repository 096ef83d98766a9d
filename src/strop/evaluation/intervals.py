"""How sure a number is. A task is the unit: its samples are a cluster.

Shapes: n tasks, B resamples, D domains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
FEW_TASKS = 10  # up to so many paired differences a bootstrap sees too little of their spread
Z95 = NormalDist().inv_cdf(0.975)
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


def mean_score(task_means: Sequence[float]) -> Estimate:
    """Mean over tasks: of right and wrong by Wilson's interval, which is honest at 0 and 1 too, else by bootstrap."""
    if set(task_means) <= {0.0, 1.0}:
        return wilson(sum(task_means), len(task_means))
    return bootstrap_mean(task_means)


def wilson(num_right: float, num_tasks: float) -> Estimate:
    """A proportion with its score interval (Wilson 1927)."""
    share, spread = num_right / num_tasks, Z95**2 / num_tasks
    centre = (share + spread / 2) / (1 + spread)
    half = sqrt(spread * share * (1 - share) + spread**2 / 4) / (1 + spread)
    return Estimate(share, min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half)))


def average(estimates: Sequence[Estimate]) -> Estimate:
    """Mean of independent estimates, by the variance each recovers from its own ends (Zou and Donner 2008, MOVER)."""
    value = float(np.mean([e.value for e in estimates]))
    below = sqrt(sum((e.value - e.low) ** 2 for e in estimates)) / len(estimates)
    above = sqrt(sum((e.high - e.value) ** 2 for e in estimates)) / len(estimates)
    return Estimate(value, value - below, value + above)


def paired_mean(differences: Sequence[float]) -> Estimate:
    """Mean paired difference over tasks: by bootstrap, or for few tasks by a wider interval.

    The wider one adds a pair for and a pair against (Bonett and Price 2012, for right and wrong).
    """
    if len(differences) > FEW_TASKS:
        return bootstrap_mean(differences)
    value, largest = float(np.mean(differences)), max(1.0, *map(abs, differences))
    padded = [*differences, largest, -largest]
    centre, half = float(np.mean(padded)), Z95 * float(np.std(padded)) / sqrt(len(padded))
    return Estimate(value, min(value, max(-largest, centre - half)), max(value, min(largest, centre + half)))


def mean_paired_difference(domains: Sequence[Sequence[float]]) -> Estimate:
    """Mean over domains of `paired_mean`, by one bootstrap where every domain has enough tasks for it."""
    if any(len(values) <= FEW_TASKS for values in domains):
        return average([paired_mean(values) for values in domains])
    return stratified_bootstrap(domains)


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


def paired_p_value(differences: Sequence[float]) -> float:
    """Two-sided p-value of a paired difference: by bootstrap, for few tasks exactly, over all flips of the signs."""
    if len(differences) > FEW_TASKS:
        return bootstrap_p_value(differences)
    sums = np.array(list(product((-1.0, 1.0), repeat=len(differences)))) @ np.asarray(differences, np.float64)
    return float(np.mean(np.abs(sums) >= abs(sum(differences)) - 1e-9))


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
