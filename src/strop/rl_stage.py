"""One RL stage of a recipe: made, recorded step by step, and gone on with where it was stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from strop import build
from strop.config.schema import StageConfig
from strop.core.batch import Batch, rollout_advantages
from strop.core.protocols import Learner
from strop.core.types import RolloutGroup
from strop.curriculum import history
from strop.guarding import Guarding, open_guarding
from strop.observability.over_optimisation import OverOptimisation
from strop.replaying import Replaying, open_replaying
from strop.scheduler.buffer import StepGroups
from strop.scheduler.cadence import is_due
from strop.storage.checkpoints import Checkpoint, CheckpointFolder
from strop.storage.records import MetricsLog, write_rollouts
from strop.train import Run, train
from strop.workshop import Workshop, remarks_on, write_domains

BEGINNING = StepGroups(step=0, finished=(), places=0, next_ticket=0)
log_to = logging.getLogger(__name__)


async def run_rl(
    shop: Workshop,
    stage: StageConfig,
    model: Path,
    place: Path,
    checkpoints: CheckpointFolder,
    log: MetricsLog,
    keep_costs: Callable[[], None],
) -> Learner:
    """Train from `model`, or go on from the newest checkpoint, to the stage's end."""
    domains = build.build_domains(shop.config, stage, sandbox_of=shop.sandbox_of, reward_models=shop.reward_models)
    algorithm = build.build_algorithm(stage, domains)
    learner = build.build_learner(shop.config, stage, model, algorithm, start_version=shop.engine.version + 1)
    saved = checkpoints.latest()
    if saved is not None:
        learner.load(saved.path)
    alarm = OverOptimisation(gold=tuple(sorted({domain.signal for domain in domains})))
    for row in log.read():
        alarm.observe(row["step"], row)
    records = _Records(
        shop=shop,
        stage=stage,
        place=place,
        checkpoints=checkpoints,
        log=log,
        keep_costs=keep_costs,
        learner=learner,
        alarm=alarm,
        history=saved.state["history"] if saved is not None else {},  # type: ignore[arg-type]  # JSON
        guarding=open_guarding(shop, stage, domains, learner, place, checkpoints, saved),
        replaying=open_replaying(shop.config, algorithm, saved),
        step=saved.step if saved is not None else 0,
    )
    run = build.build_run(
        shop.config,
        stage,
        domains=domains,
        algorithm=algorithm,
        learner=learner,
        engine=shop.engine,
        renderer=shop.renderer,
        progress=_progress(saved),
        record=records.record,
        due=records.due,
    )
    run.replayed = records.replayed
    if saved is None:
        await records.due(run, BEGINNING)
    await train(run)
    return learner


def _progress(saved: Checkpoint | None) -> build.Progress:
    if saved is None:
        return build.Progress()
    names = {field.name for field in fields(build.Progress)}
    progress = build.Progress(**{name: value for name, value in saved.state.items() if name in names})
    return replace(progress, attempt=progress.attempt + 1)


@dataclass(kw_only=True)
class _Records:
    """What is kept and said of each step, and what is due after it."""

    shop: Workshop
    stage: StageConfig
    place: Path
    checkpoints: CheckpointFolder
    log: MetricsLog
    keep_costs: Callable[[], None]
    learner: Learner
    alarm: OverOptimisation
    guarding: Guarding | None
    replaying: Replaying | None
    history: Mapping[str, Any]
    step: int  # the last that is done

    def replayed(self, version: int, num_fresh: int) -> Sequence[RolloutGroup]:
        """What the next step trains on beside its own groups."""
        if self.replaying is None:
            return ()
        domains = self.guarding.to_replay(self.step) if self.guarding is not None else None
        return self.replaying.replayed(version, num_fresh, domains)

    def record(self, run: Run, groups: StepGroups, batch: Batch | None, metrics: Mapping[str, float]) -> None:
        step, title = groups.step, self.stage.title
        write_rollouts(
            self.place / "rollouts",
            step,
            [finished.group for finished in groups.finished],
            stage=title,
            run=self.shop.folder.run_id if self.shop.folder is not None else "",
            advantages=rollout_advantages(batch) if batch is not None else {},
        )
        for finished in groups.finished:
            domain = run.domains[finished.group.task.domain]
            self.history = history.record(self.history, history.result_of(finished.group, step, domain.signal))
        self.step = step
        if self.replaying is not None:
            self.replaying.observe(groups.groups)
        self.log.append(step, metrics)
        standings = self.guarding.standings(step) if self.guarding is not None else {}
        write_domains(self.place, step, run.curriculum_state, metrics, standings)
        self.keep_costs()
        self.shop.sinks.step(title, step, self.stage.steps, metrics)
        for remark in [*remarks_on(step, groups, metrics), *self.alarm.observe(step, metrics)]:
            log_to.warning(remark)

    async def due(self, run: Run, groups: StepGroups) -> None:
        """Probes, saving, and the evaluations within the stage that `evaluation.every_steps` asks for."""
        step, steps, guarding = groups.step, self.stage.steps, self.guarding
        if guarding is not None and guarding.is_due(step):
            await guarding.review(run, step)
        to_save = step > 0 and is_due(step, self.stage.save.every_steps, steps)
        if to_save or (guarding is not None and guarding.must_save(step)):
            kept = {"history": self.history, "samples": history.samples_seen(self.history)}
            if guarding is not None:
                kept["guard"] = guarding.state
            pinned = () if guarding is None else guarding.pinned()
            self.checkpoints.save(step, self._save, run.state(groups) | kept, pinned=pinned)
        if 0 < step < steps and is_due(step, self.shop.config.evaluation.every_steps, steps):
            await self.shop.report(f"{self.stage.title}-step-{step}", self.learner)

    def _save(self, folder: Path) -> None:
        self.learner.save(folder)
        if self.replaying is not None:
            self.replaying.save(folder)
