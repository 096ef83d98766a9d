"""A state as rows for people and records."""

import json

import pytest
from curriculum_making import Levelled, domain, group_of

from strop.curriculum.mixture import Mixture
from strop.curriculum.views import domain_rows
from strop.evaluation.intervals import wilson


def test_rows_say_what_was_wanted_and_what_happened():
    mixture = Mixture(
        domains=[domain("a", 3), domain("b"), domain("c", 0)], seed=1, lag=2, levelled={"b": Levelled("b")}
    )
    state = mixture.start()
    for ticket in range(6):
        task = mixture.assign(state, ticket)
        state = mixture.observe(state, group_of(task, ticket, (1, 0, 0, 0) if task.domain == "a" else (1, 1), tokens=5))
    a, b, c = domain_rows(json.loads(json.dumps(state)), wilson)
    assert (a.domain, a.wanted, a.num_wanted, a.num_realised, a.share) == ("a", 0.75, 4.5, a.num_realised, 0.75)
    assert (a.realised, b.realised) == (a.num_realised / 6, b.num_realised / 6) and a.num_realised in (4, 5)
    assert (a.pass_rate, a.signal_rate, a.level) == (pytest.approx(0.25), pytest.approx(1), None)
    assert 0 < a.low < 0.25 < a.high < 1
    assert (a.tokens, a.seconds, b.tokens) == (pytest.approx(20), 0, pytest.approx(10))
    assert (b.level, b.pass_rate, b.signal_rate, b.high) == (1, pytest.approx(1), 0, 1)
    assert (c.share, c.num_realised, c.pass_rate, c.low, c.signal_rate, c.tokens) == (0, 0, None, None, None, None)


def test_the_interval_is_of_the_decayed_number_of_rollouts():
    mixture = Mixture(domains=[domain("a")], seed=1, lag=0)
    state, widths = mixture.start(), []
    for ticket in range(60):
        state = mixture.observe(state, group_of(mixture.assign(state, ticket), ticket, (1, 0)))
        row = domain_rows(state, wilson, mixture.decay)[0]
        widths.append(row.high - row.low)
    assert widths[0] > widths[5] > widths[20]
    assert widths[59] == pytest.approx(wilson(10, 20).high - wilson(10, 20).low, rel=0.02)  # 2 / (1 - 0.9) rollouts


def test_before_the_first_ticket():
    row = domain_rows(Mixture(domains=[domain("a")], seed=1, lag=0).start(), wilson)[0]
    assert (row.wanted, row.realised, row.share, row.pass_rate) == (0, 0, 1, None)
