"""The alarm for a policy that pleases its reward model while the gold score falls."""

import random

import pytest

from strop.observability.over_optimisation import OverOptimisation, slope_in_errors


def alarms(learned, gold, **settings):
    """The steps at which it fires over two curves."""
    watch = OverOptimisation(gold=("accuracy",), **settings)
    rows = zip(learned, gold, strict=True)
    return [n for n, (a, b) in enumerate(rows) if watch.observe(n, {"raw/liked": a, "score/accuracy": b})]


def noisy(draw, slope, steps=60, spread=0.05):
    return [slope * step + draw.gauss(0, spread) for step in range(steps)]


def test_slope_by_hand():
    """Places 0 1 2, values 0 1 1: slope 1/2, residuals -1/6 1/3 -1/6, error sqrt((1/6) / 1 / 2)."""
    assert slope_in_errors([0.0, 1.0, 1.0]) == pytest.approx(0.5 / (1 / 12) ** 0.5)
    assert slope_in_errors([1.0, 1.0, 1.0]) == 0.0
    assert slope_in_errors([3.0, 2.0, 1.0]) == float("-inf")


def test_it_fires_once_where_the_curves_part():
    learned = [0.02 * step for step in range(60)]
    gold = [0.01 * min(step, 60 - step) for step in range(60)]
    fired = alarms(learned, gold)
    assert len(fired) == 1 and 30 < fired[0] <= 46


@pytest.mark.parametrize(("rise", "fall"), [(0.01, 0.01), (-0.01, -0.01), (0.0, -0.01), (-0.01, 0.01)])
def test_curves_that_do_not_part_are_left_in_peace(rise, fall):
    draw = random.Random(0)
    assert sum(bool(alarms(noisy(draw, rise), noisy(draw, fall))) for _ in range(40)) <= 4


def test_a_policy_that_only_stops_gaining_is_rarely_accused():
    draw = random.Random(1)
    assert sum(bool(alarms(noisy(draw, 0.01), noisy(draw, 0.0))) for _ in range(200)) <= 20


def test_a_reward_is_not_its_own_gold():
    watch = OverOptimisation(gold=("liked",), window=3)
    found = [watch.observe(n, {"raw/liked": float(n), "score/liked": -float(n)}) for n in range(6)]
    assert not any(found)
