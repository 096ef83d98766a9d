"""Continuous batching over any transformers decoder: sequences join and leave one running batch, token by token.

The decode loop runs in a thread of its own, so the event loop never waits for a matrix product. A prompt that several
calls share is computed once; its keys and values are copied to each of their rows.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from strop.config.schema import EngineConfig
from strop.core.errors import ContextError, DataError, EngineError, StropError
from strop.core.protocols import PauseMode
from strop.core.types import Completion, FinishReason, IntArray, SamplingParams
from strop.engines.attention import use_grouped_attention
from strop.engines.kv_cache import Prefix, PrefixStore, RowCache
from strop.engines.prefill import Start, compute_prefixes, forward
from strop.engines.sampling import draw

BYTES_PER_CHARACTER = 4  # at most; a token holds at least one byte, so a stop string ends within so many tokens

MIN_ENTERING = 0.25  # with more calls waiting than rows free, calls enter once this share of the rows is free


@dataclass(eq=False)
class Request:
    """One `sample` call on its way."""

    prompt: IntArray
    params: SamplingParams
    future: asyncio.Future[Completion]
    loop: asyncio.AbstractEventLoop
    cancelled: bool = False

    def answer(self, completion: Completion) -> None:
        self.loop.call_soon_threadsafe(lambda: self.future.done() or self.future.set_result(completion))

    def fail(self, error: BaseException) -> None:
        self.loop.call_soon_threadsafe(lambda: self.future.done() or self.future.set_exception(error))


@dataclass(eq=False)
class Row:
    """A running sequence: `length` positions are cached; the last drawn token is not yet among them."""

    request: Request
    length: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    support: list[IntArray | None] = field(default_factory=list)

    @property
    def ids(self) -> IntArray:
        return np.concatenate([self.request.prompt, np.array(self.tokens, np.int32)])


class TorchEngine:
    """A Sampler and WeightReceiver with its own copy of the weights. Use as `async with engine:`."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        end_ids: frozenset[int],
        decode: Callable[[Sequence[int]], str],
        config: EngineConfig,
        max_context: int,
    ) -> None:
        use_grouped_attention(model)
        self.model = model.eval().requires_grad_(False)
        self.version = 0
        self.max_context = max_context
        self.statistics = {"prefill_tokens": 0, "decode_steps": 0, "decoded_tokens": 0}
        self._end_ids = end_ids
        self._decode = decode
        self._config = config
        self._max_rows = 1 if config.deterministic else config.max_rows
        self._num_layers = model.config.num_hidden_layers
        self._vocab_size = model.get_input_embeddings().num_embeddings
        self._cache = RowCache(self._num_layers, self._max_rows)
        self._prefixes = PrefixStore(config.cache_tokens)
        self._rows: list[Row] = []
        self._waiting: deque[Request] = deque()
        self._entering: list[Request] = []
        self._changed = threading.Condition()
        self._pause: PauseMode | None = None
        self._parked = False
        self._recompute = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._stopped: BaseException | None = RuntimeError("enter the engine first: async with engine")

    async def __aenter__(self) -> Self:
        self._stopped, self._closing = None, False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    @property
    def num_running(self) -> int:
        """Rows in the batch and calls that wait for one."""
        return len(self._rows) + len(self._waiting)

    async def sample(self, prompt_ids: IntArray, params: SamplingParams) -> Completion:
        """One completion of `prompt_ids` [P]. ContextError when nothing fits into the context after the prompt."""
        if len(prompt_ids) >= self.max_context:
            raise ContextError(
                f"the prompt has {len(prompt_ids)} tokens and the context {self.max_context}: "
                "shorten the prompt, or raise model.max_context if the model allows it"
            )
        if (highest := int(prompt_ids.max(initial=0))) >= self._vocab_size:
            raise DataError(
                f"the prompt holds token {highest}, but the model knows {self._vocab_size}: "
                "the tokenizer in its folder belongs to another model"
            )
        loop = asyncio.get_running_loop()
        prompt = np.ascontiguousarray(prompt_ids, np.int32)
        request = Request(prompt=prompt, params=params, future=loop.create_future(), loop=loop)
        with self._changed:
            self._require_running()
            self._waiting.append(request)
            self._changed.notify_all()
        try:
            return await request.future
        except asyncio.CancelledError:
            request.cancelled = True
            raise

    async def pause(self, mode: PauseMode) -> None:
        """Stop at a token boundary; in mode `wait` once the running sequences have ended."""

        def park() -> None:
            with self._changed:
                self._require_running()
                self._pause = mode
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._parked or self._stopped is not None)
                self._require_running()

        await asyncio.to_thread(park)

    def _require_running(self) -> None:
        if isinstance(self._stopped, StropError):
            raise self._stopped
        if self._stopped is not None:
            raise RuntimeError(f"the engine does not run: {self._stopped}") from self._stopped

    async def load(self, version: int, chunks: Iterable[tuple[str, Any]]) -> None:
        """Copy named tensors over the engine's own; every stored prefix is forgotten. Only while paused.

        ValueError when `version` is lower than the engine's: it would give two policies one name.
        """
        assert self._parked, "load() needs a pause() before it"
        if version < self.version:
            raise ValueError(f"version {version} after {self.version}: old weights are published under a new version")
        await asyncio.to_thread(self._copy, chunks)
        self.version = version
        self._prefixes.clear()

    async def resume(self) -> None:
        with self._changed:
            self._recompute = self._pause == "recompute"
            self._pause = None
            self._parked = False
            self._changed.notify_all()

    @torch.no_grad()
    def _copy(self, chunks: Iterable[tuple[str, Any]]) -> None:
        own = dict(self.model.named_parameters(remove_duplicate=False))
        for name, tensor in chunks:
            if name not in own or own[name].shape != tensor.shape:
                raise DataError(f"the engine's model has no parameter {name} of shape {tuple(tensor.shape)}")
            own[name].copy_(tensor)

    def _run(self) -> None:
        if self._config.deterministic or self._config.threads:
            torch.set_num_threads(self._config.threads or 1)
        stopped: BaseException = RuntimeError("the engine was closed")
        try:
            with torch.inference_mode():
                while self._wait_for_work():
                    self._step()
        except StropError as error:
            stopped = error
        except BaseException as error:
            hint = "if memory is short, lower engine.max_rows or engine.cache_tokens"
            stopped = EngineError(f"the engine stopped: {type(error).__name__}: {error}; {hint}")
            stopped.__cause__ = error
        with self._changed:
            self._stopped = stopped
            unanswered = [*(row.request for row in self._rows), *self._entering, *self._waiting]
            self._rows.clear()
            self._waiting.clear()
            self._changed.notify_all()
        for request in unanswered:
            request.fail(stopped)

    def _wait_for_work(self) -> bool:
        """Block until there is a token to sample; False when the engine closes."""
        with self._changed:
            while not self._closing:
                may_run = self._pause is None or (self._pause == "wait" and self._rows)
                if may_run and (self._rows or self._waiting):
                    return True
                if self._pause is not None and not may_run:
                    self._parked = True
                    self._changed.notify_all()
                self._changed.wait()
            return False

    def _step(self) -> None:
        for slot in reversed(range(len(self._rows))):
            if self._rows[slot].request.cancelled:
                self._leave(slot)
        if self._recompute:
            self._rebuild()
        if self._pause is None:
            self._enter()
        if self._rows:
            self._decode_rows()

    def _enter(self) -> None:
        """Move waiting calls into free rows, compute what they share once, and draw their first tokens."""
        entering = self._entering
        with self._changed:
            free = self._max_rows - len(self._rows)
            if len(self._waiting) > free and self._rows and free < self._max_rows * MIN_ENTERING:
                return  # more will be free soon, and prompts are cheaper computed together
            while self._waiting and len(self._rows) + len(entering) < self._max_rows:
                request = self._waiting.popleft()
                if not request.cancelled:
                    entering.append(request)
        if not entering:
            return
        prefixes = self._prefill([request.prompt for request in entering])
        fresh = [Row(request=request, length=len(request.prompt)) for request in entering]
        for row, prefix in zip(fresh, prefixes, strict=True):
            self._cache.write(len(self._rows), prefix.keys, prefix.values)
            self._rows.append(row)
        self._entering = []
        self._draw(fresh, torch.stack([prefix.logits for prefix in prefixes]))

    def _prefill(self, prompts: Sequence[IntArray]) -> list[Prefix]:
        """The computed prefix of each prompt, every distinct one computed once."""
        distinct = {prompt.tobytes(): prompt for prompt in prompts}
        found = {key: stored for key, prompt in distinct.items() if (stored := self._prefixes.exact(prompt))}
        missing = [prompt for key, prompt in distinct.items() if key not in found]
        for prefix in self._compute(missing):
            found[prefix.ids.tobytes()] = prefix
            self._prefixes.add(prefix)
        return [found[prompt.tobytes()] for prompt in prompts]

    def _compute(self, prompts: Sequence[IntArray]) -> list[Prefix]:
        """Prefixes of distinct prompts; under `deterministic` alone and from the first id on."""
        plain: Start = (None, 0)
        starts = [plain if self._config.deterministic else self._prefixes.longest(prompt) for prompt in prompts]
        self.statistics["prefill_tokens"] += sum(map(len, prompts)) - sum(shared for _, shared in starts)
        return compute_prefixes(self.model, prompts, starts, max_rows=self._max_rows)

    def _decode_rows(self) -> None:
        """Compute the last token of every row and draw the next."""
        ids = torch.tensor([[row.tokens[-1]] for row in self._rows])
        positions = torch.tensor([[row.length] for row in self._rows])
        logits = forward(self.model, self._cache, ids, positions, int(positions.max()) + 1)
        self.statistics["decode_steps"] += 1
        self.statistics["decoded_tokens"] += len(self._rows)
        for row in self._rows:
            row.length += 1
        self._draw(list(self._rows), logits)

    def _draw(self, rows: Sequence[Row], logits: Tensor) -> None:
        drawn = draw(logits, [row.request.params for row in rows], [len(row.tokens) for row in rows])
        for row, token, logprob, kept in zip(rows, drawn.tokens, drawn.logprobs, drawn.support, strict=True):
            row.tokens.append(token)
            row.logprobs.append(logprob)
            row.versions.append(self.version)
            row.support.append(kept)
        for slot in reversed(range(len(self._rows))):
            row = self._rows[slot]
            reason = self._finished(row)
            if reason is not None:
                self._remember(slot, row)
                self._leave(slot)
                row.request.answer(_completion(row, reason))

    def _finished(self, row: Row) -> FinishReason | None:
        params = row.request.params
        if row.tokens[-1] in self._end_ids:
            return "stop"
        if params.stop:
            text = self._decode(row.tokens[-BYTES_PER_CHARACTER * (max(map(len, params.stop)) + 1) :])
            if any(stop in text for stop in params.stop):
                return "stop"
        if len(row.tokens) >= params.max_tokens or len(row.request.prompt) + len(row.tokens) >= self.max_context:
            return "length"
        return None

    def _remember(self, slot: int, row: Row) -> None:
        """Keep what was computed of a finished row: a later turn goes on from it."""
        if row.length > len(row.request.prompt) and len(set(row.versions)) == 1:
            keys, values = self._cache.read(slot, row.length)
            self._prefixes.add(Prefix(row.ids[: row.length], keys, values, None))

    def _leave(self, slot: int) -> None:
        """Free a row: the last one takes its place, so that the batch stays dense."""
        last = self._rows.pop()
        if slot < len(self._rows):
            self._cache.move(len(self._rows), slot, last.length)
            self._rows[slot] = last

    def _rebuild(self) -> None:
        """Compute the running rows anew under the loaded weights."""
        self._recompute = False
        prefixes = self._compute([row.ids[: row.length] for row in self._rows])
        for slot, prefix in enumerate(prefixes):
            self._cache.write(slot, prefix.keys, prefix.values)


def _completion(row: Row, reason: FinishReason) -> Completion:
    cut = any(kept is not None for kept in row.support)
    return Completion(
        token_ids=np.array(row.tokens, np.int32),
        logprobs=np.minimum(np.array(row.logprobs, np.float32), 0.0),
        versions=np.array(row.versions, np.int32),
        support=tuple(row.support) if cut else None,
        finish_reason=reason,
    )
