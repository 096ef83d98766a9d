"""Fakes that keep every promise of their protocol without a model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from strop.core.batch import Batch
from strop.core.protocols import PauseMode
from strop.core.types import (
    JSON,
    NOT_SAMPLED,
    Completion,
    IntArray,
    Message,
    Observation,
    SamplingParams,
    StepResult,
    Task,
    TokenOutputs,
    Tool,
    TrainingSample,
    Update,
)

END = 0  # the end token of ByteRenderer; text is UTF-8 bytes
USER, ASSISTANT = 1, 2  # turn openers; bytes that no text uses


@dataclass(frozen=True)
class ListSource:
    """A TaskSource over tasks in memory."""

    tasks: tuple[Task, ...]

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, index: int) -> Task:
        return self.tasks[index]


@dataclass(frozen=True)
class ByteRenderer:
    """One id a byte; `[USER] text [END] [ASSISTANT] text [END]`."""

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> IntArray:
        return np.array([*self._render(messages), ASSISTANT], np.int32)

    def extend(
        self, messages: Sequence[Message], tools: Sequence[Tool], ids: IntArray, replies: Sequence[Message]
    ) -> tuple[IntArray, bool]:
        return np.array([*self._render(replies), ASSISTANT], np.int32), True

    def parse(self, completion: Completion) -> Message:
        ids = [i for i in completion.token_ids.tolist() if i != END]
        return Message(role="assistant", content=bytes(ids).decode("utf-8", errors="replace"))

    def teach(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> TrainingSample:
        ids: list[int] = []
        mask: list[bool] = []
        for message in messages:
            part = self._render([message])
            ids += part
            mask += [False] + [message.role == "assistant"] * (len(part) - 1)
        return TrainingSample(token_ids=ids, loss_mask=mask, versions=[NOT_SAMPLED] * len(ids))

    def _render(self, messages: Sequence[Message]) -> list[int]:
        ids: list[int] = []
        for message in messages:
            opener = ASSISTANT if message.role == "assistant" else USER
            ids += [opener, *message.content.encode(), END]
        return ids


Script = Callable[[IntArray, SamplingParams], str]


class ScriptedSampler:
    """A Sampler and WeightReceiver that answers what `script(prompt_ids, params)` says, one event-loop turn a token.

    Logprobs are all -1. The version changes at token boundaries, as a real engine's does.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.version = 0
        self.running = 0
        self._open = asyncio.Event()
        self._open.set()

    async def sample(self, prompt_ids: IntArray, params: SamplingParams) -> Completion:
        wanted = [*self.script(prompt_ids, params).encode(), END]
        versions: list[int] = []
        await self._open.wait()
        self.running += 1
        try:
            for _ in wanted[: params.max_tokens]:
                await asyncio.sleep(0)
                versions.append(self.version)
        finally:
            self.running -= 1
        drawn = wanted[: len(versions)]
        return Completion(
            token_ids=drawn,
            logprobs=np.full(len(drawn), -1.0, np.float32),
            versions=versions,
            finish_reason="stop" if drawn[-1] == END else "length",
        )

    async def pause(self, mode: PauseMode) -> None:
        self._open.clear()
        while mode == "wait" and self.running:
            await asyncio.sleep(0)

    async def load(self, version: int, chunks: Iterable[tuple[str, Any]]) -> None:
        if version < self.version:
            raise ValueError(f"version {version} after {self.version}: versions only rise")
        for _ in chunks:
            pass
        self.version = version

    async def resume(self) -> None:
        self._open.set()


class CountingLearner:
    """A Learner with one number for weights: it counts updates and keeps the batches it saw."""

    def __init__(self, start_version: int = 0) -> None:
        self._version = start_version
        self.batches: list[Batch] = []

    @property
    def version(self) -> int:
        return self._version

    async def update(self, batch: Batch) -> Update:
        self.batches.append(batch)
        self._version += 1
        return Update(
            version=self._version, metrics={"num_tokens": float(sum(s.loss_mask.sum() for s in batch.samples))}
        )

    async def forward(
        self, samples: Sequence[TrainingSample], needs: Sequence[str]
    ) -> Mapping[str, Sequence[TokenOutputs]]:
        return {need: [self._outputs(sample) for sample in samples] for need in needs}

    def _outputs(self, sample: TrainingSample) -> TokenOutputs:
        zeros = np.zeros(len(sample), np.float32)
        known = sample.sampled_logprobs if sample.sampled_logprobs is not None else zeros
        return TokenOutputs(logprobs=known, entropy=zeros, values=zeros)

    def weights(self) -> Iterable[tuple[str, Any]]:
        yield "updates", np.array([self._version], np.float32)

    def save(self, folder: Path) -> None:
        (folder / "learner.json").write_text(json.dumps({"version": self._version}))

    def load(self, folder: Path) -> None:
        self._version = json.loads((folder / "learner.json").read_text())["version"]

    def roll_back(self, folder: Path) -> None:
        version = self._version + 1
        self.load(folder)
        self._version = version

    def export(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "weights.json").write_text(json.dumps({"updates": self._version}))


class EchoEnvironment:
    """Repeats what the assistant said, `num_turns` times; the evidence is how often it was asked."""

    def __init__(self, num_turns: int = 1) -> None:
        self.num_turns = num_turns
        self.said: list[str] = []

    async def start(self, task: Task) -> Observation:
        return Observation(messages=task.prompt, tools=task.tools)

    async def step(self, message: Message) -> StepResult:
        self.said.append(message.content)
        if len(self.said) >= self.num_turns:
            return StepResult(done=True)
        return StepResult(replies=(Message(role="user", content=message.content),), done=False)

    async def close(self) -> Mapping[str, JSON]:
        return {"steps": len(self.said)}

    def fork(self) -> EchoEnvironment:
        copy = EchoEnvironment(self.num_turns)
        copy.said = list(self.said)
        return copy
