"""Attention in which a node of a trie sees its ancestors only, in float32 (float64 under float64)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

NAME = "strop_trie"


def trie_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """`query` [R, heads, N, D], `key` and `value` [R, kv heads, N, D], `attention_mask` [R, 1, N, N] True where seen.

    Returns [R, N, heads, D] in the query's dtype.
    """
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    with torch.autocast(query.device.type, enabled=False):
        mixed = scaled_dot_product_attention(
            query.to(wide),
            key.to(wide),
            value.to(wide),
            attn_mask=attention_mask,
            scale=scaling,
            enable_gqa=key.shape[1] != query.shape[1],
        )
    return mixed.transpose(1, 2).to(query.dtype), None


def use_trie_attention(model: PreTrainedModel) -> None:
    """Make a transformers model attend through `trie_attention`."""
    AttentionInterface.register(NAME, trie_attention)
    model.set_attn_implementation(NAME)
