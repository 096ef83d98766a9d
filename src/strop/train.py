"""The RL loop. Synchronous or asynchronous is one number: `max_staleness`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from strop.core.batch import Batch, make_batch, samples_of, without_truncated
from strop.core.errors import first_error
from strop.core.metrics import group_metrics, reduce_metrics, reward_counts
from strop.core.protocols import Algorithm, Curriculum, Domain, Learner, PauseMode, ScaleState, WeightReceiver
from strop.core.types import JSON, NOT_SAMPLED, RolloutGroup, TrainingSample
from strop.rollout.group import Roller
from strop.scheduler.buffer import Buffer, Finished, StepGroups
from strop.scoring.budget import check_infra_budget
from strop.scoring.score import Scorer

Record = Callable[["Run", StepGroups, Batch | None, Mapping[str, float]], None]  # no batch: nothing was learned
Due = Callable[["Run", StepGroups], Awaitable[None]]


@dataclass(kw_only=True)
class Run:
    """The parts of one RL stage, as build.py made them, and the state that advances with it."""

    domains: Mapping[str, Domain]
    algorithm: Algorithm
    learner: Learner
    receiver: WeightReceiver
    roller: Roller
    scorer: Scorer
    curriculum: Curriculum
    buffer: Buffer
    record: Record
    due: Due
    replayed: Callable[[int, int], Sequence[RolloutGroup]] = lambda version, num_fresh: ()
    group_size: int
    num_steps: int
    max_staleness: int
    curriculum_state: Mapping[str, JSON]
    scale: ScaleState = field(default_factory=dict)
    first_step: int = 1
    attempt: int = 0
    deadline_s: float | None = None
    pause_mode: PauseMode = "wait"
    max_infra_share: float = 0.5
    rolled_back: list[int] = field(default_factory=list)  # versions that brought old weights back, and taught nothing

    async def publish(self) -> None:
        """Give the samplers the learner's weights, at a token boundary."""
        await self.receiver.pause(self.pause_mode)
        await self.receiver.load(self.learner.version, self.learner.weights())
        await self.receiver.resume()

    @asynccontextmanager
    async def producers(self) -> AsyncIterator[None]:
        """While open: admit, assign, roll out, score, put. An error in any of it ends the run."""
        try:
            async with asyncio.TaskGroup() as tasks:
                admitting = tasks.create_task(self._admit(tasks))
                yield
                admitting.cancel()
        except BaseExceptionGroup as group:
            raise first_error(group) from None

    async def _admit(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            ticket = await self.buffer.admit()
            tasks.create_task(self._produce(ticket))

    async def _produce(self, ticket: int) -> None:
        task = self.curriculum.assign(self.curriculum_state, ticket)
        domain = self.domains[task.domain]
        group = await self.roller.group(
            domain, task, ticket=ticket, attempt=self.attempt, size=self.group_size, deadline_s=self.deadline_s
        )
        group = await self.scorer.group(group, domain)
        await self.buffer.put(Finished(group=group, drop_reason=self.algorithm.keep(group)))

    async def learn(self, fresh: Sequence[RolloutGroup]) -> tuple[Batch, Mapping[str, float]]:
        """One update from one step's groups and what is replayed; the new version is the learner's."""
        groups = [*fresh, *self.replayed(self.learner.version, len(fresh))]
        if self.algorithm.mask_truncated:
            groups = without_truncated(groups)
        samples = samples_of(groups, {name: d.sampling.temperature for name, d in self.domains.items()})
        self._assert_fresh(samples, {group.ticket for group in fresh})
        outputs = await self.learner.forward(samples, self.algorithm.needs)
        batch, self.scale = make_batch(groups, samples, outputs, self.algorithm, self.scale)
        update = await self.learner.update(batch)
        return batch, {**update.metrics, **(batch.metrics or {}), "groups_replayed": float(len(groups) - len(fresh))}

    def observe(self, step: StepGroups) -> None:
        """The curriculum observes every ticket of the step in order."""
        for finished in step.finished:
            self.curriculum_state = self.curriculum.observe(self.curriculum_state, finished.group)

    def state(self, step: StepGroups) -> dict[str, Any]:
        """What a checkpoint needs beside the learner to go on after this step."""
        return {
            "step": step.step,
            "next_ticket": step.next_ticket,
            "attempt": self.attempt,
            "curriculum": dict(self.curriculum_state),
            "scale": dict(self.scale),
        }

    def measure(self, step: StepGroups) -> dict[str, float]:
        """What the step's rollouts say, dropped groups included; the multipliers of constraints move by it."""
        signals = {name: domain.signal for name, domain in self.domains.items()}
        groups = [finished.group for finished in step.finished]
        metrics = reduce_metrics(group_metrics(groups, signals, self.learner.version))
        check_infra_budget(groups, self.max_infra_share)
        for constraint in self.algorithm.constraints:
            self.scale, found = constraint(groups, self.scale)
            metrics |= found
        metrics |= reward_counts(self.domains.values())
        return {**metrics, "groups_dropped": float(len(groups) - len(step.groups)), "backlog": self.buffer.backlog}

    def _assert_fresh(self, samples: Sequence[TrainingSample], tickets: Collection[int]) -> None:
        for sample in (s for s in samples if s.ticket in tickets):
            sampled = sample.versions[sample.versions != NOT_SAMPLED]
            oldest = int(sampled.min(initial=self.learner.version))
            if self.learner.version - oldest - sum(v > oldest for v in self.rolled_back) > self.max_staleness:
                raise AssertionError(f"ticket {sample.ticket} is older than max_staleness = {self.max_staleness}")


async def train(run: Run) -> None:
    """Run the stage to its end. A step: take groups, learn, publish, observe, record, what is due, open the slots."""
    await run.publish()
    async with run.producers():
        for _ in range(run.first_step, run.num_steps + 1):
            started_s = time.monotonic()
            step = await run.buffer.take()
            metrics = run.measure(step)
            waited_s = time.monotonic() - started_s
            batch = None  # a step whose groups were all dropped makes no update and no new version
            if any(group.trainable for group in step.groups):
                batch, learned = await run.learn(step.groups)
                metrics |= learned
                await run.publish()
            run.observe(step)
            times = {"time/step_s": time.monotonic() - started_s, "time/wait_s": waited_s}
            run.record(run, step, batch, {**metrics, **times})
            await run.due(run, step)
            await run.buffer.release(step)
