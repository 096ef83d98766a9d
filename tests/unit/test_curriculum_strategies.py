"""Every strategy against cases computed by hand."""

from dataclasses import replace
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.curriculum.estimates import Decay, Estimates, Seen, Table, tabulate, with_group
from strop.curriculum.strategies import (
    STRATEGIES,
    Learnability,
    MtGrpo,
    Static,
    Strop,
    Ucb,
    Uniform,
    named_strategy,
    relative_cost,
    with_floor,
)

PRIOR = np.array([1.0, 1.0])
DECAY = Decay()


def table(count=2, **columns):
    zeros = np.zeros(count)
    given_columns = {name: np.array(values, float) for name, values in columns.items()}
    plain = dict.fromkeys(Table.__dataclass_fields__, zeros)
    return Table(**{**plain, "signal_rate": zeros + 1, **given_columns})


def shares(weights):
    return (weights / weights.sum()).tolist()


def test_static_and_uniform():
    prior = np.array([3.0, 1.0, 0.0])
    assert Static()(table(3), prior).tolist() == [3, 1, 0]
    assert shares(Uniform()(table(3), prior)) == [0.5, 0.5, 0]


def test_the_floor_is_uniform_over_the_domains_with_a_weight():
    prior = np.array([1.0, 5.0, 0.0])
    assert with_floor(np.array([0.0, 3.0, 0.0]), prior, 0.2).tolist() == pytest.approx([0.1, 0.9, 0])
    assert with_floor(np.zeros(3), prior, 0.2).tolist() == [0.5, 0.5, 0]


def test_learnability():
    known = table(learnability=[0.25, 0.05])
    assert shares(Learnability(floor=0)(known, PRIOR)) == pytest.approx([5 / 6, 1 / 6])
    assert shares(Learnability(floor=0.4)(known, PRIOR)) == pytest.approx([0.5 + 0.2, 0.1 + 0.2])
    assert shares(Learnability(temperature=0.5, floor=0)(known, PRIOR)) == pytest.approx([25 / 26, 1 / 26])
    assert shares(Learnability(floor=0)(known, np.array([1.0, 10.0]))) == pytest.approx([1 / 3, 2 / 3])


def test_ucb():
    known = table(advantage=[0.3, 0.1], weight=[9, 4])
    values = [0.3 + sqrt(2 * log(14) / 10), 0.1 + sqrt(2 * log(14) / 5)]
    share = 1 / (1 + exp((values[1] - values[0]) / 0.1))
    assert shares(Ucb(floor=0)(known, PRIOR)) == pytest.approx([share, 1 - share])
    assert shares(Ucb(floor=0, bonus=0)(known, PRIOR))[0] == pytest.approx(1 / (1 + exp(-2)))
    unseen = table(advantage=[0.4, 0.0], weight=[50, 0])
    assert Ucb()(unseen, PRIOR)[1] > Ucb()(unseen, PRIOR)[0]


def test_mt_grpo():
    known = table(pass_rate=[0.2, 0.8], progress=[0.1, -0.1], signal_rate=[0.5, 1.0])
    weights = [exp(-2 * (0.1 + 0.2)) / 0.5, exp(-2 * (-0.1 + 0.8))]
    assert shares(MtGrpo(floor=0)(known, PRIOR)) == pytest.approx([w / sum(weights) for w in weights])
    silent = table(pass_rate=[0.5, 0.5], signal_rate=[0.0, 0.4])
    assert shares(MtGrpo(floor=0)(silent, PRIOR)) == pytest.approx([0.8, 0.2])  # 1 / 0.1 against 1 / 0.4
    # groups that teach come in the ratio of the weights
    even = table(pass_rate=[0.5, 0.5], signal_rate=[0.25, 0.75])
    taught = np.array(MtGrpo(floor=0)(even, PRIOR)) * [0.25, 0.75]
    assert taught[0] == pytest.approx(taught[1])


def test_strop_by_hand():
    known = table(pass_rate=[0.5, 0.8], signal_rate=[1.0, 0.5])
    assert shares(Strop(floor=0)(known, PRIOR)) == pytest.approx([25 / 26, 1 / 26])
    assert shares(Strop(floor=0, temperature=1)(known, PRIOR)) == pytest.approx([5 / 6, 1 / 6])
    assert shares(Strop(floor=0)(known, np.array([1.0, 25.0]))) == pytest.approx([0.5, 0.5])
    assert shares(Strop(floor=0.5)(known, PRIOR)) == pytest.approx([25 / 52 + 0.25, 1 / 52 + 0.25])
    mirrored = table(pass_rate=[0.1, 0.9], signal_rate=[0.57, 0.57])
    assert shares(Strop(floor=0)(mirrored, PRIOR)) == pytest.approx([81 / 82, 1 / 82])
    fallen = table(pass_rate=[0.9, 0.9], fell=[0.3, 0.1])
    assert shares(Strop(floor=0)(fallen, PRIOR)) == pytest.approx([0.9, 0.1])  # 0.1 + 0.2 against 0.1, squared
    assert shares(Strop(floor=0, recovery=0)(fallen, PRIOR)) == [0.5, 0.5]
    dear = table(pass_rate=[0.5, 0.5], tokens=[40, 10], seconds=[1, 9])
    assert shares(Strop(floor=0)(dear, PRIOR)) == pytest.approx([1 / 3, 2 / 3])
    assert shares(Strop(floor=0, cost="seconds")(dear, PRIOR)) == pytest.approx([0.75, 0.25])
    assert shares(Strop(floor=0, cost="none")(dear, PRIOR)) == [0.5, 0.5]
    assert shares(Strop(floor=0, cost_power=0.5)(dear, PRIOR)) == pytest.approx([0.2, 0.8])


def test_costs_are_relative_to_what_was_seen():
    assert relative_cost(np.array([0.0, 30.0, 10.0])).tolist() == [1, 1.5, 0.5]
    assert relative_cost(np.zeros(3)).tolist() == [1, 1, 1]


def history(*rates, groups=12, members=8):
    """Estimates of a domain whose groups passed at such rates, `groups` of each."""
    estimates, ticket = Estimates(), 0
    for rate in rates:
        for _ in range(groups):
            ticket += 1
            scores = tuple(float(i < round(rate * members)) for i in range(members))
            estimates = with_group(estimates, Seen(scores, 100, 1), ticket, DECAY)
    return replace(estimates, updated=100)


def test_strop_prefers_what_can_be_learned_to_what_is_hopeless_or_solved():
    domains = [history(0.25), history(0.5), Estimates(updated=100), history(0.0), history(1.0)]
    low, half, unseen, hopeless, solved = Strop()(tabulate(domains, 100, DECAY), np.ones(5)).tolist()
    assert low > half == pytest.approx(unseen, rel=0.05)
    assert half > 2 * hopeless > 2 * solved > 0.2 / 5
    assert Strop(floor=0)(tabulate(domains, 100, DECAY), np.ones(5))[4] < 1e-3


def test_strop_brings_back_what_is_being_forgotten():
    falling, known = history(1.0, 0.5), history(0.75, 0.75)
    both = tabulate([falling, known], 100, DECAY)
    with_recovery, without = Strop()(both, PRIOR), Strop(recovery=0)(both, PRIOR)
    assert with_recovery[0] / with_recovery[1] > 1.5 * without[0] / without[1]


def test_strategies_are_chosen_by_name():
    assert set(STRATEGIES) == {"static", "uniform", "learnability", "ucb", "mt_grpo", "strop"}
    assert named_strategy("strop", {"floor": 0.3}) == Strop(floor=0.3)
    with pytest.raises(TypeError):
        named_strategy("ucb", {"flor": 0.3})


rates = st.lists(st.floats(0, 1), min_size=1, max_size=3)


@pytest.mark.parametrize("name", sorted(set(STRATEGIES) - {"static"}))
@settings(max_examples=15, deadline=None)
@given(st.lists(rates, min_size=2, max_size=5), st.integers(0, 4))
def test_weights_are_finite_and_nothing_falls_below_the_floor(name, domains, absent):
    prior = np.ones(len(domains) + 1)
    prior[min(absent, len(domains) - 1)] = 0
    known = tabulate([*(history(*r) for r in domains), Estimates()], 100, DECAY)
    weights = named_strategy(name, {})(known, prior)
    assert np.isfinite(weights).all() and weights[prior == 0].tolist() == [0]
    assert (weights[prior > 0] / weights.sum()).min() >= 0.1 / len(domains) - 1e-12
