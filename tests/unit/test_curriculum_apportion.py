"""Counts within one of the sums of targets, while the targets move."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strop.curriculum.apportion import furthest_change, keeps_deadlines, next_domain

SLACK = 1e-6


def served(owed, shares, tickets):
    """Whether earliest-deadline-first stays within one for so many tickets."""
    counts = np.full(len(owed), 5)
    base = counts + owed
    for ticket in range(tickets):
        counts[next_domain(ticket, counts, 0, base, shares)] += 1
        if np.abs(counts - (base + shares * (ticket + 1))).max() > 1 + SLACK:
            return False
    return True


def normalised(weights):
    return np.array(weights, float) / sum(weights)


@st.composite
def states(draw):
    count = draw(st.integers(2, 7))
    numbers = st.lists(st.integers(-20, 20), min_size=count, max_size=count)
    owed = np.array(draw(numbers), float)
    owed -= owed.mean()
    owed /= max(1.0, np.abs(owed).max()) * draw(st.sampled_from([1.0, 1.01, 1.3, 2.0]))
    weights = st.lists(st.integers(1, 40), min_size=count, max_size=count)
    return owed, normalised(draw(weights)), normalised(draw(weights))


@settings(max_examples=120, deadline=None)
@given(states())
def test_deadlines_are_kept_exactly_where_serving_keeps_them(state):
    owed, shares, _ = state
    horizon = int((1 / shares).max()) + 2
    at_bound = np.isclose(np.abs(owed), 1.0)
    assume(not at_bound.any() or np.abs(owed).max() < 1 - SLACK)
    assert keeps_deadlines(owed, shares) == served(owed, shares, horizon)


@settings(max_examples=80, deadline=None)
@given(states())
def test_a_change_goes_as_far_as_it_can(state):
    owed, old, new = state
    owed = owed * 0.99
    assume(served(owed, old, int((1 / old).max()) + 2))
    part, shares = furthest_change(owed, old, new)
    assert 0 <= part <= 1 and np.allclose(shares, old + part * (new - old))
    assert served(owed, shares, int((1 / shares).max()) + 2)
    assert part == 1 or not served(owed, new, int((1 / new).max()) + 2)


def test_a_change_that_makes_too_many_domains_due_at_once_is_limited():
    owed = np.array([0.9, 0.9, 0.9, -0.9, -0.9, -0.9])
    old, new = normalised([1, 1, 1, 9, 9, 9]), normalised([9, 9, 9, 1, 1, 1])
    assert keeps_deadlines(owed, old) and not keeps_deadlines(owed, new)
    part, shares = furthest_change(owed, old, new)
    assert 0 < part < 1 and served(owed, shares, 200) and not served(owed, new, 200)


def test_a_domain_of_three_in_a_thousand_comes_on_time():
    shares = normalised([3, *[997 / 4] * 4])
    counts, base, taken = np.zeros(5, int), np.zeros(5), []
    for ticket in range(2000):
        number = next_domain(ticket, counts, 0, base, shares)
        counts[number] += 1
        taken += [ticket] if number == 0 else []
    assert len(taken) == 6 and all(ticket < (k + 1) / 0.003 for k, ticket in enumerate(taken))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 100), min_size=6, max_size=6), min_size=1, max_size=12),
    st.integers(1, 9),
)
def test_whatever_the_changes_counts_stay_within_one(changes, every):
    counts, base, first, ticket = np.zeros(6, int), np.zeros(6), 0, 0
    shares, total = normalised(changes[0]), np.zeros(6)
    for weights in changes:
        base = base + shares * (ticket - first)
        _, shares = furthest_change(base - counts, shares, normalised(weights))
        first = ticket
        for _ in range(every):
            counts[next_domain(ticket, counts, first, base, shares)] += 1
            ticket += 1
            total += shares
            assert np.abs(counts - total).max() <= 1 + 1e-9
