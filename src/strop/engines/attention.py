"""Attention over grouped key/value heads without repeating them, in float32 whatever the model computes in.

Shapes: B rows, H query heads, K key/value heads, G = H / K, T queries, S keys, D head width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

NAME = "strop_grouped"


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """`query` [B, H, T, D], `key` and `value` [B, K, S, D], `attention_mask` [B, 1, T, S] True where seen.

    Returns [B, T, H, D] in the query's dtype. One batched product for each of the G query heads that share a key head.
    `sliding_window` and `softcap` come from models that have them.
    """
    num_rows, num_heads, num_queries, width = query.shape
    num_kv, num_keys = key.shape[1], key.shape[2]
    groups = num_heads // num_kv
    scale = width**-0.5 if scaling is None else scaling
    grouped = (query.float() * scale).reshape(num_rows, num_kv, groups * num_queries, width)
    scores = torch.matmul(grouped, key.float().transpose(-1, -2))
    scores = scores.view(num_rows, num_kv, groups, num_queries, num_keys)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if sliding_window is not None and sliding_window < num_keys:
        attention_mask = _windowed(attention_mask, sliding_window)
    scores.masked_fill_(~attention_mask.unsqueeze(1), float("-inf"))
    weights = torch.softmax(scores, dim=-1).view(num_rows, num_kv, groups * num_queries, num_keys)
    mixed = torch.matmul(weights, value.float())
    return mixed.view(num_rows, num_heads, num_queries, width).transpose(1, 2).to(query.dtype), None


def use_grouped_attention(model: Any) -> None:
    """Make a transformers model attend through `grouped_attention`."""
    AttentionInterface.register(NAME, grouped_attention)
    model.set_attn_implementation(NAME)


def _windowed(seen: Tensor, window: int) -> Tensor:
    """Of the positions seen up to each query's own, the last `window`."""
    own = seen.sum(-1, keepdim=True) - 1
    return seen & (torch.arange(seen.shape[-1], device=seen.device) > own - window)
