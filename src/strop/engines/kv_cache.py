"""Keys and values of the running rows in preallocated buffers, and of shared prefixes in a store.

Shapes: N layers, B rows, K key/value heads, S cached positions, D head width.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import Cache

from strop.core.types import IntArray

GROWTH = 128  # positions by which the buffers grow


class RowCache(Cache):
    """A transformers cache whose rows come and go: row b holds positions 0 to its own length.

    `at` [B, T] names the position each new token of a forward pass goes to; the model sees the first `span` positions.
    """

    def __init__(self, num_layers: int, max_rows: int) -> None:
        super().__init__(layers=[])
        self.num_layers = num_layers
        self.max_rows = max_rows
        self.at: Tensor = torch.zeros(0, 0, dtype=torch.long)
        self.span = 0
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._room = 0

    def reserve(self, span: int) -> None:
        """Make sure that `span` positions fit, keeping what is there."""
        if span <= self._room:
            return
        self._room = -(-span // GROWTH) * GROWTH
        self._keys = [_grown(k, self._room) for k in self._keys]
        self._values = [_grown(v, self._room) for v in self._values]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Store `[B, K, T, D]` at `at` and return the first `span` positions of the first B rows."""
        if layer_idx == len(self._keys):
            _, heads, _, width = key_states.shape
            shape = (self.max_rows, heads, self._room, width)
            for buffers in (self._keys, self._values):
                buffers.append(torch.zeros(shape, dtype=torch.float32, device=key_states.device))
        rows = torch.arange(len(key_states), device=key_states.device)[:, None].expand_as(self.at)
        for buffer, states in ((self._keys[layer_idx], key_states), (self._values[layer_idx], value_states)):
            buffer[rows, :, self.at] = states.transpose(1, 2).float()
        num_rows = len(key_states)
        return self._keys[layer_idx][:num_rows, :, : self.span], self._values[layer_idx][:num_rows, :, : self.span]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.span

    def read(self, row: int, length: int) -> tuple[Tensor, Tensor]:
        """Copies [N, K, length, D] of the first `length` positions of a row."""
        keys = torch.stack([k[row, :, :length] for k in self._keys])
        return keys, torch.stack([v[row, :, :length] for v in self._values])

    def write(self, row: int, keys: Tensor, values: Tensor) -> None:
        """Put [N, K, P, D] at the beginning of a row."""
        length = keys.shape[2]
        self.reserve(length)
        while len(self._keys) < self.num_layers:
            shape = (self.max_rows, keys.shape[1], self._room, keys.shape[3])
            self._keys.append(torch.zeros(shape, device=keys.device))
            self._values.append(torch.zeros(shape, device=keys.device))
        for layer in range(self.num_layers):
            self._keys[layer][row, :, :length] = keys[layer]
            self._values[layer][row, :, :length] = values[layer]

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of one row onto another."""
        for buffers in (self._keys, self._values):
            for buffer in buffers:
                buffer[target, :, :length] = buffer[source, :, :length]


def _grown(buffer: Tensor, room: int) -> Tensor:
    rows, heads, old, width = buffer.shape
    larger = torch.zeros((rows, heads, room, width), dtype=buffer.dtype, device=buffer.device)
    larger[:, :, :old] = buffer
    return larger


@dataclass(frozen=True, eq=False)
class Prefix:
    """Computed ids [P] with their keys and values [N, K, P, D], and the logits [V] after the last id where known."""

    ids: IntArray
    keys: Tensor
    values: Tensor
    logits: Tensor | None


class PrefixStore:
    """Computed prefixes of one version, the least recently used leaving first when `max_tokens` are held."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self._held: OrderedDict[bytes, Prefix] = OrderedDict()
        self._num_tokens = 0

    def clear(self) -> None:
        self._held.clear()
        self._num_tokens = 0

    def add(self, prefix: Prefix) -> None:
        key = prefix.ids.tobytes()
        old = self._held.pop(key, None)
        self._num_tokens += len(prefix.ids) - (len(old.ids) if old is not None else 0)
        self._held[key] = prefix if prefix.logits is not None or old is None else old
        while self._num_tokens > self.max_tokens and len(self._held) > 1:
            _, gone = self._held.popitem(last=False)
            self._num_tokens -= len(gone.ids)

    def exact(self, ids: IntArray) -> Prefix | None:
        """The stored prefix with just these ids and known logits."""
        found = self._held.get(ids.tobytes())
        if found is None or found.logits is None:
            return None
        self._held.move_to_end(ids.tobytes())
        return found

    def longest(self, ids: IntArray) -> tuple[Prefix | None, int]:
        """The stored prefix that shares most leading ids, and how many (always leaving one id to compute)."""
        best, shared = None, 0
        for prefix in self._held.values():
            limit = min(len(prefix.ids), len(ids) - 1)
            if limit <= shared:
                continue
            differing = np.flatnonzero(prefix.ids[:limit] != ids[:limit])
            length = int(differing[0]) if len(differing) else limit
            if length > shared:
                best, shared = prefix, length
        return best, shared
