"""The head and its softmax, computed again in the backward pass so that logits are never kept.

A plain checkpoint would keep autograd's copies of [Q, V] alive side by side; written out, the gradient of log softmax
is the probabilities in place. Shapes: Q states, H width, V vocabulary, A asked tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Head = Callable[[Tensor], Tensor]
OUTSIDE = -1e30  # the logit of an id outside the support: finite, so that 0 times it is 0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Asked:
    """Tokens asked of distributions: token `token[a]` of state `owner[a]`."""

    owner: Tensor  # [A]
    token: Tensor  # [A]
    temperature: Tensor  # [Q, 1], in the precision to compute in
    support: Mapping[int, Tensor]  # kept ids of the states that did not keep the whole vocabulary


def asked_logprobs(states: Tensor, head: Head, asked: Asked) -> tuple[Tensor, Tensor]:
    """Logprobs [A] and entropies [Q] of softmax(head(states) / temperature) over the support.

    Both carry gradients. Head parameters get theirs in `.grad`, as under a reentrant checkpoint.
    """
    return _AskedLogprobs.apply(states, head, asked)


class _AskedLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, head: Head, asked: Asked) -> tuple[Tensor, Tensor]:
        logits = _tempered(head(states), asked)
        highest = logits.amax(-1, keepdim=True)
        odds = (logits - highest).exp_()
        total = odds.sum(-1)
        normaliser = highest.squeeze(-1) + total.log()
        entropy = normaliser - torch.linalg.vecdot(odds, logits) / total
        ctx.save_for_backward(states, normaliser, entropy)
        ctx.head, ctx.asked = head, asked
        device = states.device.type
        ctx.precision = (torch.get_autocast_dtype(device), torch.is_autocast_enabled(device))
        return logits[asked.owner, asked.token] - normaliser[asked.owner], entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None]:
        states, normaliser, entropy = ctx.saved_tensors
        asked, grad, entropy_grad = ctx.asked, *grads
        dtype, enabled = ctx.precision
        states = states.detach().requires_grad_()
        with torch.enable_grad(), torch.autocast(states.device.type, dtype, enabled):
            logits = ctx.head(states)
        logprobs = _tempered(logits.detach(), asked).sub_(normaliser[:, None])
        per_state = torch.zeros_like(normaliser).index_add_(0, asked.owner, grad)
        if entropy_grad.any():  # dH/dz = -p (log p + H)
            surplus = logprobs + entropy[:, None]
            slope = logprobs.exp_().mul_(surplus.mul_(entropy_grad[:, None]).add_(per_state[:, None]))
        else:
            slope = logprobs.exp_().mul_(per_state[:, None])
        slope.div_(-asked.temperature)
        slope.index_put_((asked.owner, asked.token), grad / asked.temperature[asked.owner, 0], accumulate=True)
        torch.autograd.backward(logits, slope.to(logits.dtype))
        return states.grad, None, None


def _tempered(logits: Tensor, asked: Asked) -> Tensor:
    """A copy of the logits over the temperature, in its precision, with everything outside the support cut."""
    tempered = logits / asked.temperature
    for row, ids in asked.support.items():
        kept = tempered[row, ids]
        tempered[row] = OUTSIDE
        tempered[row, ids] = kept
    return tempered
