"""Giving a domain a text as the model's answer: through its environment and all its rewards, without a model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from strop.core.errors import StropError
from strop.core.protocols import Domain
from strop.core.types import (
    NOT_SAMPLED,
    Completion,
    IntArray,
    Message,
    Rollout,
    SamplingParams,
    Task,
    Tool,
    TrainingSample,
)
from strop.engines.tool_calls import assistant_message
from strop.rollout.group import Roller
from strop.scoring.budget import failure_of
from strop.scoring.score import Scorer

PIECE = 4  # characters a token, about what tokenizers of English make


@dataclass(frozen=True, slots=True)
class Probed:
    """What one answer earned. `value` is the score of the domain's signal, `total` the weighted sum.

    Both are None where `error` says what went wrong, or where no reward applies.
    """

    value: float | None
    total: float | None
    scores: tuple[float | None, ...]
    error: str | None
    seconds: float


@dataclass(frozen=True)
class Says:
    """A Sampler and Renderer that writes `text` in every turn; ids are numbers of pieces of the text."""

    text: str

    async def sample(self, prompt_ids: IntArray, params: SamplingParams) -> Completion:
        pieces = [self.text[i : i + PIECE] for i in range(0, len(self.text), PIECE)]
        count = len(pieces) + 1
        return Completion(
            token_ids=[*(int.from_bytes(piece.encode()[:3]) for piece in pieces), 0],
            logprobs=np.full(count, -1.0),
            versions=np.zeros(count),
            finish_reason="stop",
        )

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> IntArray:
        return np.zeros(1, np.int32)

    def extend(
        self, messages: Sequence[Message], tools: Sequence[Tool], ids: IntArray, replies: Sequence[Message]
    ) -> tuple[IntArray, bool]:
        return np.zeros(1, np.int32), True

    def parse(self, completion: Completion) -> Message:
        return assistant_message(self.text)

    def teach(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> TrainingSample:
        return TrainingSample(token_ids=[0, 0], loss_mask=[False, True], versions=[NOT_SAMPLED] * 2)


@dataclass(frozen=True)
class Prober:
    """Gives texts to the tasks of one domain."""

    domain: Domain
    scorer: Scorer = field(default_factory=Scorer)

    async def __call__(self, task: Task, text: str) -> Probed:
        """What `text` earns as the answer in every turn. Whatever a reward or environment raises is the `error`."""
        says = Says(text)
        roller = Roller(sampler=says, renderer=says, seed=0)
        started_s = time.perf_counter()
        try:
            rollout = await roller.rollout(self.domain, task, self.domain.sampling, (0, "audit"), 0)
            if rollout.status != "infra_error":
                started_s = time.perf_counter()
                rollout = await self.scorer.rollout(rollout, task, self.domain)
        except StropError as error:
            return Probed(None, None, (), str(error), time.perf_counter() - started_s)
        return self._read(rollout, time.perf_counter() - started_s)

    def _read(self, rollout: Rollout, seconds: float) -> Probed:
        failure = failure_of(rollout)
        if failure is not None or rollout.reward is None:
            return Probed(None, None, (), str(failure or "no reward was given"), seconds)
        scores = rollout.reward.scores
        values = tuple(scores[name].value for name in sorted(scores))
        return Probed(scores[self.domain.signal].value, rollout.reward.total, values, None, seconds)
