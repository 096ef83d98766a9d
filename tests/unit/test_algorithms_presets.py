import pickle

import numpy as np
import pytest
import torch
from making import group

from strop.algorithms.advantage import DomainScaled, Gae, Grpo
from strop.algorithms.keep import KeepAll, KeepSignal
from strop.algorithms.kl import KlInReward
from strop.algorithms.loss import Cispo, EntropyBonus, Gspo, Importance, KlPenalty, PpoClip, Reinforce, ValueLoss
from strop.algorithms.presets import PRESETS, make_algorithm
from strop.config.schema import AlgorithmConfig
from strop.core.batch import samples_of
from strop.core.errors import ConfigError
from strop.core.types import TokenOutputs


def made(*, group_size=4, max_staleness=0, **choices):
    return make_algorithm(
        AlgorithmConfig(**choices),
        max_tokens=64,
        group_size=group_size,
        signals={"d": "accuracy"},
        max_staleness=max_staleness,
    )


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("max_staleness", [0, 2])
def test_every_preset_is_a_value_that_travels(preset, max_staleness):
    algorithm = made(preset=preset, max_staleness=max_staleness, kl_coef=0.1)
    assert pickle.loads(pickle.dumps(algorithm)) == algorithm
    assert ("old" in algorithm.needs) == (max_staleness > 0)
    assert "reference" in algorithm.needs


def test_the_default_is_strop():
    algorithm = made()
    assert algorithm.advantage == DomainScaled()
    assert algorithm.loss == PpoClip(clip_low=0.2, clip_high=0.28)
    assert (algorithm.aggregation, algorithm.domain_normaliser, algorithm.needs) == ("token_mean", True, ())
    assert algorithm.keep == KeepSignal({"d": "accuracy"}, 2)
    stale = made(max_staleness=1)
    assert stale.loss == Importance(algorithm.loss, cap=2.0) and stale.geometric_mask and stale.needs == ("old",)


def test_presets_keep_the_numbers_of_their_papers():
    assert made(preset="gspo").loss == Gspo(clip_low=3e-4, clip_high=4e-4)
    assert made(preset="gspo").aggregation == "seq_mean_token_mean"
    assert made(preset="dr_grpo").advantage == Grpo(scaling="none")
    assert (made(preset="dr_grpo").aggregation, made(preset="dr_grpo").max_tokens) == ("constant", 64)
    assert made(preset="dapo").loss == PpoClip(clip_low=0.2, clip_high=0.28)


def test_a_choice_replaces_that_of_the_preset():
    algorithm = made(
        preset="gspo", advantage="rloo", loss="ppo_clip", clip_high=0.5, aggregation="constant", keep="all"
    )
    assert algorithm.loss == PpoClip(clip_low=0.2, clip_high=0.5)
    assert algorithm.aggregation == "constant" and algorithm.keep == KeepAll(2)


def test_a_loss_brings_its_own_clips():
    assert made(preset="grpo", loss="gspo").loss == Gspo(clip_low=3e-4, clip_high=4e-4)
    assert made(preset="strop", loss="cispo").loss == Cispo(clip_high=4.0)
    assert made(preset="gspo", loss="ppo_clip").loss == PpoClip(clip_low=0.2, clip_high=0.2)


def test_ppo_works_at_group_size_one_and_group_baselines_do_not():
    algorithm = made(preset="ppo", group_size=1, gamma=0.9, gae_lambda=0.8)
    assert algorithm.advantage == Gae(gamma=0.9, lam=0.8)
    assert algorithm.loss == ValueLoss(PpoClip(clip_high=0.2)) and algorithm.needs == ("value",)
    assert algorithm.keep(group([0.0])) is None
    with pytest.raises(ConfigError, match=r"group_size = 1.*raise group_size.*ppo"):
        made(preset="grpo", group_size=1)


@pytest.mark.parametrize(
    ("choices", "near"),
    [
        ({"preset": "grop"}, "'grpo'"),
        ({"advantage": "rlo"}, "'rloo'"),
        ({"loss": "ppo_clp"}, "'ppo_clip'"),
        ({"loss": "strop.algorithms.loss:Nothing"}, "Nothing"),
    ],
)
def test_an_unknown_name_gets_the_near_one(choices, near):
    with pytest.raises(ConfigError, match=near):
        made(**choices)


def test_advantage_and_loss_may_be_the_users_code():
    given = made(advantage=Grpo(), loss=Reinforce(), group_size=1)
    assert given.advantage == Grpo() and given.loss == Reinforce() and given.min_group == 1
    named = made(advantage="strop.algorithms.advantage:Rloo", loss="strop.algorithms.loss:Reinforce")
    assert named.loss == Reinforce() and named.advantage([group([1, 0])], {}, {}).advantages == [[1.0, -1.0]]


def test_k1_goes_into_the_reward_and_k2_into_the_loss():
    in_reward = made(preset="rloo", kl_coef=0.1, kl_estimator="k1")
    assert isinstance(in_reward.advantage, KlInReward) and in_reward.loss == Reinforce()
    assert made(preset="rloo", kl_coef=0.1).loss == KlPenalty(Reinforce(), 0.1, "k2")


def test_an_entropy_bonus_is_wrapped_around_the_loss_of_any_preset():
    assert made(preset="rloo", entropy_coef=0.01).loss == EntropyBonus(Reinforce(), 0.01)
    assert made(preset="ppo", entropy_coef=0.01).loss == ValueLoss(EntropyBonus(PpoClip(clip_high=0.2), 0.01))
    assert made(preset="rloo").loss == Reinforce()


def reference_outputs(groups, gaps):
    """Reference logprobs that lie `gap` below the sampler's on each of a sample's tokens, and rubbish elsewhere."""
    samples = samples_of(groups, {"d": 1.0})
    return [
        TokenOutputs(logprobs=np.where(s.loss_mask, s.sampled_logprobs - gap, 77.0).astype(np.float32))
        for s, gap in zip(samples, gaps, strict=True)
    ]


def test_kl_in_the_reward_is_taken_off_before_the_baseline():
    groups = [group([1.0, None, 0.0], lengths=(2, 3))]
    outputs = {"reference": reference_outputs(groups, [0.5, -0.2])}
    credit = KlInReward(made(preset="rloo").advantage, coef=0.1)(groups, outputs, {})
    gap = (1.0 - 0.1 * 5 * 0.5) - (0.0 + 0.1 * 5 * 0.2)
    assert credit.advantages[0] == pytest.approx([gap, -gap])
    with pytest.raises(ValueError, match="reference"):
        KlInReward(Grpo(), 0.1)(groups, {}, {})


def test_k1_in_the_reward_has_the_gradient_of_k2_in_the_loss():
    """Over all tokens of a softmax of five, weighted by their probability (2510.01555)."""
    logits = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(3), requires_grad=True)
    reference = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(4)).log_softmax(0)
    policy = logits.log_softmax(0)
    chance, k1 = policy.exp().detach(), (policy - reference).detach()
    (in_reward,) = torch.autograd.grad((chance * k1 * policy).sum(), logits, retain_graph=True)
    (in_loss,) = torch.autograd.grad((chance * (policy - reference).square() / 2).sum(), logits)
    assert torch.allclose(in_reward, in_loss, atol=1e-12)


def test_a_step_without_rewards_of_a_domain_leaves_its_scale():
    empty = group([])
    assert DomainScaled()([empty], {}, {"d": 0.3}).scale == {"d": 0.3}
    credit = DomainScaled()([empty, group([1, 0], ticket=1, domain="e")], {}, {})
    assert credit.scale == {"e": 0.25} and credit.advantages[0] == []


def test_gae_whitens_over_every_sampled_token_and_no_other():
    """A value head that starts at 0 gives failures an advantage of 0 before whitening: they must be pushed down."""
    groups = [group([1.0, 0.0], given=(3,))]
    found = {}
    for outside in (0.0, 99.0):
        samples = samples_of(groups, {"d": 1.0})
        values = [np.where(s.loss_mask, 0.0, outside).astype(np.float32) for s in samples]
        outputs = {"value": [TokenOutputs(logprobs=np.zeros(len(v), np.float32), values=v) for v in values]}
        credit = Gae()(groups, outputs, {})
        found[outside] = [member.values[0] for member in credit.advantages[0]]
        assert credit.returns[0][0].values[0].tolist() == [0, 0, 0, 1, 1]
    won, lost = found[0.0]
    assert won == pytest.approx([0, 0, 0, 1, 1]) and lost == pytest.approx([0, 0, 0, -1, -1])
    assert all(np.array_equal(a, b) for a, b in zip(found[0.0], found[99.0], strict=True))
