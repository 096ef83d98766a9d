"""Unbiased estimates from n samples of a task, c of them right."""

from __future__ import annotations

from math import comb


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of k is right: 1 - C(n-c, k) / C(n, k) (2107.03374, eq. 1)."""
    _check(n, k)
    return 1.0 - comb(n - c, k) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Chance that all of k are right: C(c, k) / C(n, k) (tau-bench, 2406.12045)."""
    _check(n, k)
    return comb(c, k) / comb(n, k)


def _check(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} needs at least that many samples, there are {n}: raise evaluation.num_samples")
