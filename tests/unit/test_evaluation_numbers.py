"""pass@k, errors and intervals against closed forms and coverage simulations."""

from itertools import combinations
from math import sqrt

import numpy as np
import pytest

from strop.evaluation.intervals import (
    bootstrap_mean,
    bootstrap_p_value,
    clustered_se,
    holm,
    stratified_bootstrap,
)
from strop.evaluation.pass_at_k import pass_at_k, pass_hat_k


def test_two_problems_of_four_samples() -> None:
    right = (2, 1)
    assert [np.mean([pass_at_k(4, c, k) for c in right]) for k in (1, 2, 4)] == pytest.approx([0.375, 2 / 3, 1.0])


def test_more_samples_than_there_are() -> None:
    with pytest.raises(ValueError, match=r"raise evaluation\.num_samples"):
        pass_at_k(4, 2, 8)
    with pytest.raises(ValueError):
        pass_hat_k(4, 2, 0)


@pytest.mark.parametrize("c", range(7))
@pytest.mark.parametrize("k", range(1, 7))
def test_estimators_equal_enumeration(c: int, k: int) -> None:
    draws = list(combinations([1] * c + [0] * (6 - c), k))
    assert pass_at_k(6, c, k) == pytest.approx(np.mean([any(d) for d in draws]))
    assert pass_hat_k(6, c, k) == pytest.approx(np.mean([all(d) for d in draws]))


def test_clustered_error_of_single_samples_is_the_plain_one() -> None:
    scores = [1.0, 0.0, 1.0, 1.0]
    assert clustered_se([[s] for s in scores]) == pytest.approx(np.std(scores) / sqrt(4))


def test_clustered_error_of_equal_samples_counts_tasks() -> None:
    scores = [1.0, 0.0, 1.0, 1.0]
    assert clustered_se([[s] * 5 for s in scores]) == pytest.approx(np.std(scores) / sqrt(4))


def test_clustered_error_is_the_spread_of_the_mean() -> None:
    draw = np.random.default_rng(0)
    means, errors = [], []
    for _ in range(400):
        skill = draw.random(50)
        scores = (draw.random((50, 4)) < skill[:, None]).astype(float)
        means.append(scores.mean())
        errors.append(clustered_se(scores.tolist()))
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.1)


def test_bootstrap_error_equals_the_closed_form() -> None:
    values = np.random.default_rng(1).random(200).tolist()
    found = bootstrap_mean(values)
    half = 1.96 * np.std(values) / sqrt(200)
    assert found.value == pytest.approx(np.mean(values))
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.05)


def test_paired_intervals_cover_the_truth_95_times_in_100() -> None:
    draw = np.random.default_rng(2)
    hits = 0
    for run in range(300):
        skill = draw.random(60)
        before = draw.random(60) < skill
        after = draw.random(60) < np.minimum(1.0, skill + 0.1 * (1 - skill))
        found = bootstrap_mean((after.astype(float) - before).tolist(), seed=run)
        hits += found.low <= 0.05 <= found.high  # the mean of 0.1 (1 - skill), skill uniform
    assert 0.91 <= hits / 300 <= 0.98


def test_domains_weigh_the_same_whatever_their_size() -> None:
    small, large = [1.0, 0.0] * 10, [0.0] * 500
    found = stratified_bootstrap([small, large])
    assert found.value == pytest.approx(0.25)
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * np.std(small) / sqrt(20) / 2, rel=0.1)


def test_no_difference_is_called_one_5_times_in_100() -> None:
    draw = np.random.default_rng(3)
    false = sum(bootstrap_p_value(draw.normal(size=80).tolist(), seed=i) <= 0.05 for i in range(300))
    assert 0.02 <= false / 300 <= 0.09
    assert bootstrap_p_value([0.0] * 20) == 1.0
    assert bootstrap_p_value([1.0] * 20) == pytest.approx(2 / 10_001)


def test_holm_steps_down() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == [True, False, False, True]
    assert holm([0.03, 0.04]) == [False, False]
    assert holm([]) == []
