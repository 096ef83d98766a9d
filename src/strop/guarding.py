"""The forgetting guard at work in an RL stage: probes of the policy, and what a proven drop does to the run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strop import build
from strop.config.curriculum import ForgettingConfig
from strop.config.schema import StageConfig
from strop.core.errors import ForgettingError
from strop.core.protocols import Domain, Learner
from strop.core.seeds import derive_seed
from strop.curriculum.forgetting import (
    ForgettingEvent,
    ForgettingGuard,
    Outcome,
    Standing,
    replay_domains,
    roll_back_step,
    rolled_back,
    share_factors,
)
from strop.curriculum.mixture import Mixture
from strop.evaluation.evaluate import evaluate
from strop.storage.checkpoints import Checkpoint, CheckpointFolder
from strop.storage.records import MetricsLog
from strop.train import Run
from strop.workshop import Workshop, publish

log = logging.getLogger(__name__)
EVENTS_FILE = "events.jsonl"
PROBE_TEMPERATURE = 1.0  # samples of one task must differ, and greedy answers hide what is being lost


@dataclass(kw_only=True)
class Guarding:
    """`events` gets every action with its evidence; `state` goes into the stage's checkpoints."""

    shop: Workshop
    settings: ForgettingConfig
    guard: ForgettingGuard
    domains: Sequence[Domain]
    learner: Learner
    checkpoints: CheckpointFolder
    events: MetricsLog
    state: Mapping[str, Any]

    def is_due(self, step: int) -> bool:
        """At the start of the stage, where no probe was made yet, and after every so many steps."""
        return self.is_probed(step) and (step > 0 or self.state["looks"] == 0)

    def is_probed(self, step: int) -> bool:
        return step % self.settings.every_steps == 0

    async def review(self, run: Run, step: int) -> None:
        """Probe the policy as it is after `step` and act on what is proven. ForgettingError where that is to stop."""
        outcomes = await self._probe(step)
        self.state, events = self.guard.review(self.state, step, outcomes)
        for event in events:
            self.events.append(step, event.to_json())
            log.warning("step %d: %s", step, said(event))
        if any(event.action == "stop" for event in events):
            raise ForgettingError(f"step {step}: {said(events[0])}; the stage stops, as forgetting.actions asks")
        to_step = roll_back_step(events)
        if to_step is not None:
            await self._roll_back(run, to_step)
        if isinstance(run.curriculum, Mixture):
            factors = share_factors(self.state, step)
            run.curriculum_state = run.curriculum.with_factors(run.curriculum_state, factors)
            run.curriculum_state = run.curriculum.with_back(run.curriculum_state, {event.domain for event in events})

    async def _roll_back(self, run: Run, to_step: int) -> None:
        """Old weights come back as a new version. Steps, curriculum and the probes that were spent go on."""
        checkpoint = self.checkpoints.newest_up_to(to_step)
        if checkpoint is None:
            log.warning("there is no checkpoint of step %d or before to go back to", to_step)
            return
        self.learner.roll_back(checkpoint.path)
        run.rolled_back.append(self.learner.version)
        self.state = rolled_back(self.state, checkpoint.step)
        await run.publish()

    def must_save(self, step: int) -> bool:
        """Whether a later probe might ask to go back to this step."""
        return "roll_back" in self.guard.actions and self.is_probed(step)

    def pinned(self) -> tuple[int, ...]:
        """The steps whose checkpoints a later probe might ask for."""
        return self.guard.steps_to_keep(self.state) if "roll_back" in self.guard.actions else ()

    def to_replay(self, step: int) -> tuple[str, ...] | None:
        """The domains to replay after `step`, where replay is one of the actions; else None, which is all."""
        return replay_domains(self.state, step) if "replay" in self.guard.actions else None

    def standings(self, step: int) -> Mapping[str, Standing]:
        """Where each domain stands after `step`, for tables."""
        return self.guard.standings(self.state, step)

    async def _probe(self, step: int) -> list[Outcome]:
        """Results of the same held-out tasks every time, less what failed for other reasons than the policy's."""
        shop = self.shop
        await publish(shop.engine, self.learner)
        report = await evaluate(
            self.domains,
            build.build_attempt(shop.config, shop.engine, shop.renderer, derive_seed(shop.config.seed, "probe", step)),
            model=f"probe-{step}",
            num_tasks=self.settings.num_tasks,
            num_samples=self.settings.num_samples,
            temperature=PROBE_TEMPERATURE,
            concurrency=shop.config.evaluation.concurrency,
            progress=lambda done, total: shop.sinks.step(f"probe after step {step}", done, total, {}),
        )
        return [
            Outcome(domain=domain.domain, task_id=result.task_id, score=min(1.0, max(0.0, result.score)))
            for domain in report.domains
            for result in domain.results
        ]


def open_guarding(
    shop: Workshop,
    stage: StageConfig,
    domains: Sequence[Domain],
    learner: Learner,
    place: Path,
    checkpoints: CheckpointFolder,
    saved: Checkpoint | None,
) -> Guarding | None:
    """The guard of a stage, or as its checkpoint left it; None where the recipe asks for no probe."""
    guard = build.build_guard(shop.config, stage)
    if guard is None:
        return None
    events = MetricsLog(place / EVENTS_FILE)
    events.cut(saved.step if saved is not None else -1)
    return Guarding(
        shop=shop,
        settings=shop.config.curriculum.forgetting,
        guard=guard,
        domains=domains,
        learner=learner,
        checkpoints=checkpoints,
        events=events,
        state=saved.state["guard"] if saved is not None else guard.start(),  # type: ignore[arg-type]  # JSON
    )


def said(event: ForgettingEvent) -> str:
    """One line of an event."""
    return (
        f"{event.domain!r} is being forgotten: {100 * event.best:.0f}% at its best (step {event.best_steps[-1]}), "
        f"{100 * event.now:.0f}% now, a drop of {100 * event.drop:.0f} [{100 * event.low:.0f}, {100 * event.high:.0f}] "
        f"points over {event.num_tasks} tasks (p = {event.p_corrected:.2g}, corrected): {event.action}"
    )
