"""Packing samples into prefix tries, so that a token that several samples share is computed once.

A trie holds the samples of one ticket: members of a group share their prompt, turns their history, leaves of a search
their branches. Tickets are not merged (they share at most a system prompt, and attention costs the square of a trie).
Shapes: N nodes of a trie, L tokens of a sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strop.core.types import TrainingSample


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Trie:
    """Distinct (position, prefix, token) nodes, parents before children.

    `paths[i]` [L] names the node of each token of the sample numbered `members[i]` in the batch.
    """

    token_ids: NDArray[np.int64]  # [N]
    positions: NDArray[np.int64]  # [N]
    members: tuple[int, ...]
    paths: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.token_ids)

    def seen(self) -> NDArray[np.bool_]:
        """[N, N], True where the row's node attends to the column's: its ancestors and itself."""
        seen = np.zeros((len(self), len(self)), bool)
        for path in self.paths:
            seen[path[:, None], path[None, :]] |= np.tri(len(path), dtype=bool)
        return seen


def build_tries(samples: Sequence[TrainingSample], *, max_nodes: int, share: bool = True) -> list[Trie]:
    """One trie a ticket; a trie that would exceed `max_nodes` is split between its samples.

    With `share` False every sample is a trie of its own.
    """
    tickets: dict[tuple[int, ...], list[int]] = {}
    for number, sample in enumerate(samples):
        tickets.setdefault((sample.ticket,) if share else (number,), []).append(number)
    return [trie for members in tickets.values() for trie in _split(samples, members, max_nodes)]


def _split(samples: Sequence[TrainingSample], members: Sequence[int], max_nodes: int) -> Iterable[Trie]:
    building = _Builder()
    for number in members:
        ids = samples[number].token_ids.tolist()
        if building.members and len(building.token_ids) + building.num_new(ids) > max_nodes:
            yield building.trie()
            building = _Builder()
        building.add(number, ids)
    yield building.trie()


class _Builder:
    def __init__(self) -> None:
        self.token_ids: list[int] = []
        self.positions: list[int] = []
        self.members: list[int] = []
        self.paths: list[NDArray[np.int64]] = []
        self._child: dict[tuple[int, int], int] = {}

    def num_new(self, ids: Sequence[int]) -> int:
        node = -1
        for position, token in enumerate(ids):
            child = self._child.get((node, token))
            if child is None:
                return len(ids) - position
            node = child
        return 0

    def add(self, number: int, ids: Sequence[int]) -> None:
        node = -1
        path = []
        for position, token in enumerate(ids):
            child = self._child.get((node, token))
            if child is None:
                child = self._child[node, token] = len(self.token_ids)
                self.token_ids.append(token)
                self.positions.append(position)
            path.append(child)
            node = child
        self.members.append(number)
        self.paths.append(np.array(path, np.int64))

    def trie(self) -> Trie:
        return Trie(
            token_ids=np.array(self.token_ids, np.int64),
            positions=np.array(self.positions, np.int64),
            members=tuple(self.members),
            paths=tuple(self.paths),
        )
