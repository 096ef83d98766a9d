"""The learner: batches in, updated weights out. Gradients only add, so micro-batches never change a result."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from strop.config.machine import on_this_machine
from strop.config.schema import LearnerConfig
from strop.core.batch import Batch
from strop.core.errors import DivergedError
from strop.core.protocols import LossFn, PairLossFn
from strop.core.types import TokenOutputs, TrainingSample, Update
from strop.learner import state
from strop.learner.batch_loss import batch_loss, step_means
from strop.learner.check import choose_packing
from strop.learner.forward import run_apart, run_shared
from strop.learner.optim import learning_rate, make_optimizer
from strop.learner.plan import plan_micro_batches
from strop.learner.policy import Policy, load_policy
from strop.learner.token_logprobs import SampleOutputs
from strop.learner.tries import Trie, build_tries

Result = TypeVar("Result")

MAX_SKIPPED_IN_A_ROW = 5  # one is a spike; so many mean that the weights are lost


class TorchLearner:
    """A Learner over one Policy. All work runs in one thread of its own, so the event loop goes on sampling.

    `version` rises by one with every update, a skipped one included: its weights are published unchanged.
    """

    def __init__(
        self,
        policy: Policy,
        config: LearnerConfig,
        loss: LossFn | PairLossFn,
        *,
        total_updates: int,
        needs: Sequence[str] = (),
        start_version: int = 0,
    ) -> None:
        self.policy = policy
        self.config = config
        self.loss = loss
        self.total_updates = total_updates
        self.num_updates = 0
        self.num_skipped = 0
        self._skipped_in_a_row = 0
        self.optimizer = make_optimizer(policy.parameters(), config)
        self._version = start_version
        self._share = choose_packing(policy, config)
        self._scores = "score" in needs  # then the head is read at the last tokens, and no logits are computed
        self._reference = policy.frozen_copy() if "reference" in needs and not policy.starts_plain else None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="learner")

    @property
    def version(self) -> int:
        return self._version

    async def update(self, batch: Batch) -> Update:
        """One optimizer step. A step whose loss or gradient is not finite is skipped and counted; too many in a row
        are a DivergedError."""
        return await self._in_thread(partial(self._update, batch))

    async def forward(
        self, samples: Sequence[TrainingSample], needs: Sequence[str]
    ) -> Mapping[str, Sequence[TokenOutputs]]:
        """`old`: the current weights; `reference`: the weights training started from; `value`: the value head;
        `score`: the reward head, of a learner that was made for it."""
        return await self._in_thread(partial(self._forward, samples, needs)) if needs else {}

    def weights(self) -> Iterable[tuple[str, Any]]:
        return self.policy.named_weights()

    def save(self, folder: Path) -> None:
        state.save(self, folder)

    def load(self, folder: Path) -> None:
        state.load(self, folder)
        self._version = state.read_version(folder)

    def roll_back(self, folder: Path) -> None:
        """Load what was saved in `folder`, as a new version: versions only rise."""
        version = self._version + 1
        self.load(folder)
        self._version = version

    def export(self, folder: Path, *, merge: bool = False) -> None:
        self.policy.export(folder, merge=merge)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _update(self, batch: Batch) -> Update:
        started_s = time.monotonic()
        self.policy.train()
        rate = learning_rate(self.num_updates, self.config, self.total_updates)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        sums: defaultdict[str, float] = defaultdict(float)
        num_nodes = 0
        for tries in self._micro_batches(batch.samples, paired=batch.pairs is not None):
            loss, measured = batch_loss(self.loss, batch, self._outputs(self.policy, tries, batch.samples))
            for name, value in measured.items():
                sums[name] += value
            sums["loss"] += loss.item()
            num_nodes += sum(len(trie) for trie in tries)
            if loss.requires_grad:
                loss.backward()
        grad_norm = self._step(sums["loss"])
        self.num_updates += 1
        self._version += 1
        metrics = step_means(batch, sums) | {
            "grad_norm": grad_norm,
            "learning_rate": rate,
            "unique_tokens": float(num_nodes),
            "skipped_updates": float(self.num_skipped),
            "time/update_s": time.monotonic() - started_s,
        }
        return Update(version=self._version, metrics=metrics)

    def _step(self, loss: float) -> float:
        trained = [p for p in self.policy.parameters() if p.grad is not None]
        norm = torch.nn.utils.clip_grad_norm_(trained, self.config.max_grad_norm).item() if trained else 0.0
        if math.isfinite(norm) and math.isfinite(loss):
            self.optimizer.step()
            self._skipped_in_a_row = 0
        else:
            self.num_skipped += 1
            self._skipped_in_a_row += 1
        if self._skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise DivergedError(
                f"{MAX_SKIPPED_IN_A_ROW} updates in a row had a loss or gradient that is not finite: lower "
                "learner.learning_rate, and look for rewards or weights of enormous size"
            )
        return norm

    @torch.no_grad()
    def _forward(self, samples: Sequence[TrainingSample], needs: Sequence[str]) -> dict[str, list[TokenOutputs]]:
        found: dict[str, list[TokenOutputs]] = {}
        self.policy.eval()  # no dropout: these are what the update is compared with
        if {"old", "value", "score"} & {*needs}:
            own = self._all_outputs(self.policy, samples)
            found |= {need: own for need in ("old", "value", "score") if need in needs}
        if "reference" in needs:
            with self.policy.reference():
                found["reference"] = self._all_outputs(self._reference or self.policy, samples)
        return found

    def _all_outputs(self, policy: Policy, samples: Sequence[TrainingSample]) -> list[TokenOutputs]:
        outputs: dict[int, SampleOutputs] = {}
        for tries in self._micro_batches(samples):
            outputs |= self._outputs(policy, tries, samples)
        return [_as_numpy(outputs[number]) for number in range(len(samples))]

    def _micro_batches(self, samples: Sequence[TrainingSample], *, paired: bool = False) -> Iterator[list[Trie]]:
        """Tries to compute together. The samples of a pair are never parted, even where they exceed the budget."""
        budget = self.config.micro_batch_tokens
        tries = build_tries(samples, max_nodes=sys.maxsize if paired else budget, share=self._share)
        units: dict[int, list[Trie]] = {}
        for number, trie in enumerate(tries):
            units.setdefault(samples[trie.members[0]].ticket if paired else number, []).append(trie)
        whole = list(units.values())
        rows = max(map(len, whole), default=1)
        for numbers in plan_micro_batches([max(map(len, u)) for u in whole], max_tokens=budget // rows):
            yield [trie for n in numbers for trie in whole[n]]

    def _outputs(
        self, policy: Policy, tries: Sequence[Trie], samples: Sequence[TrainingSample]
    ) -> dict[int, SampleOutputs]:
        run = run_shared if self._share else run_apart
        with self._precision():
            return run(policy, tries, samples, chunk_tokens=self.config.logits_chunk_tokens, scores=self._scores)

    def _precision(self) -> Any:
        if self.config.dtype == "bfloat16":
            return torch.autocast(self._device.type, torch.bfloat16)
        return nullcontext()

    @property
    def _device(self) -> torch.device:
        return self.policy.plain.device


def load_learner(
    folder: Path,
    config: LearnerConfig,
    *,
    loss: LossFn | PairLossFn,
    total_updates: int,
    needs: Sequence[str] = (),
    start_version: int = 0,
) -> TorchLearner:
    """A learner of the model in `folder`, with a value head when `value` is needed, a reward head for `score`."""
    config = on_this_machine(config)
    policy = load_policy(folder, config, value_head="value" in needs, score_head="score" in needs)
    return TorchLearner(policy, config, loss, total_updates=total_updates, needs=needs, start_version=start_version)


def _as_numpy(outputs: SampleOutputs) -> TokenOutputs:
    return TokenOutputs(
        logprobs=outputs.logprobs.float().cpu().numpy(),
        entropy=outputs.entropy.float().cpu().numpy(),
        values=None if outputs.values is None else outputs.values.float().cpu().numpy(),
    )
