"""Training on fixed data: batches in, updates out. SFT, and every other stage that samples nothing."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from strop.core.batch import Batch
from strop.core.protocols import Learner
from strop.core.seeds import shuffled_places
from strop.core.types import JSON, TrainingSample

BatchAt = Callable[[int], Batch]
Record = Callable[[int, Mapping[str, float]], None]
Due = Callable[[int, Mapping[str, JSON]], Awaitable[None]]


async def fit(
    learner: Learner, batch_at: BatchAt, record: Record, due: Due, *, num_steps: int, first_step: int = 1
) -> None:
    """One update for each step from `first_step` to `num_steps`, both included, counted from 1."""
    for step in range(first_step, num_steps + 1):
        started_s = time.monotonic()
        update = await learner.update(batch_at(step))
        record(step, {**update.metrics, "time/step_s": time.monotonic() - started_s})
        await due(step, {"step": step})


def teaching_batches(samples: Sequence[TrainingSample], *, batch_size: int, seed: int) -> BatchAt:
    """Batches for SFT, a pure function of the step: every epoch is a new shuffle of all samples.

    The loss is the mean over all taught tokens of the batch, however it is split into micro-batches. Every sample is
    a ticket of its own: unrelated conversations share too little to be packed into one trie.
    """
    samples = [replace(sample, ticket=number) for number, sample in enumerate(samples)]

    def batch_at(step: int) -> Batch:
        places = shuffled_places(len(samples), (step - 1) * batch_size, batch_size, seed, "sft")
        chosen = [samples[place] for place in places]
        num_tokens = max(1, sum(int(s.loss_mask.sum()) for s in chosen))
        return Batch(
            samples=tuple(chosen),
            advantages=tuple(np.zeros(len(s), np.float32) for s in chosen),
            weights=tuple(s.loss_mask / np.float32(num_tokens) for s in chosen),
        )

    return batch_at
