"""pass@k, errors and intervals against closed forms and coverage simulations."""

from itertools import combinations
from math import comb, sqrt

import numpy as np
import pytest

from strop.evaluation.intervals import (
    average,
    bootstrap_mean,
    bootstrap_p_value,
    clustered_se,
    holm,
    mean_paired_difference,
    mean_score,
    paired_mean,
    paired_p_value,
    stratified_bootstrap,
    wilson,
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


def coverage_of(interval, chances, truth):
    """Exact, over all counts of right answers among as many tasks as `chances` has entries less one."""
    count = len(chances) - 1
    found = [interval([1.0] * c + [0.0] * (count - c)) for c in range(count + 1)]
    return sum(p for p, e in zip(chances, found, strict=True) if e.low <= truth <= e.high)


def binomial(count, chance):
    return [comb(count, c) * chance**c * (1 - chance) ** (count - c) for c in range(count + 1)]


@pytest.mark.parametrize("count", [10, 30, 64])
@pytest.mark.parametrize("chance", [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
def test_intervals_of_right_and_wrong_cover_the_truth_at_the_ends_too(chance, count):
    assert coverage_of(mean_score, binomial(count, chance), chance) >= 0.89


def test_wilson_of_a_known_case():
    """Newcombe 1998, table I: 81 of 263, and 0 of 20."""
    found, none = wilson(81, 263), wilson(0, 20)
    assert (found.low, found.high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert (none.low, none.high) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_scores_between_right_and_wrong_are_bootstrapped():
    scores = [0.25, 0.5, 1.0, 0.0] * 10
    assert mean_score(scores) == bootstrap_mean(scores)


@pytest.mark.parametrize("chance", [0.005, 0.02, 0.5, 0.95])  # at the first a bootstrap covers 0.4
def test_the_mean_over_domains_covers_the_truth(chance):
    draw = np.random.default_rng(4)
    hits = 0
    for _ in range(500):
        found = average([mean_score((draw.random(20) < chance).astype(float).tolist()) for _ in range(5)])
        hits += found.low <= chance <= found.high
    assert hits / 500 >= 0.86


@pytest.mark.parametrize("num_tasks", [4, 6, 10])
@pytest.mark.parametrize(("better", "worse"), [(0.1, 0.0), (0.3, 0.1), (0.2, 0.2), (0.0, 0.5)])
def test_paired_differences_of_few_tasks_cover_the_truth(num_tasks, better, worse):
    draw = np.random.default_rng(5)
    hits, false, runs = 0, 0, 400
    for _ in range(runs):
        values = draw.choice([1.0, -1.0, 0.0], num_tasks, p=[better, worse, 1 - better - worse]).tolist()
        found = paired_mean(values)
        hits += found.low <= better - worse <= found.high
        false += paired_p_value(values) <= 0.05
    assert hits / runs >= 0.9
    assert better != worse or false / runs <= 0.07


def test_domains_of_few_tasks_are_averaged_with_their_wider_intervals():
    many, few = [1.0, 0.0] * 20, [1.0, 1.0, 0.0]
    assert mean_paired_difference([many, many]) == stratified_bootstrap([many, many])
    assert mean_paired_difference([few]) == paired_mean(few)
    assert mean_paired_difference([many, few]) == average([paired_mean(many), paired_mean(few)])


def test_few_tasks_are_judged_exactly():
    assert paired_p_value([1.0] * 3) == 2 / 8
    assert paired_p_value([1.0] * 5) == 2 / 32
    assert paired_p_value([1.0, -1.0, 0.0]) == 1.0
    assert paired_p_value([-0.5] * 8) == 2 / 256
