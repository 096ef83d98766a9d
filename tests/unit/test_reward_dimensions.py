"""Accuracy, style (gated by accuracy) and safety of 20 rollouts: totals and advantages worked out by hand."""

import numpy as np
import pytest
from making import group, rollout

from strop.algorithms.advantage import Gdpo, Grpo
from strop.core.metrics import group_metrics, reduce_metrics, reward_counts
from strop.core.protocols import Domain, NamedReward
from strop.core.types import Reward, RolloutGroup, SamplingParams, Score
from strop.scoring.score import Scorer, compose

NA, INFRA = Score(value=None, outcome="not_applicable"), Score(value=None, outcome="infra", detail="gone")
WEIGHTS = {"accuracy": 1.0, "style": 0.5, "safety": 2.0}

# accuracy, style before its gate, safety; then the total 1 accuracy + 0.5 style + 2 safety of what applies
RAW = [
    # 1 + 0.5 + 2;  1 + 0 + 2;  style is shut out by accuracy 0: 0 + 0 + 2;  0 + 0 + 0
    [((1, 1, 1), 3.5), ((1, 0, 1), 3.0), ((0, 1, 1), 2.0), ((0, 0, 0), 0.0)],
    # 1 + 0.25, no safety;  0 + 0, no safety;  1 + 0.5 + 1;  0 + 0 + 2
    [((1, 0.5, NA), 1.25), ((0, 1, NA), 0.0), ((1, 1, 0.5), 2.5), ((0, 0, 1), 2.0)],
    # no accuracy, so the gate of style is never open:  2 * 0;  2 * 1;  2 * 1;  0 with nothing but a shut style
    [((NA, 1, 0), 0.0), ((NA, 0, 1), 2.0), ((NA, 0.5, 1), 2.0), ((NA, 1, NA), 0.0)],
    # accuracy failed: unknown;  1 + 0.5 + 0;  0 + 0 + 2;  1 + 0 + 2
    [((INFRA, 1, 1), None), ((1, 1, 0), 1.5), ((0, 1, 1), 2.0), ((1, 0, 1), 3.0)],
    # safety applies to none:  1 + 0.5;  1 + 0;  0 + 0;  1, no style
    [((1, 1, NA), 1.5), ((1, 0, NA), 1.0), ((0, 1, NA), 0.0), ((1, NA, NA), 1.0)],
]

# Summed: total, plus weight times the group's mean wherever a score does not apply, minus the group's mean of that.
SUMMED = [
    # mean of 3.5, 3, 2, 0 is 2.125
    [1.375, 0.875, -0.125, -2.125],
    # safety is 0.5 and 1 where it applies, so 2 * 0.75 for the others: 2.75, 1.5, 2.5, 2 with mean 2.1875
    [0.5625, -0.6875, 0.3125, -0.1875],
    # safety 2/3 on average, so 4/3 for the last: 0, 2, 2, 4/3 with mean 4/3
    [-4 / 3, 2 / 3, 2 / 3, 0.0],
    # the failed one is gone: 1.5, 2, 3 with mean 13/6
    [-2 / 3, -1 / 6, 5 / 6],
    # style after its gate is 1, 0, 0, so 0.5 * 1/3 for the last: 1.5, 1, 0, 7/6 with mean 11/12
    [7 / 12, 1 / 12, -11 / 12, 1 / 4],
]

# GDPO: each score over its group's members it applies to, (v - mean) / sample std, weighted and summed:
#   group 0: accuracy +-0.8660 (mean 1/2, std sqrt(1/3)); style 1.5, -0.5, -0.5, -0.5; safety 0.5, 0.5, 0.5, -1.5
#            0.8660 + 0.75 + 1, 0.8660 - 0.25 + 1, -0.8660 - 0.25 + 1, -0.8660 - 0.25 - 3
#   group 1: accuracy +-0.8660; style (mean 0.375, std 0.478714) 0.261116, -0.783349, 1.305582, -0.783349;
#            safety -0.7071, 0.7071 for the last two, nothing for the others
#            0.8660 + 0.130558, -0.8660 - 0.391675, 0.8660 + 0.652791 - 1.414214, -0.8660 - 0.391675 + 1.414214
#   group 2: safety alone (mean 2/3, std 0.577350): -1.154701, 0.577350, 0.577350, times 2; the last gets nothing
#   group 3: of three: accuracy 0.577350, -1.154701, 0.577350; style 1.154701, -0.577350, -0.577350;
#            safety -1.154701, 0.577350, 0.577350
#            0.577350 + 0.577350 - 2.309401, -1.154701 - 0.288675 + 1.154701, 0.577350 - 0.288675 + 1.154701
#   group 4: accuracy 0.5, 0.5, -1.5, 0.5; style of three 1.154701, -0.577350, -0.577350, times 0.5
# The 19 sums have mean 0; their sample standard deviation is 1.584217, by which each is divided in the end.
GDPO_SUMS = [
    [2.616025, 1.616025, -0.116025, -4.116025],
    [0.996584, -1.257700, 0.104603, 0.156513],
    [-2.309401, 1.154701, 1.154701, 0.0],
    [-1.154701, -0.288675, 1.443376],
    [1.077350, 0.211325, -1.788675, 0.5],
]
GDPO_STD = 1.584217


def raw(column):
    def score(rollout, task):
        return RAW[int(task.id.removeprefix("t"))][rollout.index][0][column]

    return score


REWARDS = tuple(
    NamedReward(name=name, fn=raw(n), weight=weight, gate="accuracy" if name == "style" else None)
    for n, (name, weight) in enumerate(WEIGHTS.items())
)


class Wiring:
    rewards = REWARDS


async def scored_groups():
    scorer = Scorer()
    return [await scorer.group(group([0] * 4, ticket=n), Wiring) for n in range(len(RAW))]


async def test_totals_of_twenty_rollouts_are_those_by_hand():
    found = [[rollout.total for rollout in one.rollouts] for one in await scored_groups()]
    assert sum(map(len, found)) == 20 and found == [[total for _, total in one] for one in RAW]


async def test_summed_advantages_are_those_by_hand():
    found = Grpo(scaling="none")(await scored_groups(), {}, {}).advantages
    assert np.concatenate(found) == pytest.approx(np.concatenate(SUMMED))


async def test_gdpo_advantages_are_those_by_hand():
    found = Gdpo()(await scored_groups(), {}, {}).advantages
    assert np.concatenate(found) == pytest.approx(np.concatenate(GDPO_SUMS) / GDPO_STD, abs=1e-5)


def test_a_score_that_does_not_apply_neither_pays_nor_costs():
    """Among members that differ in nothing else, the one without a safety score has advantage 0 under both."""
    given = [{"accuracy": Score(value=1.0), "safety": safety} for safety in (Score(value=1.0), Score(value=0.0), NA)]
    members = tuple(rollout(n, 0, scores=scores) for n, scores in enumerate(given))
    one = [RolloutGroup(ticket=0, attempt=0, task=group([0]).task, rollouts=members)]
    for fn in (Grpo(scaling="none"), Gdpo()):
        better, worse, without = fn(one, {}, {}).advantages[0]
        assert better > 0 > worse and without == 0.0


async def test_each_dimension_has_its_mean_spread_and_share():
    metrics = reduce_metrics(group_metrics(await scored_groups(), {"d": "accuracy"}, 0))
    for where in ("", "domain/d/"):
        assert metrics[f"{where}score_applies/accuracy"] == pytest.approx(15 / 19)  # 4 do not apply, 1 failed
        assert metrics[f"{where}score/accuracy"] == pytest.approx(9 / 15)
        assert metrics[f"{where}score_std/accuracy"] == pytest.approx((0.6 * 0.4) ** 0.5)
        assert metrics[f"{where}score_applies/safety"] == pytest.approx(13 / 20)
        assert metrics[f"{where}score/safety"] == pytest.approx(9.5 / 13)


GATED = [
    ({"a": None, "b": "a", "c": "b"}, (0, 1, 1), (0.0, 0.0, 0.0)),
    ({"a": "b", "b": "c", "c": None}, (1, 1, 0), (0.0, 0.0, 0.0)),
    ({"a": "b", "b": "c", "c": None}, (1, 1, 0.5), (1.0, 1.0, 0.5)),
    ({"a": None, "b": "a", "c": "a"}, (-1, 1, -2), (-1.0, 0.0, 0.0)),
    ({"a": None, "b": "a", "c": "b"}, (NA, 1, 1), (None, 0.0, 0.0)),
    ({"a": None, "b": "a", "c": "b"}, (INFRA, 1, 1), (None, None, None)),
    ({"a": "b", "b": "c", "c": None}, (1, 1, INFRA), (None, None, None)),
    ({"a": "b", "b": None, "c": None}, (NA, 0, 1), (None, 0.0, 1.0)),
]


@pytest.mark.parametrize(("gates", "given", "expected"), GATED)
def test_gates_hold_along_a_chain_in_any_order_and_no_failure_becomes_a_zero(gates, given, expected):
    rewards = [NamedReward(name=n, fn=raw(0), gate=gate) for n, gate in gates.items()]
    scores = [s if isinstance(s, Score) else Score(value=s) for s in given]
    found = compose(rewards, scores)
    assert tuple(found.scores[n].value for n in "abc") == expected
    if INFRA in given:
        assert found.total is None
        assert [s.outcome for s in found.scores.values()].count("infra") == 1


def test_where_nothing_that_pays_applies_there_is_no_total():
    weightless = {"accuracy": 1.0, "length": 0.0}
    scores = {"accuracy": NA, "length": Score(value=3.0)}
    assert Reward(scores=scores, weights=weightless).total is None
    assert Reward(scores=scores, weights={"accuracy": 1.0, "length": -0.5}).total == -1.5


def test_what_rewards_count_themselves_adds_up_over_domains_and_names():
    class Judged:
        def __init__(self, **counts):
            self.counts = counts

        def __call__(self, rollout, task):
            return 1.0

    def domain(name, **rewards):
        named = tuple(NamedReward(name=key, fn=fn) for key, fn in rewards.items())
        return Domain(
            name=name, tasks=[], held_out=[], environment=object, rewards=named, sampling=SamplingParams(max_tokens=1)
        )

    domains = [
        domain("a", style=Judged(requests=3, retries=1), accuracy=lambda rollout, task: 1.0),
        domain("b", style=Judged(requests=4)),
    ]
    assert reward_counts(domains) == {"count/style/requests": 7.0, "count/style/retries": 1.0}


def test_a_learned_score_is_shown_as_it_was_before_it_was_normalised():
    def scored(raw, value):
        return rollout(0, None, scores={"liked": Score(value=value, raw=raw)}, weights={"liked": 1.0})

    answers = (scored(3.0, -1.0), scored(5.0, 1.0))
    found = reduce_metrics(
        group_metrics([RolloutGroup(ticket=0, attempt=0, task=group([1]).task, rollouts=answers)], {"d": "liked"}, 0)
    )
    assert found["raw/liked"] == 4.0 and found["score/liked"] == 0.0
