"""From hidden states to the score of each whole sample: the reward head at its last token, and no logits at all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from strop.core.types import TrainingSample
from strop.learner.asked_logprobs import Head
from strop.learner.token_logprobs import SampleOutputs
from strop.learner.tries import Trie


def gather_scores(
    hidden: Tensor, score_head: Head, tries: Sequence[Trie], samples: Sequence[TrainingSample]
) -> dict[int, SampleOutputs]:
    """`values` of every sample in `tries`, by its number: 0 but at the last token. Logprobs and entropy are 0.

    The last token is found by the sample's own path, so neither padding nor a pad token that also ends answers can be
    taken for it. Scores are in full precision.
    """
    last = [(row, int(path[-1])) for row, trie in enumerate(tries) for path in trie.paths]
    rows = torch.tensor(last, dtype=torch.long, device=hidden.device)
    states = hidden[rows[:, 0], rows[:, 1]]
    wide = torch.float64 if states.dtype == torch.float64 else torch.float32
    with torch.autocast(states.device.type, enabled=False):
        scores = score_head(states.to(wide)).squeeze(-1)
    numbers = [number for trie in tries for number in trie.members]
    found = {}
    for number, score in zip(numbers, scores.unbind(), strict=True):
        empty = score.new_zeros(len(samples[number]))
        values = torch.cat([empty[:-1], score[None]])
        found[number] = SampleOutputs(logprobs=empty, entropy=empty, values=values)
    return found
