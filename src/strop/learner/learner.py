"""The learner: batches in, updated weights out. Gradients only add, so micro-batches never change a result."""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from strop.config.schema import LearnerConfig
from strop.core.batch import Batch
from strop.core.errors import DivergedError
from strop.core.protocols import LossFn, LossInputs
from strop.core.types import TokenOutputs, TrainingSample, Update
from strop.learner import state
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
        loss: LossFn,
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
        """`old`: the current weights; `reference`: the weights training started from; `value`: the value head."""
        return await self._in_thread(partial(self._forward, samples, needs)) if needs else {}

    def weights(self) -> Iterable[tuple[str, Any]]:
        return self.policy.named_weights()

    def save(self, folder: Path) -> None:
        state.save(self, folder)

    def load(self, folder: Path) -> None:
        state.load(self, folder)
        self._version = state.read_version(folder)

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
        for tries in self._micro_batches(batch.samples):
            outputs = self._outputs(self.policy, tries, batch.samples)
            loss = torch.zeros((), device=self._device)
            for number, output in outputs.items():
                part, measured = self._sample_loss(batch, number, output)
                loss = loss + part
                for name, value in measured.items():
                    sums[name] += value
            sums["loss"] += loss.item()
            num_nodes += sum(len(trie) for trie in tries)
            if loss.requires_grad:
                loss.backward()
        grad_norm = self._step(sums["loss"])
        self.num_updates += 1
        self._version += 1
        metrics = _means(sums) | {
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

    def _sample_loss(self, batch: Batch, number: int, output: SampleOutputs) -> tuple[Tensor, dict[str, float]]:
        sample = batch.samples[number]
        mask = torch.from_numpy(sample.loss_mask.copy()).to(self._device)

        def tensor(field: Sequence[Any] | None) -> Tensor | None:
            return None if field is None else torch.from_numpy(np.array(field[number])).to(self._device)

        sampled = None if sample.sampled_logprobs is None else [None] * number + [sample.sampled_logprobs]
        inputs = LossInputs(
            logprobs=output.logprobs,
            entropy=output.entropy,
            values=output.values,
            advantages=tensor(batch.advantages),
            mask=mask,
            sampled_logprobs=tensor(sampled),
            old_logprobs=tensor(batch.old_logprobs),
            ref_logprobs=tensor(batch.ref_logprobs),
            old_values=tensor(batch.old_values),
            returns=tensor(batch.returns),
        )
        losses, measured = self.loss(inputs)
        weights = tensor(batch.weights)
        loss = torch.where(mask, losses * weights, torch.zeros_like(losses)).sum()
        measured = {**measured, "entropy": output.entropy}
        sums = {name: float(value.detach()[mask].sum()) for name, value in measured.items()}
        if inputs.sampled_logprobs is not None:
            sums |= _mismatch(output.logprobs.detach(), inputs.sampled_logprobs, mask)
        return loss, {**sums, "num_tokens": float(mask.sum())}

    @torch.no_grad()
    def _forward(self, samples: Sequence[TrainingSample], needs: Sequence[str]) -> dict[str, list[TokenOutputs]]:
        found: dict[str, list[TokenOutputs]] = {}
        self.policy.eval()  # no dropout: these are what the update is compared with
        if "old" in needs or "value" in needs:
            own = self._all_outputs(self.policy, samples)
            found |= {need: own for need in ("old", "value") if need in needs}
        if "reference" in needs:
            with self.policy.reference():
                found["reference"] = self._all_outputs(self._reference or self.policy, samples)
        return found

    def _all_outputs(self, policy: Policy, samples: Sequence[TrainingSample]) -> list[TokenOutputs]:
        outputs: dict[int, SampleOutputs] = {}
        for tries in self._micro_batches(samples):
            outputs |= self._outputs(policy, tries, samples)
        return [_as_numpy(outputs[number]) for number in range(len(samples))]

    def _micro_batches(self, samples: Sequence[TrainingSample]) -> Iterator[list[Trie]]:
        tries = build_tries(samples, max_nodes=self.config.micro_batch_tokens, share=self._share)
        for numbers in plan_micro_batches([len(t) for t in tries], max_tokens=self.config.micro_batch_tokens):
            yield [tries[n] for n in numbers]

    def _outputs(
        self, policy: Policy, tries: Sequence[Trie], samples: Sequence[TrainingSample]
    ) -> dict[int, SampleOutputs]:
        run = run_shared if self._share else run_apart
        with self._precision():
            return run(policy, tries, samples, chunk_tokens=self.config.logits_chunk_tokens)

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
    loss: LossFn,
    total_updates: int,
    needs: Sequence[str] = (),
    start_version: int = 0,
) -> TorchLearner:
    """A learner of the model in `folder`, with a value head when the algorithm needs `value`."""
    policy = load_policy(folder, config, value_head="value" in needs)
    return TorchLearner(policy, config, loss, total_updates=total_updates, needs=needs, start_version=start_version)


def _mismatch(logprobs: Tensor, sampled: Tensor, mask: Tensor) -> dict[str, float]:
    """Sums over trained tokens of k3 and |d| between the learner's logprobs and the sampler's."""
    gap = (logprobs - sampled)[mask].double()
    return {
        "mismatch_k3": float((torch.expm1(gap.clamp(-20, 20)) - gap).sum()),
        "mismatch_abs": float(gap.abs().sum()),
    }


def _means(sums: Mapping[str, float]) -> dict[str, float]:
    """Per-token means of what was summed over trained tokens; loss and the token count stay sums."""
    num_tokens = max(1.0, sums.get("num_tokens", 0.0))
    return {n: v if n in ("loss", "num_tokens") else v / num_tokens for n, v in sums.items()}


def _as_numpy(outputs: SampleOutputs) -> TokenOutputs:
    return TokenOutputs(
        logprobs=outputs.logprobs.float().cpu().numpy(),
        entropy=outputs.entropy.float().cpu().numpy(),
        values=None if outputs.values is None else outputs.values.float().cpu().numpy(),
    )
