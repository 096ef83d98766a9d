import math
import pickle

import pytest
import torch

from strop.algorithms.loss import (
    Cispo,
    Gspo,
    Importance,
    KlPenalty,
    PpoClip,
    Reinforce,
    Teach,
    ValueLoss,
    kl_estimate,
)
from strop.core.protocols import LossInputs


def inputs(logprobs, *, advantages=None, mask=None, **fields):
    logprobs = torch.as_tensor(logprobs, dtype=torch.float64)
    ones = torch.ones_like(logprobs)
    defaults = dict.fromkeys(
        ("entropy", "values", "sampled_logprobs", "old_logprobs", "ref_logprobs", "old_values", "returns")
    )
    given = {name: torch.as_tensor(value, dtype=torch.float64) for name, value in fields.items()}
    return LossInputs(
        logprobs=logprobs,
        advantages=torch.ones_like(logprobs)
        if advantages is None
        else torch.as_tensor(advantages, dtype=torch.float64),
        mask=ones.bool() if mask is None else torch.as_tensor(mask),
        **{**defaults, **given},
    )


def gradient(loss, logprobs, **fields):
    leaf = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
    losses, _ = loss(inputs(leaf, **fields))
    losses.sum().backward()
    return leaf.grad


@pytest.mark.parametrize("loss", [PpoClip(), Gspo(), Cispo(), Importance(PpoClip()), PpoClip(dual_clip=3.0)], ids=repr)
def test_on_policy_every_loss_has_the_gradient_of_reinforce(loss):
    where = {"sampled_logprobs": [-1.0, -2.0], "advantages": [0.5, -0.5]}
    assert gradient(loss, [-1.0, -2.0], **where).tolist() == pytest.approx(
        gradient(Reinforce(), [-1.0, -2.0], **where).tolist()
    )


def test_clipping_acts_on_one_side_only():
    far = {"sampled_logprobs": [-2.0, -2.0], "advantages": [1.0, -1.0]}
    assert gradient(PpoClip(), [-1.0, -1.0], **far).tolist() == pytest.approx([0.0, math.e])
    capped, _ = PpoClip(dual_clip=2.0)(inputs([-1.0, -1.0], **far))
    assert capped.tolist() == pytest.approx([-1.28, 2.0])


def test_cispo_and_importance_weights_carry_no_gradient():
    where = {"sampled_logprobs": [-1.5], "advantages": [2.0]}
    assert gradient(Cispo(), [-1.0], **where).item() == pytest.approx(-2.0 * math.exp(0.5))
    old = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    losses, measured = Importance(Reinforce(), cap=1.2)(inputs([-1.0], sampled_logprobs=[-2.0], old_logprobs=old))
    assert not measured["importance"].requires_grad
    assert measured["importance"].item() == pytest.approx(1.2)
    assert losses.item() == pytest.approx(1.2)


def test_importance_never_counts_twice():
    bypass = inputs([-1.0], sampled_logprobs=[-2.0])
    assert Importance(PpoClip())(bypass)[0].item() == PpoClip()(bypass)[0].item()


def test_the_ratio_is_anchored_in_the_policy_that_sampled():
    _, measured = PpoClip()(inputs([-1.0, -1.2], sampled_logprobs=[-1.5, -1.0]))
    assert measured["ratio"].tolist() == pytest.approx([math.exp(0.5), math.exp(-0.2)])


def test_gspo_has_one_ratio_for_the_masked_tokens_only():
    where = {"sampled_logprobs": [0.0, -1.0, -1.0], "mask": [False, True, True]}
    _, measured = Gspo(clip_low=1.0, clip_high=1.0)(inputs([9.0, -0.8, -0.6], **where))
    assert measured["ratio"][1:].tolist() == pytest.approx([math.exp(0.3)] * 2)


def test_extreme_ratios_stay_finite():
    for loss in (PpoClip(), Gspo(), Cispo()):
        assert torch.isfinite(gradient(loss, [-0.1], sampled_logprobs=[-900.0], advantages=[-1.0])).all()


def test_gradients_of_the_kl_estimators_on_a_softmax():
    logits = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    reference = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).log_softmax(0)
    policy = logits.log_softmax(0)
    (exact,) = torch.autograd.grad((policy.exp() * (policy - reference)).sum(), logits, retain_graph=True)
    found = {}
    for name in ("k1", "k2", "k3"):
        expected = (policy.exp().detach() * kl_estimate(policy - reference, name)).sum()
        (found[name],) = torch.autograd.grad(expected, logits, retain_graph=True)
    assert torch.allclose(found["k2"], exact, atol=1e-12)
    assert torch.allclose(found["k1"], torch.zeros(5, dtype=torch.float64), atol=1e-12)
    assert not torch.allclose(found["k3"], exact, atol=1e-3)
    assert not torch.allclose(found["k3"], found["k1"], atol=1e-3)


def test_without_spread_only_the_kl_term_moves_the_policy():
    where = {"advantages": [0.0], "sampled_logprobs": [-1.0], "ref_logprobs": [-1.5]}
    both = gradient(KlPenalty(PpoClip(), 0.1), [-1.0], **where)
    assert both.item() == pytest.approx(0.1 * 0.5)
    assert gradient(PpoClip(), [-1.0], **where).item() == 0.0


def test_the_value_loss_is_clipped_and_added():
    where = {"sampled_logprobs": [-1.0], "values": [1.0], "old_values": [0.0], "returns": [0.0], "advantages": [0.0]}
    losses, _ = ValueLoss(PpoClip(), coef=0.5, clip=0.2)(inputs([-1.0], **where))
    assert losses.item() == pytest.approx(0.25)


def test_what_a_loss_misses_is_named():
    with pytest.raises(ValueError, match="sampled_logprobs"):
        PpoClip()(inputs([-1.0]))
    with pytest.raises(ValueError, match="reference"):
        KlPenalty(Teach(), 0.1)(inputs([-1.0]))
    with pytest.raises(ValueError, match="value"):
        ValueLoss(Teach())(inputs([-1.0]))


@pytest.mark.parametrize(
    "loss", [PpoClip(), Gspo(), Cispo(), KlPenalty(Importance(PpoClip()), 0.1), ValueLoss(Teach())]
)
def test_losses_travel_to_other_processes(loss):
    assert pickle.loads(pickle.dumps(loss)) == loss
