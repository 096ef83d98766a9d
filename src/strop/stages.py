"""A whole recipe: its stages in order, each from the model the last one left, with an evaluation between them."""

from __future__ import annotations

import inspect
import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError
from rich.console import Console
from safetensors import SafetensorError

from strop import build
from strop.audit.gate import audit_before_training
from strop.config.schema import RunConfig, StageConfig
from strop.core.errors import CheckpointError, ConfigError, StropError
from strop.core.protocols import Learner
from strop.core.types import JSON
from strop.evaluation.compare import comparison_table
from strop.evaluation.evaluate import check_scored
from strop.evaluation.pairs import PairReport, pair_table
from strop.evaluation.report import EvalReport
from strop.fit import fit, teaching_batches
from strop.observability.sinks import ProgressBar, Sinks, StepSink, TensorBoard
from strop.preference import REPORT_FILE, check_pairs, train_on_pairs
from strop.rewards.reward_model import RewardModels
from strop.rl_stage import run_rl
from strop.storage.checkpoints import CheckpointFolder
from strop.storage.models import no_loading_bars
from strop.storage.records import MetricsLog, RunFolder, cut_rollouts
from strop.storage.reward_versions import check_reward_versions
from strop.workshop import Workshop, saving, skipped

log_to = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a run leaves: its folder, the final model as transformers loads it, one report per evaluated model, and one
    for each stage that was trained on preference pairs."""

    folder: Path
    model: Path
    reports: Mapping[str, EvalReport]
    seconds: Mapping[str, float]
    pairs: Mapping[str, PairReport] = field(default_factory=dict)


async def run_recipe(
    config: RunConfig, folder: RunFolder, sinks: Sinks, accept_rewards: Collection[str] = ()
) -> RunResult:
    """Run every stage that `folder` does not hold finished, and evaluate the base and each stage's model.

    ConfigError when a reward has changed since the run began, unless it is named in `accept_rewards`.
    """
    async with build.open_sandbox_for(config) as (usable, sandbox_of):
        with closing(RewardModels(folder.path, build.model_folder(config))) as reward_models:
            return await _run_stages(usable, folder, sinks, sandbox_of, reward_models, accept_rewards)


async def _run_stages(
    config: RunConfig,
    folder: RunFolder,
    sinks: Sinks,
    sandbox_of: build.SandboxOf | None,
    reward_models: RewardModels,
    accept_rewards: Collection[str],
) -> RunResult:
    start = build.model_folder(config)
    renderer = build.build_renderer(config, start)
    domains = partial(build.build_domains, config, sandbox_of=sandbox_of, reward_models=reward_models)
    trained, transfer = domains(), domains(transfer=True)
    versions = {domain.name: {r.name: r.version for r in domain.rewards} for domain in [*trained, *transfer]}
    check_reward_versions(folder.path, versions, accept_rewards)
    for domain in trained:
        build.check_disjoint(domain)
    check_pairs(config)
    for stage in config.stages:
        if stage.stage == "rl":  # what is wrong with an algorithm shows before any work
            build.build_algorithm(stage, domains(stage))
    await audit_before_training(trained, config, folder.path)
    reports: dict[str, EvalReport] = {}
    pairs: dict[str, PairReport] = {}
    async with build.build_engine(config, start, renderer) as engine:
        for domain in [*trained, *transfer]:
            build.check_prompts(domain, renderer, engine.max_context)
        shop = Workshop(
            config=config,
            folder=folder,
            engine=engine,
            renderer=renderer,
            sinks=sinks,
            trained=trained,
            transfer=transfer,
            sandbox_of=sandbox_of,
            reward_models=reward_models,
            costs=folder.costs(),
        )
        if config.domains:
            reports["base"] = await shop.report("base", None)
            check_scored(reports["base"])
        model = start
        for number, stage in enumerate(config.stages, start=1):
            place = folder.path / f"{number}-{stage.title}"
            learner = await run_stage(shop, stage, model, place)
            if (place / REPORT_FILE).exists():
                pairs[stage.title] = PairReport.from_json((place / REPORT_FILE).read_text())
            if learner is not None:
                model = place / "model"
                if config.domains:
                    reports[stage.title] = await shop.report(stage.title, learner)
    return RunResult(folder=folder.path, model=model, reports=reports, seconds=shop.costs.seconds, pairs=pairs)


async def run_stage(shop: Workshop, stage: StageConfig, model: Path, place: Path) -> Learner | None:
    """Run one stage, or go on with it, and export its model; a finished one is only loaded.

    None where it leaves no policy but a reward model, in a folder of that name.
    """
    place.mkdir(parents=True, exist_ok=True)
    if (place / "reward_model").exists():
        return None
    if (place / "model").exists():
        return build.build_teacher(shop.config, stage, place / "model", shop.engine.version + 1)
    checkpoints = CheckpointFolder(place / "checkpoints", keep=stage.save.keep)
    saved = checkpoints.latest()
    log = MetricsLog(place / "metrics.jsonl")
    log.cut(saved.step if saved is not None else 0)
    cut_rollouts(place / "rollouts", saved.step if saved is not None else 0)
    with shop.costs.timed(stage.title) as keep_costs:
        if stage.stage == "sft":
            learner = await _run_sft(shop, stage, model, checkpoints, log, keep_costs)
        elif stage.stage == "rl":
            learner = await run_rl(shop, stage, model, place, checkpoints, log, keep_costs)
        else:
            learner, export_scorer = await train_on_pairs(shop, stage, model, place, checkpoints, log, keep_costs)
            if export_scorer is not None:
                _export(export_scorer, place / "reward_model")
                return None
        _export(learner.export, place / "model")
    return learner


def _export(write: Callable[[Path], None], folder: Path) -> None:
    """Write the model beside, then rename it: a stage with a folder `model` is finished, whenever a run was stopped."""
    beside = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        write(beside)
        os.replace(beside, folder)
    except (OSError, RuntimeError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(
            f"{folder} cannot be written ({reason}); free disk space, then go on with --resume"
        ) from error


async def _run_sft(
    shop: Workshop,
    stage: StageConfig,
    model: Path,
    checkpoints: CheckpointFolder,
    log: MetricsLog,
    keep_costs: Callable[[], None],
) -> Learner:
    samples = [shop.renderer.teach(c) for c in build.teaching_conversations(shop.config, stage, shop.sandbox_of)]
    build.check_teachable(samples, shop.engine)
    learner = build.build_teacher(shop.config, stage, model, shop.engine.version + 1)
    saved = checkpoints.latest()
    if saved is not None:
        learner.load(saved.path)

    def record(step: int, metrics: Mapping[str, float]) -> None:
        log.append(step, metrics)
        keep_costs()
        shop.sinks.step(stage.title, step, stage.steps, metrics)
        for remark in skipped(step, metrics):
            log_to.warning(remark)

    await fit(
        learner,
        teaching_batches(samples, batch_size=stage.batch_size, seed=shop.config.seed),
        record,
        saving(stage, learner, checkpoints),
        num_steps=stage.steps,
        first_step=saved.step + 1 if saved is not None else 1,
    )
    return learner


def name_of(code: Any) -> str:
    """How a function given in Python stands in the run's configuration, the same in every process."""
    if inspect.isroutine(code) or inspect.isclass(code):
        return f"{code.__module__}:{code.__qualname__}"
    return type(code).__qualname__


def recipe_of(config: RunConfig) -> dict[str, JSON] | None:
    """What was given of the configuration, without defaults; None where code was given."""
    try:
        return config.model_dump(mode="json", exclude_unset=True)
    except PydanticSerializationError:
        return None


async def start_run(
    config: RunConfig, *, resume: Path | None = None, accept_rewards: Collection[str] = (), quiet: bool = False
) -> RunResult:
    """`strop train`: run a recipe in a new folder, or go on in an old one, and say what came of it."""
    if accept_rewards and resume is None:
        raise ConfigError("--accept-reward is for runs that go on: give --resume too, or leave it out")
    console = Console(quiet=quiet)
    content = config.model_dump(mode="json", fallback=name_of)
    if resume is not None:
        folder = RunFolder.open(resume, content)
    else:
        folder = RunFolder.create(Path(config.output), config.name, content, recipe_of(config))
    console.print(f"run folder {folder.path}")
    try:
        build.model_folder(config)  # fetched before the bars go: a download shows its own
        with folder.claim(), Sinks(_sinks(config, folder, console)) as sinks, no_loading_bars():
            result = await run_recipe(config, folder, sinks, accept_rewards)
    except (StropError, OSError):
        if not (folder.path / "evaluations").exists():  # nothing was made yet that a resumed run could use
            shutil.rmtree(folder.path, ignore_errors=True)
        raise
    (folder.path / "summary.json").write_text(json.dumps(summary(result), indent=1))
    if result.reports:
        console.print(comparison_table(list(result.reports.values())))
    if result.pairs:
        console.print(pair_table(list(result.pairs.values())))
    costs = ", ".join(f"{name} {seconds / 60:.1f} min" for name, seconds in result.seconds.items())
    console.print(f"cost: {costs}")
    console.print(f"model: {result.model}  (AutoModelForCausalLM.from_pretrained loads this folder)")
    return result


def _sinks(config: RunConfig, folder: RunFolder, console: Console) -> list[StepSink]:
    bar = [] if console.quiet else [ProgressBar(console)]
    return [*bar, TensorBoard(folder.path / "tensorboard")] if config.tensorboard else bar


async def evaluate_model(config: RunConfig, output: Path | None = None, *, quiet: bool = False) -> EvalReport:
    """`strop eval`: the recipe's model on the held-out tasks of all its domains."""
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)  # a path that cannot be is known before the work
    console = Console(quiet=quiet)
    with Sinks([] if quiet else [ProgressBar(console)]) as sinks, no_loading_bars():
        async with build.open_sandbox_for(config) as (usable, sandbox_of):
            report = await _evaluate_model(usable, sinks, sandbox_of)
    check_scored(report)
    console.print(comparison_table([report]))
    if output is not None:
        output.write_text(report.to_json())
    return report


async def _evaluate_model(config: RunConfig, sinks: Sinks, sandbox_of: build.SandboxOf | None) -> EvalReport:
    start = build.model_folder(config)
    renderer = build.build_renderer(config, start)
    async with build.build_engine(config, start, renderer) as engine:
        shop = Workshop(
            config=config,
            folder=None,
            engine=engine,
            renderer=renderer,
            sinks=sinks,
            trained=build.build_domains(config, sandbox_of=sandbox_of),
            transfer=build.build_domains(config, transfer=True, sandbox_of=sandbox_of),
        )
        return await shop.evaluate(start.name)


def summary(result: RunResult) -> dict[str, Any]:
    """The result as JSON, written beside the run."""
    return {
        "model": str(result.model),
        "seconds": dict(result.seconds),
        "reports": {name: json.loads(report.to_json()) for name, report in result.reports.items()},
        "pairs": {name: json.loads(report.to_json()) for name, report in result.pairs.items()},
    }
