"""Drawing one token for each row, and the logprob of just that distribution.

Shapes: B rows, V vocabulary. The draw of a row depends on its own seed and position alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from strop.core.errors import DivergedError
from strop.core.seeds import derive_seed
from strop.core.types import IntArray, SamplingParams

FIRST_NUCLEUS = 512  # top-p looks at so many tokens first; sorting the vocabulary is seldom needed


@dataclass(frozen=True, eq=False)
class Draw:
    """What was drawn for each row; `support` holds the kept ids where the vocabulary was cut."""

    tokens: list[int]
    logprobs: list[float]
    support: list[IntArray | None]


def uniform(seed: int, position: int) -> float:
    """The number in [0, 1) that decides token `position` of the rollout with `seed`."""
    return (derive_seed(seed, position) >> 11) / 2.0**52  # 52 bits: times any total it stays below that total


def draw(logits: Tensor, params: Sequence[SamplingParams], positions: Sequence[int]) -> Draw:
    """One token a row from `logits` [B, V], float32, by inversion of the cumulative distribution.

    At temperature 0 the likeliest token, with its logprob at temperature 1. DivergedError when logits are not finite.
    """
    device = logits.device
    greedy = torch.tensor([p.temperature == 0 for p in params], device=device)
    temperature = torch.tensor([p.temperature or 1.0 for p in params], device=device)
    if any(p.temperature not in (0.0, 1.0) for p in params):
        logits = logits / temperature[:, None]
    kept = [kept_ids(logits[row], p) for row, p in enumerate(params)]
    cut = [row for row, ids in enumerate(kept) if ids is not None]
    if cut:
        logits = _masked(logits, kept, cut)
    normaliser = torch.logsumexp(logits, dim=-1)
    if not torch.isfinite(normaliser).all():
        raise DivergedError("the model's logits are not finite: training diverged; lower learner.learning_rate")
    if greedy.all():
        tokens = logits.argmax(-1)
    else:
        numbers = [uniform(p.seed, position) for p, position in zip(params, positions, strict=True)]
        tokens = torch.where(greedy, logits.argmax(-1), _invert(logits, normaliser, numbers))
    logprobs = logits.gather(1, tokens[:, None]).squeeze(1) - normaliser
    support = [None if ids is None else ids.cpu().numpy().astype(np.int32) for ids in kept]
    return Draw(tokens.tolist(), logprobs.tolist(), support)


def kept_ids(logits: Tensor, params: SamplingParams) -> Tensor | None:
    """The sorted ids that top-k, then top-p of what is left, keep of `logits` [V]; None when they keep all.

    The token that crosses `top_p` is kept, so at least one always is.
    """
    if params.temperature == 0 or (params.top_p >= 1.0 and not params.top_k):
        return None
    if not params.top_k:
        return _nucleus(logits, params.top_p).sort().values
    values, ids = torch.topk(logits, min(params.top_k, len(logits)))
    if params.top_p < 1.0:
        ids = ids[_nucleus(values, params.top_p)]
    return ids.sort().values


def _nucleus(logits: Tensor, top_p: float) -> Tensor:
    """The ids of the fewest likeliest tokens of `logits` [V] whose probabilities reach `top_p`."""
    total = torch.logsumexp(logits, dim=-1)
    for count in (FIRST_NUCLEUS, len(logits)):
        values, ids = torch.topk(logits, min(count, len(logits)))
        reached = (values - total).exp_().cumsum(-1)
        if reached[-1] >= top_p:
            break
    return ids[: int((reached < top_p).sum()) + 1]


def _masked(logits: Tensor, kept: Sequence[Tensor | None], cut: Sequence[int]) -> Tensor:
    masked = logits.clone()
    for row in cut:
        ids = kept[row]
        masked[row] = float("-inf")
        masked[row, ids] = logits[row, ids]
    return masked


def _invert(logits: Tensor, normaliser: Tensor, numbers: Sequence[float]) -> Tensor:
    """The first token [B] whose cumulative probability exceeds the row's number.

    The number is scaled by the row's own total, so rounding of the sum moves no draw past the last possible token.
    """
    cumulative = (logits - normaliser[:, None]).exp_().cumsum(-1, dtype=torch.float64)
    wanted = torch.tensor(numbers, dtype=torch.float64, device=logits.device) * cumulative[:, -1]
    return torch.searchsorted(cumulative, wanted[:, None], right=True).squeeze(1)
