"""Shares from weights: water-filling, nested groups, and bounds that cannot be kept."""

import numpy as np
import pytest
from curriculum_making import domain
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.core.errors import ConfigError
from strop.curriculum.shares import Bounds, DomainGroup, fill, prior_weights, share_tree, shares_within


def shares(domains, groups=(), bounds=None, weights=None):
    root = share_tree(domains, groups, bounds)
    prior = prior_weights(root, [d.weight for d in domains])
    return shares_within(root, prior if weights is None else np.array(weights, float))


@pytest.mark.parametrize(
    ("weights", "low", "high", "filled"),
    [
        ((1, 1, 2), (0, 0, 0), (1, 1, 1), (0.25, 0.25, 0.5)),
        ((1, 1, 2), (0, 0, 0), (1, 1, 0.4), (0.3, 0.3, 0.4)),
        ((1, 9), (0.2, 0), (1, 1), (0.2, 0.8)),
        ((1, 1, 8), (0, 0.3, 0), (1, 1, 0.6), (0.1, 0.3, 0.6)),
        ((1, 2, 4), (0, 0, 0), (0.5, 0.3, 0.2), (0.5, 0.3, 0.2)),
        ((0, 1), (0, 0), (0, 1), (0, 1)),
    ],
)
def test_water_filling(weights, low, high, filled):
    found = fill(np.array(weights, float), np.array(low, float), np.array(high, float), 1.0)
    np.testing.assert_allclose(found, filled, atol=1e-12)


def test_a_group_divides_its_weight_among_its_members():
    domains = [domain("a", 1, "math"), domain("b", 3, "math"), domain("c", 2)]
    assert shares(domains, [DomainGroup(name="math", weight=2)]) == pytest.approx([0.125, 0.375, 0.5])
    assert shares(domains, [DomainGroup(name="math")]) == pytest.approx([1 / 6, 0.5, 1 / 3])
    outer = [DomainGroup(name="math", parent="all", weight=5), DomainGroup(name="all", weight=6)]
    assert shares(domains, outer) == pytest.approx([0.1875, 0.5625, 0.25])


def test_bounds_of_nested_groups_are_shares_of_the_whole():
    domains = [domain("a", 1, "inner"), domain("b", 1, "inner"), domain("c", 1, "outer"), domain("d", 7)]
    groups = [DomainGroup(name="outer", floor=0.6), DomainGroup(name="inner", parent="outer", ceiling=0.2)]
    assert shares(domains, groups) == pytest.approx([0.1, 0.1, 0.4, 0.4])
    assert shares(domains, groups, {"a": Bounds(floor=0.15)}) == pytest.approx([0.15, 0.05, 0.4, 0.4])
    assert shares(domains, groups, {"c": Bounds(ceiling=0.45), "d": Bounds(ceiling=0.35)}) == pytest.approx(
        [0.1, 0.1, 0.45, 0.35]
    )


def test_a_domain_without_weight_has_no_share_but_its_floor():
    domains = [domain("a", 0), domain("b", 1)]
    assert shares(domains).tolist() == [0, 1]
    assert shares(domains, bounds={"a": Bounds(floor=0.25)}).tolist() == [0.25, 0.75]


def test_a_group_without_domains_is_left_out():
    assert shares([domain("a")], [DomainGroup(name="none"), DomainGroup(name="in", parent="none")]).tolist() == [1]


@pytest.mark.parametrize(
    ("groups", "bounds", "message"),
    [
        ([DomainGroup(name="g")], {"a": Bounds(floor=0.7), "b": Bounds(floor=0.4)}, "floors within it sum to 1.1"),
        (
            [DomainGroup(name="g")],
            {"a": Bounds(ceiling=0.3), "b": Bounds(ceiling=0.5)},
            "ceilings within it sum to 0.8",
        ),
        ([DomainGroup(name="g", ceiling=0.3)], {"a": Bounds(floor=0.4)}, "group 'g': the floors"),
        ([DomainGroup(name="g", floor=0.6)], {"a": Bounds(ceiling=0.4)}, "group 'g': the ceilings"),
        ([], {}, "no group is named 'g'"),
        ([DomainGroup(name="g", parent="h"), DomainGroup(name="h", parent="g")], {}, "lies within itself"),
        ([DomainGroup(name="g", parent="h")], {}, "no group is named 'h'"),
        ([DomainGroup(name="g"), DomainGroup(name="g")], {}, "two groups"),
        ([DomainGroup(name="g")], {"x": Bounds()}, "'x', which is no domain"),
    ],
)
def test_what_cannot_be_kept_is_one_clear_error(groups, bounds, message):
    with pytest.raises(ConfigError, match=message) as error:
        share_tree([domain("a", parent="g"), domain("b")], groups, bounds)
    assert "\n" not in str(error.value)


def test_bounds_and_weights_out_of_range():
    for bad in ({"floor": -0.1}, {"ceiling": 1.2}, {"floor": 0.5, "ceiling": 0.4}, {"ceiling": 0.0}):
        with pytest.raises(ConfigError, match="shares of the whole"):
            Bounds(**bad)
    with pytest.raises(ConfigError, match="positive"):
        DomainGroup(name="g", weight=0.0)
    with pytest.raises(ConfigError, match="weight 0"):
        share_tree([domain("a", 0)])


@st.composite
def problems(draw):
    count = draw(st.integers(1, 8))
    weights = draw(st.lists(st.floats(1e-6, 1e3), min_size=count, max_size=count))
    low = np.array(draw(st.lists(st.floats(0, 1), min_size=count, max_size=count))) / count
    high = np.minimum(1.0, low + draw(st.lists(st.floats(0, 1), min_size=count, max_size=count)))
    total = low.sum() + draw(st.floats(0, 1)) * (high.sum() - low.sum())
    return np.array(weights), low, high, float(total)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_water_filling_keeps_bounds_and_proportions(problem):
    weights, low, high, total = problem
    parts = fill(weights, low, high, total)
    assert parts.sum() == pytest.approx(total, abs=1e-9)
    assert (parts >= low - 1e-9).all() and (parts <= high + 1e-9).all()
    rates = parts / weights
    for one in range(len(weights)):  # who has less per weight than another is at its ceiling, or the other at its floor
        for other in range(len(weights)):
            if rates[one] < rates[other] * (1 - 1e-6) - 1e-12:
                assert parts[one] >= high[one] - 1e-7 or parts[other] <= low[other] + 1e-7
