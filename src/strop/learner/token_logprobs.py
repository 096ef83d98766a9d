"""From hidden states to the logprob of each trained token. The shift by one lives here and nowhere else.

Token t of a sample is predicted by the hidden state of token t - 1. Only states that predict a trained token are
multiplied with the head, each once, in chunks whose logits are computed again in the backward pass and never kept.
Shapes: R rows (tries), N nodes, H width, V vocabulary, Q distinct predicting states, L tokens of a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strop.core.errors import DataError
from strop.core.types import TrainingSample
from strop.learner.asked_logprobs import Asked, Head, asked_logprobs
from strop.learner.tries import Trie


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SampleOutputs:
    """Tensors [L] of one sample: 0 where the token is not trained on. `values[t]` is the state's before token t."""

    logprobs: Tensor
    entropy: Tensor
    values: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class _Query:
    """One distribution to compute: the state it comes from, how it was tempered and cut, and the tokens asked of it."""

    state: tuple[int, int]
    temperature: float
    support: NDArray[np.int32] | None
    tokens: list[int]


def gather_outputs(
    hidden: Tensor,
    head: Head,
    tries: Sequence[Trie],
    samples: Sequence[TrainingSample],
    *,
    chunk_tokens: int,
    value_head: Head | None = None,
) -> dict[int, SampleOutputs]:
    """The outputs of every sample in `tries`, by its number, from `hidden` [R, N, H].

    Logprobs are of the sampled distribution: logits over the sample's temperature, renormalised over its support.
    """
    queries, answers = _queries(tries, samples)
    logprobs = torch.zeros(1, dtype=_wide(hidden), device=hidden.device)
    entropy = logprobs
    rows = torch.tensor([q.state for q in queries], dtype=torch.long, device=hidden.device).reshape(-1, 2)
    states = hidden[rows[:, 0], rows[:, 1]]
    if queries:
        parts = [_chunk(states, head, queries, start, chunk_tokens) for start in range(0, len(queries), chunk_tokens)]
        logprobs = torch.cat([logprobs, *(part[0] for part in parts)])
        entropy = torch.cat([entropy, *(part[1] for part in parts)])
    values = None if value_head is None else _values(states, value_head)
    flat = np.cumsum([0, *(len(q.tokens) for q in queries)])
    outputs = {}
    for number, (query_of, place_of) in answers.items():
        trained = query_of >= 0
        pair = torch.from_numpy(np.where(trained, flat[query_of] + place_of + 1, 0)).to(hidden.device)
        own = torch.from_numpy(np.where(trained, query_of + 1, 0)).to(hidden.device)
        outputs[number] = SampleOutputs(
            logprobs=logprobs[pair],
            entropy=entropy[own],
            values=None if values is None else values[own],
        )
    return outputs


def _queries(
    tries: Sequence[Trie], samples: Sequence[TrainingSample]
) -> tuple[list[_Query], dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]]:
    """Distinct queries, and for each sample the query [L] and place in it of every token, -1 where not trained."""
    queries: list[_Query] = []
    known: dict[tuple[object, ...], int] = {}
    places: list[dict[int, int]] = []
    answers = {}
    for row, trie in enumerate(tries):
        for number, path in zip(trie.members, trie.paths, strict=True):
            sample = samples[number]
            query_of = np.full(len(path), -1, np.int64)
            place_of = np.zeros(len(path), np.int64)
            for t in np.flatnonzero(sample.loss_mask).tolist():
                kept = sample.support[t] if sample.support is not None else None
                key = (row, int(path[t - 1]), sample.temperature, None if kept is None else kept.tobytes())
                if key not in known:
                    known[key] = len(queries)
                    queries.append(_Query((row, int(path[t - 1])), sample.temperature or 1.0, kept, []))
                    places.append({})
                found = known[key]
                token = int(sample.token_ids[t])
                if kept is not None and token not in kept:
                    raise DataError(
                        f"sample {number}: token {t} is not in its support; give the support it was drawn from"
                    )
                if token not in places[found]:
                    places[found][token] = len(queries[found].tokens)
                    queries[found].tokens.append(token)
                query_of[t], place_of[t] = found, places[found][token]
            answers[number] = (query_of, place_of)
    return queries, answers


def _chunk(states: Tensor, head: Head, queries: Sequence[_Query], start: int, size: int) -> tuple[Tensor, Tensor]:
    """Logprobs of all asked tokens of queries `start` to `start + size`, and the entropy of each query."""
    part = queries[start : start + size]
    device = states.device
    asked = Asked(
        owner=torch.tensor([i for i, q in enumerate(part) for _ in q.tokens], device=device),
        token=torch.tensor([t for q in part for t in q.tokens], device=device),
        temperature=torch.tensor([q.temperature for q in part], dtype=_wide(states), device=device)[:, None],
        support={
            i: torch.from_numpy(q.support.astype(np.int64)).to(device)
            for i, q in enumerate(part)
            if q.support is not None
        },
    )
    return asked_logprobs(states[start : start + size], head, asked)


def _values(states: Tensor, value_head: Head) -> Tensor:
    """A zero, for tokens not trained on, and the value of every state: always in full precision."""
    with torch.autocast(states.device.type, enabled=False):
        values = value_head(states.to(_wide(states))).squeeze(-1)
    return torch.cat([values.new_zeros(1), values])


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
