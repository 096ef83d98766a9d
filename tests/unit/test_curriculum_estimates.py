"""What one group says of its domain, decayed sums, and the table that strategies read; all by hand."""

import json
from dataclasses import asdict, replace

import pytest
from curriculum_making import Tasks, group_of
from making import rollout

from strop.core.types import RolloutGroup, Score
from strop.curriculum.estimates import Decay, Estimates, Seen, at_new_level, measure, tabulate, with_group

TASK = Tasks("d")[0]
KEPT = Decay(group=1.0, ticket=1.0)


def test_the_signal_is_the_raw_score_before_any_filtering():
    """A shaped total does not enter, a score out of range is clipped, and partial credit counts in part."""
    scores = {"accuracy": Score(value=0.25), "length": Score(value=-3.0)}
    members = [
        rollout(0, None, scores=scores),
        rollout(1, None, scores={**scores, "accuracy": Score(value=7.0)}),
        rollout(2, None, scores={**scores, "accuracy": Score(value=-7.0)}),
    ]
    assert measure(RolloutGroup(ticket=0, attempt=0, task=TASK, rollouts=tuple(members)), "accuracy").scores == (
        0.25,
        1.0,
        0.0,
    )


def test_what_infrastructure_lost_or_no_reward_marked_is_left_out_but_paid_for():
    lost = rollout(0, None, lengths=(5,))
    broken = rollout(1, 1, lengths=(4,), status="infra_error")
    unmarked = rollout(2, None, scores={"accuracy": Score(value=None, outcome="not_applicable")}, lengths=(3,))
    other = rollout(3, None, scores={"style": Score(value=1.0)}, lengths=(2,))
    timed = replace(rollout(4, 1, lengths=(1,)), timing={"rollout_s": 1.5})
    group = RolloutGroup(ticket=0, attempt=0, task=TASK, rollouts=(lost, broken, unmarked, other, timed))
    assert measure(group, "accuracy") == Seen((1.0,), 15.0, 1.5)
    assert measure(group_of(TASK, 0, (None, None)), "accuracy").scores == ()


def test_sums_by_hand():
    decay = Decay(group=0.5, ticket=1.0, fast=0.5, slow=0.75)
    one = with_group(Estimates(), Seen((1, 0, 0, 0), 10, 2), 1, decay)
    assert (one.evidence, one.passes, one.weight, one.signals) == (4, 1, 1, 1)
    assert one.advantages == pytest.approx((0.75 + 3 * 0.25) / 4)
    two = with_group(one, Seen((1, 1), 30, 4), 5, decay)
    assert (two.evidence, two.passes, two.weight, two.signals) == (4, 2.5, 1.5, 0.5)
    assert (two.groups, two.rollouts, two.updated) == (2, 6, 5)
    assert (two.costed, two.tokens, two.seconds) == (1.5, 35, 5)
    assert (two.fast, two.slow) == (0.25 + 0.5 * 0.75, 0.25 + 0.5 * 0.75)  # plain means at first
    three = with_group(two, Seen((0, 0), 0, 0), 6, decay)
    assert three.fast == pytest.approx(0.625 * 0.5) and three.slow == pytest.approx(0.625 * 2 / 3)


def test_evidence_ages_with_the_tickets_of_all_domains():
    decay = Decay(group=1.0, ticket=0.5)
    one = with_group(Estimates(), Seen((1, 1, 0, 0), 8, 1), 1, decay)
    two = with_group(one, Seen((1, 1, 1, 1), 8, 1), 3, decay)
    assert (two.evidence, two.passes, two.weight) == (4 / 4 + 4, 2 / 4 + 4, 1.25)
    table = tabulate([two], 4, decay)
    assert table.pass_rate[0] == pytest.approx((1 + 2.25) / (2 + 2.5))
    assert table.confidence[0] == pytest.approx(2.5 / 4.5)


def test_a_group_of_a_level_that_was_left_costs_but_teaches_nothing():
    one = with_group(Estimates(), Seen((1, 0), 4, 1), 1, KEPT)
    late = with_group(one, Seen((1, 1), 6, 2), 2, KEPT, current=False)
    assert (late.groups, late.costed, late.tokens) == (2, 2, 10)
    assert (late.rollouts, late.evidence, late.passes, late.fast) == (2, 2, 1, 0.5)
    fresh = at_new_level(late)
    assert (fresh.groups, fresh.tokens, fresh.evidence, fresh.averaged) == (2, 10, 0, 0)


def test_the_best_is_an_average_over_enough_groups():
    estimates, best = Estimates(), []
    for ticket in range(1, 21):
        estimates = with_group(estimates, Seen((float(ticket <= 10),), 1, 1), ticket, KEPT)
        best.append(estimates.best)
    assert best[:7] == [0] * 7 and set(best[7:]) == {1.0}
    assert tabulate([estimates], 20, KEPT).fell[0] == pytest.approx(1 - estimates.slow) and estimates.slow < 0.65


def test_the_table_by_hand():
    seen = with_group(Estimates(), Seen((1, 1, 1, 0), 40, 2), 1, KEPT)
    seen = with_group(seen, Seen((1, 1, 1, 1), 20, 4), 2, KEPT)
    table = tabulate([Estimates(), seen], 2, KEPT)
    assert table.groups.tolist() == [0, 2] and table.weight.tolist() == [0, 2]
    assert table.pass_rate.tolist() == pytest.approx([0.5, 8 / 10])
    assert table.learnability.tolist() == pytest.approx([1 / 6, 8 * 2 / (10 * 11)])
    assert table.signal_rate.tolist() == pytest.approx([1, 2 / 3])
    assert table.advantage.tolist() == pytest.approx([0, 0.375 / 2])
    assert table.tokens.tolist() == [0, 30] and table.seconds.tolist() == [0, 3]
    assert table.confidence.tolist() == pytest.approx([0, 0.8])


def test_estimates_survive_json():
    one = with_group(Estimates(), Seen((1, 0, 0), 10, 0.1), 1, Decay())
    assert Estimates(**json.loads(json.dumps(asdict(one)))) == one
