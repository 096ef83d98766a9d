"""From a configuration to the parts: the one place that constructs things and knows which class is which."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from strop.algorithms.constraint import check_constraints
from strop.algorithms.loss import Teach
from strop.algorithms.presets import make_algorithm
from strop.build.curriculum import build_guard as build_guard
from strop.build.curriculum import build_mixture
from strop.config.component import Component
from strop.config.resolve import ENVIRONMENTS, REWARDS, TASKS, check_takes, locate, make, make_callable, parameters_of
from strop.config.schema import (
    REWARD_TIMEOUT_S,
    SLOW_REWARD_TIMEOUT_S,
    AlgorithmConfig,
    DomainConfig,
    LearnerConfig,
    RewardConfig,
    RunConfig,
    StageConfig,
)
from strop.config.versions import version_of
from strop.core.errors import ConfigError, DataError
from strop.core.protocols import Algorithm, Domain, NamedReward, TaskSource
from strop.core.types import Message, Rollout, SamplingParams, Task, TrainingSample
from strop.engines.loading import load_engine
from strop.engines.renderer import ChatRenderer
from strop.engines.torch_engine import TorchEngine
from strop.learner.learner import TorchLearner, load_learner
from strop.rewards.reward_model import RewardModels
from strop.rollout.group import Roller
from strop.sandbox.grading import SandboxGrader
from strop.sandbox.opening import SandboxOf, open_sandbox
from strop.scheduler.buffer import Buffer
from strop.scoring.math_workers import math_workers
from strop.scoring.score import Scorer
from strop.storage.models import get_model
from strop.tasks.teaching import conversation
from strop.train import Run

log = logging.getLogger(__name__)
MODELS = Path(os.environ.get("STROP_MODELS", "models"))


def build_domains(
    config: RunConfig,
    stage: StageConfig | None = None,
    *,
    transfer: bool = False,
    sandbox_of: SandboxOf | None = None,
    reward_models: RewardModels | None = None,
) -> list[Domain]:
    """The domains of a stage (all of the run's without one); with `transfer`, those that are only evaluated.

    Environments and rewards that have a parameter `sandbox`, `grader` or `reward_models` are handed theirs.
    """
    chosen = [d for d in config.domains if d.transfer == transfer]
    if stage is not None and stage.domains is not None:
        unknown = sorted(set(stage.domains) - {d.name for d in chosen})
        if unknown:
            raise ConfigError(f"stage {stage.title!r}: no domain is named {unknown[0]!r}")
        chosen = [d for d in chosen if d.name in stage.domains]
    if stage is not None and not chosen:
        raise ConfigError(
            f"stage {stage.title!r}: has no domain to train on; name some, or let one be no transfer domain"
        )
    models = {} if reward_models is None else {"reward_models": reward_models}
    return [_build_domain(config, domain, stage, models | _handed(sandbox_of, domain.name)) for domain in chosen]


def _handed(sandbox_of: SandboxOf | None, domain: str) -> dict[str, Any]:
    handed: dict[str, Any] = {"math_workers": math_workers().call}
    if sandbox_of is None:
        return handed
    sandbox = sandbox_of(domain)
    return handed | {"sandbox": sandbox, "grader": SandboxGrader(sandbox)}


def needs_sandbox(config: RunConfig, domain: DomainConfig) -> bool:
    """Whether a part of the domain has a parameter for a sandbox or a grader."""
    where = f"domain {domain.name!r}"
    parts = [locate(domain.environment.use, ENVIRONMENTS, where)]
    parts += [locate(reward.use, REWARDS, where) for reward in domain.rewards or config.rewards]
    return any(takes_sandbox(part) for part in parts)


def takes_any(part: Any, *names: str) -> bool:
    return callable(part) and not set(names).isdisjoint(parameters_of(part))


def takes_sandbox(part: Any) -> bool:
    return takes_any(part, "sandbox", "grader")


def takes_endpoint(part: Any) -> bool:
    """Whether the part asks a server, with time-outs and retries of its own."""
    return takes_any(part, "endpoint")


@contextlib.asynccontextmanager
async def open_sandbox_for(config: RunConfig) -> AsyncIterator[tuple[RunConfig, SandboxOf | None]]:
    """The sandbox of a run, where a domain needs one, and the run without the optional domains that cannot have it."""
    wanting = [domain for domain in config.domains if needs_sandbox(config, domain)]
    async with contextlib.AsyncExitStack() as stack:
        sandbox_of = None
        if wanting:
            try:
                sandbox_of = await stack.enter_async_context(open_sandbox(config.sandbox))
            except ConfigError as error:
                if not all(domain.optional for domain in wanting):
                    raise
                names = [domain.name for domain in wanting]
                log.warning("left out the domains %s: %s", ", ".join(names), error)
                config = config.without_domains(names)
        yield config, sandbox_of


def _build_domain(
    config: RunConfig, domain: DomainConfig, stage: StageConfig | None, handed: Mapping[str, Any]
) -> Domain:
    where = f"domain {domain.name!r}"
    sampling = domain.sampling or (stage.sampling if stage is not None else None) or config.sampling
    rewards = tuple(_build_reward(reward, where, handed) for reward in domain.rewards or config.rewards)
    _check_rewards(rewards, domain, where)
    environment = locate(domain.environment.use, ENVIRONMENTS, where)
    accepted = parameters_of(environment)
    environment_params = {k: v for k, v in handed.items() if k in accepted} | domain.environment.params
    make(domain.environment, ENVIRONMENTS, where, **handed)  # a wrong parameter shows now, not in mid run
    return Domain(
        name=domain.name,
        tasks=_source(domain.tasks, where, domain.name, "train"),
        held_out=_source(domain.held_out or domain.tasks, where, domain.name, "held_out"),
        environment=lambda: environment(**environment_params),
        rewards=rewards,
        sampling=SamplingParams(**sampling.model_dump()),
        weight=domain.weight,
        parent=domain.parent,
        max_turns=domain.max_turns,
        max_rollout_tokens=domain.max_rollout_tokens,
        signal=domain.signal,
    )


def _source(component: Component, where: str, name: str, split: str) -> TaskSource:
    source = make(component, TASKS, where, domain=name, split=split)
    if len(source) == 0:
        raise ConfigError(f"{where}: its {split} source has no task; check the path, filter or size")
    first = source[0]
    if not isinstance(first, Task):
        raise ConfigError(f"{where}: its source must hold strop Tasks, got {type(first).__name__}")
    if first.domain != name:
        raise ConfigError(f"{where}: its tasks carry the domain {first.domain!r}; they must carry {name!r}")
    return source


def _build_reward(reward: RewardConfig, where: str, handed: Mapping[str, Any]) -> NamedReward:
    target = locate(reward.use, REWARDS, where)
    own_limits = takes_any(target, "reward_models", "math_workers")
    has_own_limits = takes_sandbox(target) or takes_endpoint(target) or bool(own_limits)
    fn = make_callable(reward, REWARDS, f"{where}, reward {reward.name!r}", **handed)
    members = "rollouts" if reward.per == "group" else "rollout"
    check_takes(fn, (members, "task"), f"{where}, reward {reward.name!r}")
    return NamedReward(
        name=reward.name,
        fn=fn,
        weight=reward.weight,
        per=reward.per,
        gate=reward.gate,
        timeout_s=reward.timeout_s or (SLOW_REWARD_TIMEOUT_S if has_own_limits else REWARD_TIMEOUT_S),
        version=version_of(reward, target),
    )


def _check_rewards(rewards: Sequence[NamedReward], domain: DomainConfig, where: str) -> None:
    names = [reward.name for reward in rewards]
    if not names:
        raise ConfigError(f"{where}: has no reward; add one under rewards, here or for the whole run")
    if len(set(names)) < len(names):
        raise ConfigError(f"{where}: two rewards share a name: {sorted(names)}")
    if domain.signal not in names:
        raise ConfigError(f"{where}: signal = {domain.signal!r} names no reward; there are {', '.join(names)}")
    for reward in rewards:
        if reward.gate is not None and reward.gate not in names:
            raise ConfigError(f"{where}: reward {reward.name!r} is gated by {reward.gate!r}, which is no reward of it")
    if not any(reward.weight for reward in rewards):
        raise ConfigError(f"{where}: every reward has weight 0, so nothing can be learned")


def check_disjoint(domain: Domain, limit: int = 2000) -> None:
    """ConfigError when a held-out task is also a training task, by id, which is a hash of the content."""
    train = {domain.tasks[i].id for i in range(min(len(domain.tasks), limit))}
    both = [i for i in range(min(len(domain.held_out), limit)) if domain.held_out[i].id in train]
    if both:
        task = domain.held_out[both[0]].id
        raise ConfigError(
            f"domain {domain.name!r}: task {task} is both trained on and held out; give held_out other tasks"
        )


def check_prompts(
    domain: Domain, renderer: ChatRenderer, max_context: int, limit: int = 2000, longest: int = 8
) -> None:
    """DataError when a prompt with its tools leaves no room in the context; the longest texts are measured."""
    for source in (domain.tasks, domain.held_out):
        tasks = [source[i] for i in range(min(len(source), limit))]
        for task in sorted(tasks, key=_num_characters, reverse=True)[:longest]:
            count = len(renderer.start(task.prompt, task.tools))
            if count >= max_context:
                raise DataError(
                    f"domain {domain.name}, task {task.id}: the prompt has {count} tokens and the context "
                    f"{max_context}: shorten the prompt, or raise model.max_context if the model allows it"
                )


def _num_characters(task: Task) -> int:
    tools = (f"{tool.name}{tool.description}{tool.parameters}" for tool in task.tools)
    return sum(map(len, tools)) + sum(len(message.content) for message in task.prompt)


def model_folder(config: RunConfig) -> Path:
    """Where the model to start from lies, fetched if need be."""
    return get_model(config.model.path, MODELS)


def build_renderer(config: RunConfig, folder: Path) -> ChatRenderer:
    return ChatRenderer.load(folder, config.model.chat_template)


def build_engine(config: RunConfig, folder: Path, renderer: ChatRenderer) -> TorchEngine:
    _check_device(config.engine.device, "engine.device")
    return load_engine(folder, config.engine, renderer, max_context=config.model.max_context)


def _check_device(device: str, where: str) -> None:
    """ConfigError when nothing can be computed on `device`."""
    try:
        if device != "auto":
            torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        raise ConfigError(f"{where} = {device!r} cannot be used here ({error}); use auto, cpu or cuda") from error


def build_algorithm(stage: StageConfig, domains: Sequence[Domain]) -> Algorithm:
    """The stage's algorithm; `advantage` and `loss` may be code of the user's."""
    config: AlgorithmConfig = stage.algorithm
    for domain in domains:
        if stage.group_size > 1 and (domain.sampling.temperature == 0 or domain.sampling.top_k == 1):
            raise ConfigError(
                f"stage {stage.title!r}, domain {domain.name!r}: temperature 0 or top_k 1 repeats one answer, so no "
                "group can teach anything; raise it"
            )
    check_constraints(config.constraint, {r.name for d in domains for r in d.rewards}, f"stage {stage.title!r}")
    return make_algorithm(
        config,
        max_tokens=max(d.max_rollout_tokens or d.sampling.max_tokens * d.max_turns for d in domains),
        group_size=stage.group_size,
        signals={d.name: d.signal for d in domains},
        max_staleness=stage.max_staleness,
    )


def build_teacher(config: RunConfig, stage: StageConfig, folder: Path, start_version: int) -> TorchLearner:
    """The learner of an SFT stage."""
    settings = learner_config(config, stage)
    return load_learner(folder, settings, loss=Teach(), total_updates=stage.steps, start_version=start_version)


def learner_config(config: RunConfig, stage: StageConfig) -> LearnerConfig:
    settings = stage.learner or config.learner
    _check_device(settings.device, "learner.device")
    return settings


def check_teachable(samples: Sequence[TrainingSample], engine: TorchEngine) -> None:
    """DataError when a conversation to teach is longer than the model's context."""
    for number, sample in enumerate(samples, start=1):
        if len(sample) > engine.max_context:
            raise DataError(
                f"conversation {number} to teach has {len(sample)} tokens and the context {engine.max_context}: "
                "shorten it, leave it out, or raise model.max_context if the model allows it"
            )


def build_learner(
    config: RunConfig, stage: StageConfig, folder: Path, algorithm: Algorithm, start_version: int
) -> TorchLearner:
    """The learner of an RL stage."""
    return load_learner(
        folder,
        learner_config(config, stage),
        loss=algorithm.loss,
        total_updates=stage.steps,
        needs=algorithm.needs,
        start_version=start_version,
    )


def teaching_conversations(
    config: RunConfig, stage: StageConfig, sandbox_of: SandboxOf | None = None
) -> list[tuple[Message, ...]]:
    """What an SFT stage teaches: its `data`, or the worked responses of its domains' training tasks."""
    if stage.data is not None:
        source = make(stage.data, TASKS, f"stage {stage.title!r}", domain=stage.title, split="train")
        sources = [source]
    else:
        sources = [domain.tasks for domain in build_domains(config, stage, sandbox_of=sandbox_of)]
    wanted = stage.steps * stage.batch_size
    found = []
    for source in sources:
        share = min(len(source), -(-wanted // len(sources)))
        found.extend(conversation(source[i]) for i in range(share))
    if not found:
        raise ConfigError(f"stage {stage.title!r}: there is nothing to teach")
    return found


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where an RL stage stands: what its checkpoint held, or its beginning."""

    step: int = 0
    next_ticket: int = 0
    attempt: int = 0
    curriculum: Mapping[str, Any] | None = None
    scale: Mapping[str, float] | None = None


def build_run(
    config: RunConfig,
    stage: StageConfig,
    *,
    domains: Sequence[Domain],
    algorithm: Algorithm,
    learner: TorchLearner,
    engine: TorchEngine,
    renderer: ChatRenderer,
    progress: Progress,
    record: Callable[..., None],
    due: Callable[..., Awaitable[None]],
) -> Run:
    """An RL stage, ready for `train`."""
    curriculum = build_mixture(config, stage, domains)
    return Run(
        domains={domain.name: domain for domain in domains},
        algorithm=algorithm,
        learner=learner,
        receiver=engine,
        roller=Roller(sampler=engine, renderer=renderer, seed=config.seed),
        scorer=Scorer(),
        curriculum=curriculum,
        curriculum_state=progress.curriculum if progress.curriculum is not None else curriculum.start(),
        scale=progress.scale or {},
        buffer=Buffer(
            groups_per_step=stage.groups_per_step,
            num_steps=stage.steps,
            max_staleness=stage.max_staleness,
            max_replacements=stage.max_replacements,
            first_step=progress.step + 1,
            first_ticket=progress.next_ticket,
        ),
        record=record,
        due=due,
        group_size=stage.group_size,
        num_steps=stage.steps,
        max_staleness=stage.max_staleness,
        first_step=progress.step + 1,
        attempt=progress.attempt,
        deadline_s=stage.deadline_s,
        max_infra_share=stage.max_infra_share,
    )


def build_attempt(
    config: RunConfig, engine: TorchEngine, renderer: ChatRenderer, eval_seed: int
) -> Callable[[Domain, Task, int, SamplingParams], Awaitable[Rollout]]:
    """One rolled-out and scored attempt, as evaluation asks for it."""
    roller = Roller(sampler=engine, renderer=renderer, seed=config.seed)
    scorer = Scorer()

    async def attempt(domain: Domain, task: Task, index: int, params: SamplingParams) -> Rollout:
        path = (eval_seed, "eval", domain.name, task.id, index)
        return await scorer.rollout(await roller.rollout(domain, task, params, path, index), task, domain)

    return attempt
