"""Losses of one sample, token by token. Each is a frozen callable that reads like its equation.

Tensors are [L]; what the weights leave out does not matter. rho = pi / pi_old, where pi_old is the learner at the start
of the step (`old_logprobs`) or, without that, the sampler itself. The weights of importance correction carry no
gradient. Log ratios are clamped to +-20 before they are exponentiated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from strop.core.protocols import LossFn, LossInputs

MAX_LOG_RATIO = 20.0
Losses = tuple[Tensor, Mapping[str, Tensor]]


def log_ratio(inputs: LossInputs) -> Tensor:
    """log rho [L]. ValueError when the batch has neither old nor sampled logprobs."""
    anchor = inputs.old_logprobs if inputs.old_logprobs is not None else inputs.sampled_logprobs
    if anchor is None:
        raise ValueError("this loss needs sampled_logprobs or old_logprobs, and the batch has neither")
    return (inputs.logprobs - anchor).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


@dataclass(frozen=True)
class Teach:
    """Cross entropy on what is taught: -log pi. Advantages are not read."""

    def __call__(self, inputs: LossInputs) -> Losses:
        return -inputs.logprobs, {"nll": -inputs.logprobs}


@dataclass(frozen=True)
class Reinforce:
    """-A log pi (Williams 1992)."""

    def __call__(self, inputs: LossInputs) -> Losses:
        return -inputs.advantages * inputs.logprobs, {}


@dataclass(frozen=True)
class PpoClip:
    """-min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A), PPO eq. 7 (1707.06347), clip-higher by DAPO (2503.14476).

    With `dual_clip` c, tokens of negative advantage lose at most c |A| (1912.09729).
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float | None = None

    def __call__(self, inputs: LossInputs) -> Losses:
        ratio = log_ratio(inputs).exp()
        clipped = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        objective = torch.minimum(ratio * inputs.advantages, clipped * inputs.advantages)
        if self.dual_clip is not None:
            bound = self.dual_clip * inputs.advantages
            objective = torch.where(inputs.advantages < 0, torch.maximum(objective, bound), objective)
        acts = (ratio * inputs.advantages > clipped * inputs.advantages).float()
        return -objective, {"ratio": ratio, "clip_share": acts}


@dataclass(frozen=True)
class Gspo:
    """GSPO in its token form, eq. 14 (2507.18071): the sequence's geometric mean ratio, clipped, on every token."""

    clip_low: float = 3e-4
    clip_high: float = 4e-4

    def __call__(self, inputs: LossInputs) -> Losses:
        mean = (log_ratio(inputs) * inputs.mask).sum() / inputs.mask.sum().clamp_min(1)
        ratio = mean.detach().exp() * (inputs.logprobs - inputs.logprobs.detach()).exp()
        clipped = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        objective = torch.minimum(ratio * inputs.advantages, clipped * inputs.advantages)
        acts = (ratio * inputs.advantages > clipped * inputs.advantages).float()
        return -objective, {"ratio": ratio, "clip_share": acts}


@dataclass(frozen=True)
class Cispo:
    """-sg(min(rho, 1 + clip_high)) A log pi, CISPO (2506.13585); the lower side is open, as in the paper."""

    clip_high: float = 4.0

    def __call__(self, inputs: LossInputs) -> Losses:
        ratio = log_ratio(inputs).exp().detach()
        weight = ratio.clamp(max=1 + self.clip_high)
        acts = (ratio > 1 + self.clip_high).float()
        return -weight * inputs.advantages * inputs.logprobs, {"ratio": ratio, "clip_share": acts}


@dataclass(frozen=True)
class Importance:
    """`inner`, weighted by sg(pi_old / mu): capped, it is token TIS; with an infinite cap, decoupled PPO (2110.00641).

    Without `old_logprobs` the ratio of `inner` is anchored in the sampler already, and the weight is 1.
    """

    inner: LossFn
    cap: float = 2.0

    def __call__(self, inputs: LossInputs) -> Losses:
        losses, measured = self.inner(inputs)
        if inputs.old_logprobs is None or inputs.sampled_logprobs is None:
            return losses, measured
        gap = (inputs.old_logprobs - inputs.sampled_logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        weight = gap.exp().clamp(max=self.cap).detach()
        return weight * losses, {**measured, "importance": weight}


@dataclass(frozen=True)
class KlPenalty:
    """`inner` plus coef times an estimate of KL(pi || reference) per token (Schulman 2020), d = log pi - log ref.

    As a loss, k2 = d^2 / 2 has the gradient of the reverse KL on policy; k3 = exp(-d) - 1 + d follows the forward KL;
    the gradient of k1 = d is zero in expectation. It acts on every token, whatever the advantage.
    """

    inner: LossFn
    coef: float
    estimator: Literal["k1", "k2", "k3"] = "k2"

    def __call__(self, inputs: LossInputs) -> Losses:
        losses, measured = self.inner(inputs)
        if inputs.ref_logprobs is None:
            raise ValueError("a KL penalty needs ref_logprobs: add `reference` to the algorithm's needs")
        gap = inputs.logprobs - inputs.ref_logprobs
        return losses + self.coef * kl_estimate(gap, self.estimator), {**measured, "kl": kl_estimate(gap, "k3")}


def kl_estimate(gap: Tensor, estimator: Literal["k1", "k2", "k3"]) -> Tensor:
    """k1, k2 or k3 of gap = log pi - log ref [L]."""
    if estimator == "k1":
        return gap
    if estimator == "k2":
        return gap.square() / 2
    return torch.expm1((-gap).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)) + gap


@dataclass(frozen=True)
class EntropyBonus:
    """`inner` minus coef times the entropy of the distribution that each token was drawn from (A3C, 1602.01783)."""

    inner: LossFn
    coef: float

    def __call__(self, inputs: LossInputs) -> Losses:
        losses, measured = self.inner(inputs)
        if inputs.entropy is None:
            raise ValueError("an entropy bonus needs the entropy of each token, and the learner gave none")
        return losses - self.coef * inputs.entropy, measured


@dataclass(frozen=True)
class ValueLoss:
    """`inner` plus coef * 0.5 * max((V - R)^2, (clip(V, V_old +- clip) - R)^2), the clipped value loss of PPO."""

    inner: LossFn
    coef: float = 0.5
    clip: float = 0.2

    def __call__(self, inputs: LossInputs) -> Losses:
        losses, measured = self.inner(inputs)
        if inputs.values is None or inputs.returns is None or inputs.old_values is None:
            raise ValueError("a value loss needs a value head: add `value` to the algorithm's needs")
        near = inputs.old_values + (inputs.values - inputs.old_values).clamp(-self.clip, self.clip)
        error = torch.maximum((inputs.values - inputs.returns).square(), (near - inputs.returns).square())
        return losses + self.coef * 0.5 * error, {**measured, "value_error": error}
