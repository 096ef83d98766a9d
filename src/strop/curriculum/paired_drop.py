"""Whether scores on the same tasks have dropped: exact where nothing changed, honest where single tasks moved.

Shapes: n tasks, R probes of the reference, C probes of now. A score is in [0, 1], NaN where a task was not scored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import erfc, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

FINEST = 20  # graded scores are told apart in steps of 1/20
SMALLEST_P = 1e-12  # the sums of the exact test are exact to about 1e-15
Scores = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Drop:
    """Reference minus now, mean over tasks. `p` is one-sided, uncorrected; `se` is the standard error over tasks."""

    value: float
    se: float
    p: float
    num_tasks: int

    def interval(self, level: float) -> tuple[float, float]:
        """Two-sided, of which each end is passed with probability `level`, within what scores allow."""
        half = NormalDist().inv_cdf(1 - level) * self.se
        return max(-1.0, self.value - half), min(1.0, self.value + half)


def paired_drop(reference: Scores, now: Scores, exact_below: float = 1.0) -> Drop | None:
    """The drop from `reference` [n, R] to `now` [n, C] over the tasks scored in both; None with fewer than two.

    `p` is the larger of two p-values, so it holds under either null hypothesis:
    - nothing changed, so the scores of a task are exchangeable over probes: the exact permutation test stratified by
      task (the exact form of Mantel and Haenszel 1959; for one probe a side and right or wrong, McNemar's test);
    - tasks changed, some for better and some for worse, and their mean did not: signs of the tasks' differences are
      random (Fisher 1935), by the normal approximation.
    The first is not computed where the second alone exceeds `exact_below`.
    """
    differences = _task_means(reference) - _task_means(now)
    shared = ~np.isnan(differences)
    if shared.sum() < 2:
        return None
    differences = differences[shared]
    p = sign_flip_p(differences)
    if p <= exact_below:
        p = max(p, permutation_p(reference[shared], now[shared]))
    return Drop(
        value=float(differences.mean()),
        se=float(differences.std(ddof=1)) / sqrt(len(differences)),
        p=p,
        num_tasks=len(differences),
    )


def sign_flip_p(differences: Scores) -> float:
    """P(sum of the differences with random signs >= their sum), normal: 1 - Phi(sum d / sqrt(sum d^2))."""
    spread = sqrt(float((differences**2).sum()))
    return 1.0 if spread == 0 else 0.5 * erfc(float(differences.sum()) / spread / sqrt(2))


def permutation_p(reference: Scores, now: Scores) -> float:
    """P(sum of now <= what was seen) where each task's scores fall to reference and now at random, exactly.

    The distribution of a task's sum counts the ways to draw its scores of now from all of its scores; that of the sum
    over tasks is their convolution, done as a product of Fourier transforms.
    """
    scores = np.concatenate([reference, now], axis=1)
    units = _units(scores)
    steps = np.rint(np.where(np.isnan(scores), 0.0, scores) * units).astype(np.int64)
    drawn = (~np.isnan(now)).sum(axis=1)
    ways = _ways(steps, ~np.isnan(scores), units, int(drawn.max()))
    chances = ways[np.arange(len(steps)), drawn]
    chances /= chances.sum(axis=1, keepdims=True)
    length = int(drawn.sum()) * units + 1
    size = 1 << (length - 1).bit_length()
    total = np.fft.irfft(np.fft.rfft(chances, size, axis=1).prod(axis=0), size)
    seen = int(steps[:, reference.shape[1] :].sum())
    return float(np.clip(total[: seen + 1].sum(), SMALLEST_P, 1.0))


def _ways(steps: NDArray[np.int64], present: NDArray[np.bool_], units: int, most: int) -> Scores:
    """[n, most + 1, sum]: in how many ways so many of a task's scores have that sum."""
    size = most * units + 1
    ways = np.zeros((len(steps), most + 1, size))
    ways[:, 0, 0] = 1.0
    for column in range(steps.shape[1]):
        for value in range(units + 1):
            rows = np.flatnonzero(present[:, column] & (steps[:, column] == value))
            if len(rows):
                ways[rows, 1:, value:] += ways[rows, :-1, : size - value]
    return ways


def _units(scores: Scores) -> int:
    """Into how many steps 1.0 is divided: as few as tell all scores apart, at most FINEST."""
    known = np.unique(scores[~np.isnan(scores)])
    exact = (units for units in range(1, FINEST) if np.allclose(known * units, np.rint(known * units)))
    return next(exact, FINEST)


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """p-values to compare with the level for the whole family (Holm 1979): (D - k) p_(k), made monotone."""
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, number in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, (len(p_values) - rank) * p_values[number])
        adjusted[number] = min(1.0, largest)
    return adjusted


def _task_means(scores: Scores) -> Scores:
    """[n], NaN where a task has no score."""
    means: Scores = scores.mean(axis=1)
    if np.isnan(means).any():
        num_known = (~np.isnan(scores)).sum(axis=1)
        means = np.where(num_known > 0, np.nansum(scores, axis=1), np.nan) / np.maximum(num_known, 1)
    return means


def best_window(scores: Scores, size: int) -> slice:
    """The window of `size` consecutive probes of `scores` [n, P] with the highest mean, the latest of equals."""
    means = mean_of_columns(scores)
    pooled = np.convolve(means, np.ones(size) / size, mode="valid")
    start = int(np.flatnonzero(pooled >= pooled.max() - 1e-12)[-1])
    return slice(start, start + size)


def mean_of_columns(scores: Scores) -> Scores:
    """Mean score of each probe [P] over the tasks it scored; 0 where it scored none."""
    means: Scores = scores.mean(axis=0)
    if not np.isnan(means).any():
        return means
    known = ~np.isnan(scores)
    means = np.where(known, scores, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return means


def tasks_needed(
    drop: float = 0.1,
    *,
    num_domains: int,
    num_probes: int,
    num_windows: int = 1,
    variance: float = 1 / 6,
    reference_probes: int = 8,
    now_probes: int = 2,
    alpha: float = 0.05,
    power: float = 0.9,
) -> int:
    """Tasks per domain for a drop of the mean to be proven with probability `power`, by the normal approximation.

    n = ((z_level + z_power) / drop)^2 * variance * (1/R + 1/C), level = alpha / (domains * probes * windows).
    Too few for a large drop of some tasks only, whose own spread over tasks is left out.
    `variance` is that of one score of one task around the task's own mean, averaged over tasks: p (1 - p) for right
    and wrong, 1/6 where the pass rates are spread evenly, 1/4 at most; divide it by the samples per task and probe.
    """
    normal: Callable[[float], float] = NormalDist().inv_cdf
    z = normal(1 - alpha / (num_domains * num_probes * num_windows)) + normal(power)
    spread = variance * (1 / reference_probes + 1 / now_probes)
    return int(np.ceil((z / drop) ** 2 * spread))
