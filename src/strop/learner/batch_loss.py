"""The loss of the part of a batch that one forward pass computed, and sums of what was measured on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from strop.core.batch import Batch, Pair
from strop.core.protocols import LossFn, LossInputs, PairLossFn
from strop.learner.token_logprobs import SampleOutputs


def batch_loss(
    loss_fn: LossFn | PairLossFn, batch: Batch, outputs: Mapping[int, SampleOutputs]
) -> tuple[Tensor, dict[str, float]]:
    """The loss of the samples in `outputs`, or of the pairs they make; measurements are sums, see `step_means`."""
    losses: list[Tensor] = []
    sums: defaultdict[str, float] = defaultdict(float)
    if batch.pairs is None:
        parts = [_sample_loss(cast(LossFn, loss_fn), batch, number, output) for number, output in outputs.items()]
    else:
        own = [pair for pair in batch.pairs if pair.chosen in outputs]
        parts = [_pair_loss(cast(PairLossFn, loss_fn), batch, pair, outputs) for pair in own]
    for loss, measured in parts:
        losses.append(loss)
        for name, value in measured.items():
            sums[name] += value
    return reduce(torch.add, losses), dict(sums)


def step_means(batch: Batch, sums: Mapping[str, float]) -> dict[str, float]:
    """Per-token means of what was summed over trained tokens; loss and the token count stay sums.

    What is measured on pairs is weighted as they are, so that its sum is a mean already.
    """
    num_tokens = max(1.0, sums.get("num_tokens", 0.0)) if batch.pairs is None else 1.0
    return {n: v if n in ("loss", "num_tokens") else v / num_tokens for n, v in sums.items()}


def _sample_loss(loss_fn: LossFn, batch: Batch, number: int, output: SampleOutputs) -> tuple[Tensor, dict[str, float]]:
    inputs = _inputs(batch, number, output)
    losses, measured = loss_fn(inputs)
    weights = _tensor(batch.weights, number, output)
    loss = torch.where(inputs.mask, losses * weights, torch.zeros_like(losses)).sum()
    measured = {**measured, "entropy": output.entropy}
    sums = {name: float(value.detach()[inputs.mask].sum()) for name, value in measured.items()}
    if inputs.sampled_logprobs is not None:
        sums |= _mismatch(output.logprobs.detach(), inputs.sampled_logprobs, inputs.mask)
    return loss, {**sums, "num_tokens": float(inputs.mask.sum())}


def _pair_loss(
    loss_fn: PairLossFn, batch: Batch, pair: Pair, outputs: Mapping[int, SampleOutputs]
) -> tuple[Tensor, dict[str, float]]:
    chosen, rejected = (_inputs(batch, number, outputs[number]) for number in (pair.chosen, pair.rejected))
    loss, measured = loss_fn(chosen, rejected, pair.margin)
    sums = {name: pair.weight * float(value.detach()) for name, value in measured.items()}
    return pair.weight * loss, {**sums, "num_tokens": float(chosen.mask.sum() + rejected.mask.sum())}


def _inputs(batch: Batch, number: int, output: SampleOutputs) -> LossInputs:
    sample = batch.samples[number]
    sampled = None if sample.sampled_logprobs is None else torch.from_numpy(sample.sampled_logprobs.copy())
    device = output.logprobs.device
    return LossInputs(
        logprobs=output.logprobs,
        entropy=output.entropy,
        values=output.values,
        advantages=_tensor(batch.advantages, number, output),
        mask=torch.from_numpy(sample.loss_mask.copy()).to(device),
        sampled_logprobs=None if sampled is None else sampled.to(device),
        old_logprobs=_optional(batch.old_logprobs, number, output),
        ref_logprobs=_optional(batch.ref_logprobs, number, output),
        old_values=_optional(batch.old_values, number, output),
        returns=_optional(batch.returns, number, output),
    )


def _tensor(field: Sequence[Any], number: int, output: SampleOutputs) -> Tensor:
    return torch.from_numpy(np.array(field[number])).to(output.logprobs.device)


def _optional(field: Sequence[Any] | None, number: int, output: SampleOutputs) -> Tensor | None:
    return None if field is None else _tensor(field, number, output)


def _mismatch(logprobs: Tensor, sampled: Tensor, mask: Tensor) -> dict[str, float]:
    """Sums over trained tokens of k3 and |d| between the learner's logprobs and the sampler's."""
    gap = (logprobs - sampled)[mask].double()
    return {
        "mismatch_k3": float((torch.expm1(gap.clamp(-20, 20)) - gap).sum()),
        "mismatch_abs": float(gap.abs().sum()),
    }
