import numpy as np
import pytest
from making import group, rollout

from strop.algorithms.advantage import DomainScaled, Gae, Gdpo, Grpo, ReinforcePlusPlus, Rloo
from strop.algorithms.keep import KeepAll, KeepSignal
from strop.core.batch import samples_of
from strop.core.types import RolloutGroup, Score, TokenOutputs


def advantages(fn, groups, outputs=None, scale=None):
    return fn(groups, outputs or {}, scale or {}).advantages


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        ("none", [0.5, -0.5, 2, -2]),
        ("group", [0.7071, -0.7071, 0.7071, -0.7071]),
        ("batch", [0.26414, -0.26414, 1.05654, -1.05654]),
    ],
)
def test_scaling_by_nothing_group_and_batch(scaling, expected):
    found = advantages(Grpo(scaling=scaling, eps=0.0), [group([1, 0]), group([4, 0], ticket=1)])
    assert np.concatenate(found) == pytest.approx(expected, abs=1e-4)


EVERY = [Grpo(), Grpo(scaling="batch"), Grpo(scaling="none"), Rloo(), DomainScaled(), ReinforcePlusPlus(), Gdpo()]


@pytest.mark.parametrize("fn", EVERY, ids=repr)
@pytest.mark.parametrize("totals", [[1, 1, 1, 1], [0, 0, 0], [1], [0.1 + 0.2, 0.3, 0.3]])
def test_groups_without_spread_give_exact_zeros(fn, totals):
    mixed = [group(totals), group([1, 0], ticket=1)]
    assert advantages(fn, mixed)[0] == [0.0] * len(totals)


@pytest.mark.parametrize("fn", EVERY, ids=repr)
def test_the_better_of_two_negative_rewards_is_better(fn):
    first, second = advantages(fn, [group([-1, -3])])[0]
    assert first > 0 > second


@pytest.mark.parametrize("fn", EVERY, ids=repr)
def test_failed_members_leave_the_baseline(fn):
    assert advantages(fn, [group([1, None, 0, 0])]) == advantages(fn, [group([1, 0, 0])])


def test_three_of_four_give_the_advantages_of_three():
    found = advantages(Grpo(scaling="none"), [group([1, None, 0, 0])])[0]
    assert found == pytest.approx([2 / 3, -1 / 3, -1 / 3])


def test_rloo_is_g_over_g_minus_one_times_dr_grpo():
    groups = [group([0.3, 1.2, -0.5, 2.0])]
    assert np.array(advantages(Rloo(), groups)) == pytest.approx(
        np.array(advantages(Grpo(scaling="none"), groups)) * 4 / 3
    )


def test_domain_scale_moves_and_keeps_domains_apart():
    groups = [group([0, 1], domain="small"), group([0, 100], ticket=1, domain="large")]
    credit = DomainScaled()(groups, {}, {})
    assert credit.advantages[0] == pytest.approx(credit.advantages[1])
    assert credit.scale == pytest.approx({"small": 0.25, "large": 2500.0})
    moved = DomainScaled()([group([0, 0, 0, 1], domain="small")], {}, credit.scale).scale
    assert moved["small"] == pytest.approx(0.9 * 0.25 + 0.1 * 0.1875)
    assert moved["large"] == 2500.0


def scored(index, **values):
    scores = {
        name: Score(value=None, outcome="not_applicable") if value is None else Score(value=value)
        for name, value in values.items()
    }
    return rollout(index, 0, scores=scores)


def with_members(*members):
    return RolloutGroup(ticket=0, attempt=0, task=group([0]).task, rollouts=members)


def test_gdpo_with_a_missing_dimension_equals_gdpo_without_it():
    both = with_members(*(scored(i, right=v, style=None) for i, v in enumerate([1.0, 0.0, 0.0])))
    one = with_members(*(scored(i, right=v) for i, v in enumerate([1.0, 0.0, 0.0])))
    assert advantages(Gdpo(), [both]) == advantages(Gdpo(), [one])


def test_gdpo_tells_apart_what_a_normalised_sum_does_not():
    one_better = with_members(scored(0, a=0.0, b=0.0), scored(1, a=1.0, b=0.0))
    both_better = with_members(scored(0, a=0.0, b=0.0), scored(1, a=1.0, b=1.0))
    by_sum = advantages(Grpo(), [one_better, both_better])
    assert by_sum[0][1] == pytest.approx(by_sum[1][1], abs=1e-4)
    found = advantages(Gdpo(), [one_better, both_better])
    assert found[1][1] == pytest.approx(2 * found[0][1], rel=1e-3)


def test_gae_against_the_recursion_by_hand():
    found = Gae(gamma=0.9, lam=0.5).trace(np.array([0.0, 0.0, 1.0]), np.array([0.1, 0.2, 0.3]), 0.0)
    last = 1.0 - 0.3
    middle = 0.9 * 0.3 - 0.2 + 0.45 * last
    assert found == pytest.approx([0.9 * 0.2 - 0.1 + 0.45 * middle, middle, last])


def gae(groups, values):
    samples = samples_of(groups, {"d": 1.0})
    outputs = {"value": [TokenOutputs(logprobs=np.zeros(len(s)), values=values(s)) for s in samples]}
    return Gae()(groups, outputs, {}), samples


def test_gae_carries_values_over_what_the_environment_says():
    groups = [group([1.0], lengths=(2, 2), given=(3, 4))]
    plain, samples = gae(groups, lambda s: np.where(s.loss_mask, 0.25, 0.0).astype(np.float32))
    changed, _ = gae(groups, lambda s: np.where(s.loss_mask, 0.25, 99.0).astype(np.float32))
    returns = plain.returns[0][0].values[0]
    assert returns[samples[0].loss_mask] == pytest.approx([1.0] * 4)
    assert (returns[~samples[0].loss_mask] == 0).all()
    assert np.array_equal(returns, changed.returns[0][0].values[0])


def test_gae_bootstraps_a_truncated_rollout_and_not_a_finished_one():
    values = lambda s: np.where(s.loss_mask, 0.5, 0.0).astype(np.float32)  # noqa: E731
    ended, samples = gae([group([0.0])], values)
    cut, _ = gae([group([0.0], status="truncated")], values)
    mask = samples[0].loss_mask
    assert ended.returns[0][0].values[0][mask] == pytest.approx([0.0, 0.0])
    assert cut.returns[0][0].values[0][mask] == pytest.approx([0.5, 0.5])


def shaped(index, right, length_term):
    return rollout(index, 0, scores={"accuracy": Score(value=right), "length": Score(value=length_term)})


def test_the_default_filter_reads_correctness_not_the_shaped_total():
    all_wrong = with_members(*(shaped(i, 0.0, term) for i, term in enumerate([0.1, 0.2, 0.1, 0.3])))
    assert "no signal" in KeepSignal({"d": "accuracy"})(all_wrong)
    assert KeepAll()(all_wrong) is None
    mixed = with_members(shaped(0, 1.0, 0.0), shaped(1, 0.0, 0.0))
    assert KeepSignal({"d": "accuracy"})(mixed) is None


def test_a_group_too_small_for_its_baseline_is_dropped():
    assert "1 members" in KeepAll(2)(group([1, None, None]))
