"""What the stages of one run share: the engine, the folder, evaluations, checkpoints, and what users must hear."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from strop import build
from strop.config.schema import RunConfig, StageConfig
from strop.core.protocols import Domain, Learner
from strop.core.types import JSON
from strop.curriculum.views import domain_rows
from strop.engines.renderer import ChatRenderer
from strop.engines.torch_engine import TorchEngine
from strop.evaluation.evaluate import evaluate
from strop.evaluation.intervals import wilson
from strop.evaluation.report import EvalReport
from strop.observability.sinks import Sinks
from strop.rewards.reward_model import RewardModels
from strop.scheduler.buffer import StepGroups
from strop.scheduler.cadence import is_due
from strop.scoring.budget import failures_of, report
from strop.storage.checkpoints import CheckpointFolder
from strop.storage.records import DOMAINS_FILE, Costs, RunFolder, write_whole

MANY_TRUNCATED = 0.5


@dataclass(kw_only=True)
class Workshop:
    """What all stages of one run share: the engine that samples, the renderer, the folder and where we say things."""

    config: RunConfig
    folder: RunFolder | None
    engine: TorchEngine
    renderer: ChatRenderer
    sinks: Sinks
    trained: list[Domain]
    transfer: list[Domain]
    sandbox_of: build.SandboxOf | None = None
    reward_models: RewardModels | None = None
    costs: Costs | None = None

    async def report(self, name: str, learner: Learner | None) -> EvalReport:
        """The evaluation of the current model under `name`, read back when this run already made it."""
        path = self.folder.path / "evaluations" / f"{name}.json"
        if path.exists():
            return EvalReport.from_json(path.read_text())
        with self.costs.timed(f"evaluate {name}"):
            if learner is not None:
                await publish(self.engine, learner)
            report = await self.evaluate(name)
            path.parent.mkdir(exist_ok=True)
            partial = path.with_name(f".{path.name}.partial")
            partial.write_text(report.to_json())
            os.replace(partial, path)
        return report

    async def evaluate(self, name: str) -> EvalReport:
        config = self.config.evaluation
        attempt = build.build_attempt(self.config, self.engine, self.renderer, config.seed)
        return await evaluate(
            [*self.trained, *self.transfer],
            attempt,
            model=name,
            transfer=[domain.name for domain in self.transfer],
            num_tasks=config.num_tasks,
            num_samples=config.num_samples,
            ks=config.ks,
            temperature=config.temperature,
            concurrency=config.concurrency,
            progress=lambda done, total: self.sinks.step(f"evaluate {name}", done, total, {}),
        )


def write_domains(
    place: Path, step: int, state: Mapping[str, JSON], metrics: Mapping[str, float], guard: Mapping[str, Any]
) -> None:
    """The table of domains after a step, in place of the one before: what `strop domains` shows.

    `state` is the curriculum's; `guard` has the standings of the forgetting guard, by domain.
    """
    rows = [
        {
            **asdict(row),
            "gradient_share": metrics.get(f"domain/{row.domain}/gradient_share"),
            "guard": asdict(guard[row.domain]) if row.domain in guard else None,
        }
        for row in domain_rows(state, wilson)
    ]
    write_whole(place / DOMAINS_FILE, json.dumps({"step": step, "domains": rows}).encode())


async def publish(engine: TorchEngine, learner: Learner) -> None:
    await engine.pause("wait")
    await engine.load(learner.version, learner.weights())
    await engine.resume()


def saving(stage: StageConfig, learner: Learner, checkpoints: CheckpointFolder) -> Callable[..., Any]:
    """What `fit` and `train` do after a step: a checkpoint, where one is due."""

    async def due(step: int, state: Mapping[str, JSON]) -> None:
        if is_due(step, stage.save.every_steps, stage.steps):
            checkpoints.save(step, learner.save, state)

    return due


def remarks_on(step: int, groups: StepGroups, metrics: Mapping[str, float]) -> list[str]:
    """What a user should hear of a step at once, instead of finding it in a curve hours later."""
    remarks = []
    if metrics["truncated_share"] > MANY_TRUNCATED and step == groups.step == 1:
        share = 100 * metrics["truncated_share"]
        remarks.append(f"step 1: {share:.0f}% of the rollouts were cut off; raise sampling.max_tokens")
    found = [finished.group for finished in groups.finished]
    failures = failures_of(found)
    if failures:
        num_rollouts = sum(len(group.rollouts) for group in found)
        remarks.append(f"step {step}: {len(failures)} of {num_rollouts} rollouts are left out: {report(failures)}")
    if not groups.groups:
        reasons = Counter(finished.drop_reason for finished in groups.finished)
        reason, count = reasons.most_common(1)[0]
        remarks.append(f"step {step}: nothing to train on, {count} of {len(groups.finished)} groups dropped: {reason}")
    return remarks + skipped(step, metrics)


def skipped(step: int, metrics: Mapping[str, float]) -> list[str]:
    if all(math.isfinite(metrics[name]) for name in ("loss", "grad_norm") if name in metrics):
        return []
    return [f"step {step}: loss or gradient is not finite, so its update was skipped; lower learner.learning_rate"]
