"""The one stepper: drives an environment with a sampler, token in and token out.

Sampled ids are never tokenized again: each turn adds ids to those already there, and text is only a view of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from strop.core.errors import ContextError, DataError
from strop.core.protocols import Environment, Renderer, Sampler
from strop.core.seeds import derive_seed
from strop.core.types import JSON, Completion, IntArray, Message, Rollout, SamplingParams, Status, Task, Tool, Turn


class TokenEpisode:
    """One attempt at a task. `max_rollout_tokens` bounds the sampled tokens of all turns together.

    `seed_path` names the attempt; turn k is sampled with the seed derived from the path and k.
    """

    def __init__(
        self,
        *,
        task: Task,
        environment: Environment,
        sampler: Sampler,
        renderer: Renderer,
        params: SamplingParams,
        seed_path: tuple[int | str, ...],
        max_turns: int,
        max_rollout_tokens: int | None,
    ) -> None:
        self.task = task
        self.turns: list[Turn] = []
        self.status: Status | None = None
        self.error: str | None = None
        self._environment = environment
        self._sampler = sampler
        self._renderer = renderer
        self._params = params
        self._seed_path = seed_path
        self._max_turns = max_turns
        self._tokens_left = max_rollout_tokens if max_rollout_tokens is not None else params.max_tokens * max_turns
        self._messages: list[Message] = []
        self._tools: tuple[Tool, ...] = ()
        self._ids: IntArray = np.zeros(0, np.int32)
        self._pending: tuple[IntArray, bool] | None = None
        self._draft: Completion | None = None

    async def start(self) -> None:
        observation = await self._environment.start(self.task)
        self._messages = list(observation.messages)
        self._tools = observation.tools
        self._pending = (self._renderer.start(self._messages, self._tools), False)

    async def sample(self, max_tokens: int | None = None) -> None:
        """Sample the next turn, of at most `max_tokens` and what is left of the rollout's budget.

        Where a conversation has outgrown the context the episode ends as truncated; a first prompt that does is an
        error in the data.
        """
        assert self._pending is not None, "sample() after the episode ended"
        given, continues = self._pending
        prompt = np.concatenate([self._ids, given]) if continues else given
        limit = min(self._params.max_tokens if max_tokens is None else max_tokens, self._tokens_left)
        params = replace(self._params, max_tokens=limit, seed=derive_seed(*self._seed_path, len(self.turns)))
        try:
            completion = await self._sampler.sample(prompt, params)
        except DataError as error:
            if isinstance(error, ContextError) and self.turns:
                self._pending = None
                self._end("truncated", "max_context")
                return
            raise DataError(f"domain {self.task.domain}, task {self.task.id}: {error}") from error
        message = self._renderer.parse(completion)
        self._ids = np.concatenate([prompt, completion.token_ids])
        self._messages.append(message)
        self._tokens_left -= len(completion.token_ids)
        self.turns.append(Turn(input_ids=given, continues=continues, completion=completion, message=message))
        self._pending = None

    async def step(self) -> bool:
        """Give the last turn to the environment; True when the episode is over."""
        if self.status is not None:
            return True
        turn = self.turns[-1]
        if turn.completion.finish_reason == "length":
            return self._end("truncated", "max_tokens")
        result = await self._environment.step(turn.message)
        self.turns[-1] = replace(turn, replies=result.replies, reward=result.reward)
        if result.done:
            return self._end("ok")
        if len(self.turns) >= self._max_turns:
            return self._end("truncated", "max_turns")
        if self._tokens_left < 1:
            return self._end("truncated", "max_rollout_tokens")
        self._pending = self._renderer.extend(self._messages, self._tools, self._ids, result.replies)
        self._messages.extend(result.replies)
        return False

    def _end(self, status: Status, error: str | None = None) -> bool:
        self.status, self.error = status, error
        return True

    def rollout(self, index: int, evidence: Mapping[str, JSON], started_s: float) -> Rollout:
        """What happened, as a value. An episode that was stopped from outside is truncated."""
        assert self.status is not None
        return Rollout(
            task_id=self.task.id,
            index=index,
            turns=tuple(self.turns),
            status=self.status,
            evidence=evidence,
            error=self.error,
            timing={"rollout_s": time.monotonic() - started_s},
        )
