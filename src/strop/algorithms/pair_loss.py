"""Losses of one preference pair. Each is a frozen callable of (chosen, rejected, margin) that gives a scalar.

Sums over tokens run over the loss mask, which holds the answer and never the prompt. Ties count half in `accuracy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import logsigmoid

from strop.core.protocols import LossInputs

PairLoss = tuple[Tensor, Mapping[str, Tensor]]


@dataclass(frozen=True)
class BradleyTerry:
    """-log sigma(s_c - s_r - margin) + centre_coef (s_c + s_r)^2, with s the score at the last token.

    Bradley and Terry 1952; the margin is that of 2307.09288, eq. 2. Scores are known up to a constant only; a small
    `centre_coef` (2312.09244, section 2) keeps them near zero.
    """

    centre_coef: float = 0.0

    def __call__(self, chosen: LossInputs, rejected: LossInputs, margin: float) -> PairLoss:
        better, worse = _score(chosen), _score(rejected)
        gap = better - worse
        loss = -logsigmoid(gap - margin) + self.centre_coef * (better + worse).square()
        return loss, {"accuracy": _wins(gap), "margin": gap, "score_chosen": better, "score_rejected": worse}


@dataclass(frozen=True)
class Dpo:
    """-(1 - smoothing) log sigma(z) - smoothing log sigma(-z), z = beta (l_c - l_r) - margin, DPO eq. 7 (2305.18290).

    l is the sum of log pi - log ref over the answer, or with `length_normalised` its mean per token, which wants a
    larger beta. Smoothing is the share of pairs taken to be labelled the wrong way round. `nll_coef` adds the mean
    -log pi of the chosen answer (2404.19733), against a chosen answer that grows unlikely along with the rejected one.
    """

    beta: float = 0.1
    label_smoothing: float = 0.0
    length_normalised: bool = False
    nll_coef: float = 0.0

    def __call__(self, chosen: LossInputs, rejected: LossInputs, margin: float) -> PairLoss:
        better, worse = self.beta * self._gain(chosen), self.beta * self._gain(rejected)
        gap = better - worse
        signed = gap - margin
        loss = -(1 - self.label_smoothing) * logsigmoid(signed) - self.label_smoothing * logsigmoid(-signed)
        nll = -_total(chosen.logprobs, chosen) / _count(chosen)
        if self.nll_coef > 0:
            loss = loss + self.nll_coef * nll
        return loss, {
            "accuracy": _wins(gap),
            "margin": gap,
            "reward_chosen": better,
            "reward_rejected": worse,
            "nll_chosen": nll,
        }

    def _gain(self, inputs: LossInputs) -> Tensor:
        if inputs.ref_logprobs is None:
            raise ValueError("DPO needs ref_logprobs, and the batch has none")
        gain = _total(inputs.logprobs - inputs.ref_logprobs, inputs)
        return gain / _count(inputs) if self.length_normalised else gain


def _score(inputs: LossInputs) -> Tensor:
    if inputs.values is None:
        raise ValueError("a Bradley-Terry loss needs a reward head: add `score` to the learner's needs")
    return inputs.values[-1]


def _total(values: Tensor, inputs: LossInputs) -> Tensor:
    return (values * inputs.mask).sum()


def _count(inputs: LossInputs) -> Tensor:
    return inputs.mask.sum().clamp_min(1)


def _wins(gap: Tensor) -> Tensor:
    return (gap.detach().sign() + 1) / 2
