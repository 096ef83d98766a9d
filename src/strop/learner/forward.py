"""One forward pass over tries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from strop.core.types import TrainingSample
from strop.learner.policy import Policy
from strop.learner.scores import gather_scores
from strop.learner.token_logprobs import SampleOutputs, gather_outputs
from strop.learner.tries import Trie


class RunTries(Protocol):
    """Outputs of every sample in `tries`, by its number."""

    def __call__(
        self,
        policy: Policy,
        tries: Sequence[Trie],
        samples: Sequence[TrainingSample],
        *,
        chunk_tokens: int,
        scores: bool = False,
    ) -> dict[int, SampleOutputs]: ...


def run_shared(
    policy: Policy, tries: Sequence[Trie], samples: Sequence[TrainingSample], *, chunk_tokens: int, scores: bool = False
) -> dict[int, SampleOutputs]:
    """Tries as rows of a batch, padded to the longest; padding sees itself only. Needs trie attention."""
    longest = max(len(trie) for trie in tries)
    ids = np.zeros((len(tries), longest), np.int64)
    positions = np.zeros((len(tries), longest), np.int64)
    seen = np.broadcast_to(np.eye(longest, dtype=bool), (len(tries), longest, longest)).copy()
    for row, trie in enumerate(tries):
        ids[row, : len(trie)] = trie.token_ids
        positions[row, : len(trie)] = trie.positions
        seen[row, : len(trie), : len(trie)] = trie.seen()
    device = policy.plain.device
    hidden = policy.hidden(*(torch.from_numpy(array).to(device) for array in (ids, positions, seen[:, None])))
    return _gather(hidden, policy, tries, samples, chunk_tokens, scores)


def run_apart(
    policy: Policy, tries: Sequence[Trie], samples: Sequence[TrainingSample], *, chunk_tokens: int, scores: bool = False
) -> dict[int, SampleOutputs]:
    """Tries of one sample each, as plain right-padded sequences with the model's own attention."""
    longest = max(len(trie) for trie in tries)
    ids = np.zeros((len(tries), longest), np.int64)
    real = np.zeros((len(tries), longest), np.int64)
    for row, trie in enumerate(tries):
        ids[row, : len(trie)] = trie.token_ids
        real[row, : len(trie)] = 1
    device = policy.plain.device
    hidden = policy.hidden_apart(torch.from_numpy(ids).to(device), torch.from_numpy(real).to(device))
    return _gather(hidden, policy, tries, samples, chunk_tokens, scores)


def _gather(
    hidden: Tensor,
    policy: Policy,
    tries: Sequence[Trie],
    samples: Sequence[TrainingSample],
    chunk_tokens: int,
    scores: bool,
) -> dict[int, SampleOutputs]:
    """Of each token its logprob, or with `scores` of each whole sample what the reward head says."""
    if scores and policy.value_head is not None:
        return gather_scores(hidden, policy.value_head, tries, samples)
    return gather_outputs(hidden, policy.head, tries, samples, chunk_tokens=chunk_tokens, value_head=policy.value_head)
