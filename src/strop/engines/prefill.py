"""Computing prompts: every new id once, many prompts in one pass, each going on from what is already known of it.

Shapes: B prompts, T new ids of the longest, S positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from strop.core.types import IntArray
from strop.engines.kv_cache import Prefix, RowCache

PREFILL_TOKENS = 2048  # new ids in one pass; bounds the memory of attention scores

Start = tuple[Prefix | None, int]  # a stored prefix and how many of its ids a prompt begins with


def forward(model: PreTrainedModel, cache: RowCache, ids: Tensor, positions: Tensor, span: int) -> Tensor:
    """Logits [B, V], float32, after the last of `ids` [B, T] at `positions` [B, T], seeing `span` positions."""
    cache.reserve(int(positions.max()) + 1)
    cache.at, cache.span = positions.to(model.device), span
    seen = torch.arange(span) <= positions[:, :, None]
    output = model(
        input_ids=ids.to(model.device),
        attention_mask=seen[:, None].to(model.device),
        position_ids=cache.at,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return output.logits[:, -1].float()


def compute_prefixes(
    model: PreTrainedModel, prompts: Sequence[IntArray], starts: Sequence[Start], *, max_rows: int
) -> list[Prefix]:
    """Keys, values and last logits of each prompt, in order; at most `max_rows` prompts are computed in one pass."""
    widths = [len(prompt) - shared for prompt, (_, shared) in zip(prompts, starts, strict=True)]
    rest = sorted(range(len(prompts)), key=lambda number: -widths[number])
    computed: dict[int, Prefix] = {}
    while rest:
        count = max(1, min(max_rows, PREFILL_TOKENS // widths[rest[0]]))
        batch, rest = rest[:count], rest[count:]
        found = _compute(model, [prompts[number] for number in batch], [starts[number] for number in batch])
        computed.update(zip(batch, found, strict=True))
    return [computed[number] for number in range(len(prompts))]


def _compute(model: PreTrainedModel, prompts: Sequence[IntArray], starts: Sequence[Start]) -> list[Prefix]:
    """One batch. Padding stands on the left, so that the last column holds every prompt's last id.

    Padding goes to the position after the longest prompt, which no id sees.
    """
    longest = max(len(prompt) for prompt in prompts)
    width = max(len(prompt) - shared for prompt, (_, shared) in zip(prompts, starts, strict=True))
    cache = RowCache(model.config.num_hidden_layers, len(prompts))
    cache.reserve(longest + 1)
    ids = np.zeros((len(prompts), width), np.int64)
    positions = np.full((len(prompts), width), longest)
    for row, (prompt, (past, shared)) in enumerate(zip(prompts, starts, strict=True)):
        if past is not None:
            cache.write(row, past.keys[:, :, :shared], past.values[:, :, :shared])
        ids[row, width - len(prompt) + shared :] = prompt[shared:]
        positions[row, width - len(prompt) + shared :] = np.arange(shared, len(prompt))
    for begin in range(0, width, PREFILL_TOKENS):
        columns = slice(begin, begin + PREFILL_TOKENS)
        span = min(longest, int(positions[:, columns].max()) + 1)
        where = torch.from_numpy(positions[:, columns])
        logits = forward(model, cache, torch.from_numpy(ids[:, columns]), where, span)
    return [
        Prefix(prompt, *cache.read(row, len(prompt)), logits[row].clone())  # a view would keep the whole batch
        for row, prompt in enumerate(prompts)
    ]
