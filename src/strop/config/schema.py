"""One frozen schema per section of a recipe. Every default of Strop stands here or in `pairs`, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from strop.config.component import Component
from strop.config.constraint import ConstraintConfig
from strop.config.curriculum import CurriculumConfig
from strop.config.pairs import PreferenceConfig, RewardModelConfig
from strop.config.section import Section, file_name, possible_temperature
from strop.core.errors import ConfigError

Dtype = Literal["auto", "float32", "bfloat16", "float64"]
TAKEN_STAGE_NAMES = re.compile(r"base|.*-step-\d+")  # evaluations of a run carry these names


class ModelConfig(Section):
    """`path` is a folder, a hub id, or a model that `strop model get` knows."""

    path: str
    chat_template: str | None = None
    max_context: int | None = Field(None, gt=1)


class EngineConfig(Section):
    """`dtype = "auto"` is bfloat16 where the device has instructions for it, else float32."""

    dtype: Dtype = "float32"
    device: str = "auto"
    max_rows: int = Field(64, gt=0)
    cache_tokens: int = Field(16384, gt=0)
    deterministic: bool = False
    threads: int | None = Field(None, gt=0, le=1024)


class LoraConfig(Section):
    rank: int = Field(16, gt=0)
    alpha: float = Field(32.0, gt=0)
    dropout: float = Field(0.0, ge=0, lt=1)
    target_modules: tuple[str, ...] | Literal["all-linear"] = "all-linear"


class LearnerConfig(Section):
    """`dtype` is what matrix products run in; master weights and logprobs are float32 (float64 under float64)."""

    dtype: Dtype = "float32"
    device: str = "auto"
    learning_rate: float = Field(1e-6, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = Field(0, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.95, ge=0, lt=1)
    eps: float = Field(1e-12, gt=0)
    max_grad_norm: float = Field(1.0, gt=0)
    micro_batch_tokens: int = Field(4096, gt=0)
    logits_chunk_tokens: int = Field(1024, gt=0)
    activation_checkpointing: bool = False
    packing: Literal["auto", "trie", "separate"] = "auto"
    lora: LoraConfig | None = None


class SamplingConfig(Section):
    max_tokens: int = Field(512, gt=0)
    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0)
    stop: tuple[str, ...] = ()

    _possible_temperature = field_validator("temperature")(possible_temperature)

    @field_validator("stop")
    @classmethod
    def _stop_is_text(cls, stop: tuple[str, ...]) -> tuple[str, ...]:
        if "" in stop:
            raise ValueError("holds an empty text, which would end every answer at once; remove it")
        return stop


REWARD_TIMEOUT_S = 30.0
SLOW_REWARD_TIMEOUT_S = 1800.0  # a net under the limits of a sandbox, where a slow program scores 0, or of a judge


class RewardConfig(Component):
    """`timeout_s` is 30, or 1800 where the reward runs programs in the sandbox or asks a judge: they have their own."""

    name: str = Field(min_length=1)
    weight: float = 1.0
    per: Literal["rollout", "group"] = "rollout"
    gate: str | None = None
    timeout_s: float | None = Field(None, gt=0)


def possible_gates(rewards: tuple[RewardConfig, ...]) -> tuple[RewardConfig, ...]:
    """`rewards`, of which none waits for itself, not even through others; ValueError when one does."""
    gates = {reward.name: reward.gate for reward in rewards}
    for start in gates:
        passed, gate = [start], gates[start]
        while gate in gates and gate not in passed:
            passed.append(gate)
            gate = gates[gate]
        if gate == start:
            raise ValueError(f"{' is gated by '.join(repr(name) for name in [*passed, start])}: remove one gate")
    return rewards


class DomainConfig(Section):
    """`tasks` and `held_out` are task sources; `transfer` domains are evaluated and never trained on.

    `parent` names a group of the curriculum, `floor` and `ceiling` are the least and the most it may have of the whole,
    and with `levels` it climbs those that its source has. An `optional` domain is left out, with a line that says so,
    where what it needs (a sandbox) cannot be had.
    """

    name: str = Field(min_length=1)
    tasks: Component
    held_out: Component | None = None
    environment: Component = Component(use="single_turn")
    rewards: tuple[RewardConfig, ...] = ()
    sampling: SamplingConfig | None = None
    weight: float = Field(1.0, ge=0)
    parent: str | None = None
    floor: float = Field(0.0, ge=0, le=1)
    ceiling: float = Field(1.0, gt=0, le=1)
    levels: bool = False
    max_turns: int = Field(1, gt=0)
    max_rollout_tokens: int | None = Field(None, gt=0)
    signal: str = "accuracy"
    transfer: bool = False
    optional: bool = False

    _possible_gates = field_validator("rewards")(possible_gates)


class AlgorithmConfig(Section):
    """A preset name, with any of its choices replaced. None keeps the preset's choice.

    `constraint` is one table or a list of them.
    """

    preset: str = "strop"
    advantage: str | Callable[..., Any] | None = None
    loss: str | Callable[..., Any] | None = None
    aggregation: Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "constant"] | None = None
    clip_low: float | None = Field(None, gt=0)
    clip_high: float | None = Field(None, gt=0)
    kl_coef: float = Field(0.0, ge=0)
    kl_estimator: Literal["k1", "k2", "k3"] = "k2"
    entropy_coef: float = Field(0.0, ge=0)
    importance: Literal["none", "token_tis", "decoupled"] | None = None
    tis_cap: float = Field(2.0, gt=0)
    geometric_mask: bool | None = None
    mask_truncated: bool = False
    domain_normaliser: bool | None = None
    gamma: float = Field(1.0, gt=0, le=1)
    gae_lambda: float = Field(1.0, ge=0, le=1)
    value_coef: float = Field(0.5, ge=0)
    value_clip: float = Field(0.2, gt=0)
    keep: Literal["signal", "all"] = "signal"
    constraint: tuple[ConstraintConfig, ...] = ()

    @field_validator("constraint", mode="before")
    @classmethod
    def _one_or_several(cls, given: Any) -> Any:
        return (given,) if isinstance(given, Mapping | ConstraintConfig) else given

    @field_validator("constraint")
    @classmethod
    def _distinct(cls, constraints: tuple[ConstraintConfig, ...]) -> tuple[ConstraintConfig, ...]:
        names = [constraint.reward for constraint in constraints]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two constraints are on the reward {twice!r}: keep one")
        return constraints


class LanguageConfig(Section):
    """A language beside the built-in ones; see docs/sandbox.md for what each field means."""

    name: str
    source: str
    run: tuple[str, ...] = Field(min_length=1)
    compile: tuple[str, ...] = ()
    artifact: str | None = None
    address_space: bool = True
    mounts: tuple[str, ...] = ()
    environment: dict[str, str] = Field({})


class SandboxConfig(Section):
    """Where programs run: on this machine in the strongest `tier` that works, or on `servers` of strop sandbox serve.

    `jobs` at once (one per core by default). `packages` are installed distributions that programs may import.
    """

    tier: Literal["auto", "full", "rootless", "landlock", "gvisor", "unsafe"] = "auto"
    jobs: int | None = Field(None, gt=0)
    packages: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    languages: tuple[LanguageConfig, ...] = ()
    allow_unsafe: bool = False
    servers: tuple[str, ...] = ()
    token: str | None = None


class EvaluationConfig(Section):
    """The base model and every stage's result are evaluated; `every_steps` adds evaluations within RL stages."""

    every_steps: int = Field(0, ge=0)
    num_tasks: int = Field(64, gt=0)
    num_samples: int = Field(1, gt=0)
    ks: tuple[int, ...] = Field((1,), min_length=1)
    temperature: float = Field(0.0, ge=0)
    seed: int = 0
    concurrency: int = Field(64, gt=0)

    _possible_temperature = field_validator("temperature")(possible_temperature)

    @field_validator("ks")
    @classmethod
    def _ks_count(cls, ks: tuple[int, ...]) -> tuple[int, ...]:
        if min(ks) < 1:
            raise ValueError(f"must be at least 1 each, got {min(ks)}")
        return ks


class AuditConfig(Section):
    """What domains are asked before they are trained on; see docs/audit.md.

    Junk may earn `bound` on average. `accept` names domains to train on though they fail. `strop train` spends
    `budget_s` on all domains together, `strop audit` up to `domain_s` on each; both look at up to `num_tasks` tasks.
    """

    bound: float = Field(0.2, ge=0, le=1)
    accept: tuple[str, ...] = ()
    num_tasks: int = Field(64, gt=0)
    budget_s: float = Field(5.0, gt=0)
    domain_s: float = Field(60.0, gt=0)


class SaveConfig(Section):
    every_steps: int = Field(0, ge=0)
    keep: int = Field(2, gt=0)


ONLY_IN: Mapping[str, tuple[str, ...]] = {  # stage kinds that heed a key; a key that is not here all heed
    "batch_size": ("sft", "reward_model", "preference"),
    "data": ("sft", "reward_model", "preference"),
    "domains": ("sft", "rl"),
    "reward_model": ("reward_model",),
    "preference": ("preference",),
    "algorithm": ("rl",),
    "sampling": ("rl",),
    "groups_per_step": ("rl",),
    "group_size": ("rl",),
    "max_staleness": ("rl",),
    "max_replacements": ("rl",),
    "deadline_s": ("rl",),
    "max_infra_share": ("rl",),
}


class StageConfig(Section):
    """One stage of a run. Sections given here replace those of the run for this stage.

    `data` and `batch_size` of reward_model and preference stages are of pairs; see docs/reward-models.md.
    """

    stage: Literal["sft", "rl", "reward_model", "preference"]
    name: str | None = None
    steps: int = Field(gt=0)
    learner: LearnerConfig | None = None
    algorithm: AlgorithmConfig = AlgorithmConfig()
    sampling: SamplingConfig | None = None
    groups_per_step: int = Field(8, gt=0)
    group_size: int = Field(8, gt=0)
    max_staleness: int = Field(0, ge=0)
    max_replacements: int = Field(0, ge=0)
    deadline_s: float | None = Field(None, gt=0)
    max_infra_share: float = Field(0.5, ge=0, le=1)
    batch_size: int = Field(32, gt=0)
    data: Component | None = None
    domains: tuple[str, ...] | None = None
    reward_model: RewardModelConfig = RewardModelConfig()
    preference: PreferenceConfig = PreferenceConfig()
    save: SaveConfig = SaveConfig()

    @property
    def title(self) -> str:
        return self.name if self.name is not None else self.stage

    @model_validator(mode="after")
    def _keys_of_its_kind(self) -> StageConfig:
        for key, kinds in ONLY_IN.items():
            if key in self.model_fields_set and self.stage not in kinds:
                raise ValueError(
                    f"{key!r} is a key of {' and '.join(kinds)} stages, which stage {self.title!r} is not: remove it"
                )
        if self.stage in ("reward_model", "preference") and self.data is None:
            raise ValueError(f'stage {self.title!r} needs pairs: give it data = {{ use = "pairs", ... }}')
        return self

    @field_validator("name")
    @classmethod
    def _usable_name(cls, name: str | None) -> str | None:
        if name is not None and TAKEN_STAGE_NAMES.fullmatch(file_name(name, "a stage's name")):
            raise ValueError(f"{name!r} is the name of one of the run's own evaluations; choose another")
        return name


class RunConfig(Section):
    """A whole recipe. `tensorboard` writes every step's metrics for TensorBoard into the run's folder too.

    Without `domains`, which only stages on pairs can do without, nothing is evaluated.
    """

    name: str
    seed: int = 0
    output: str = "runs"
    tensorboard: bool = False
    model: ModelConfig
    engine: EngineConfig = EngineConfig()
    learner: LearnerConfig = LearnerConfig()
    sampling: SamplingConfig = SamplingConfig()
    rewards: tuple[RewardConfig, ...] = ()
    domains: tuple[DomainConfig, ...] = ()
    sandbox: SandboxConfig = SandboxConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    audit: AuditConfig = AuditConfig()
    stages: tuple[StageConfig, ...] = Field(min_length=1)

    _possible_gates = field_validator("rewards")(possible_gates)

    @field_validator("name")
    @classmethod
    def _usable_name(cls, name: str) -> str:
        return file_name(name, "a run's name")

    @model_validator(mode="after")
    def _distinct_names(self) -> RunConfig:
        for kind, names in (
            ("domain", [d.name for d in self.domains]),
            ("stage", [s.title for s in self.stages]),
        ):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise ValueError(f"two {kind}s are named {twice[0]!r}: give each its own name")
        asking = [s.title for s in self.stages if s.stage in ("sft", "rl")]
        if asking and not self.domains:
            raise ValueError(f"stage {asking[0]!r} needs a domain to train on: add a [[domains]] section")
        unknown = sorted(set(self.audit.accept) - {d.name for d in self.domains})
        if unknown:
            raise ValueError(f"audit.accept: no domain is named {unknown[0]!r}")
        return self

    @model_validator(mode="after")
    def _one_adapter(self) -> RunConfig:
        """A stage under LoRA that follows another goes on with its adapter, which has the shape it has.

        Nothing follows a reward model: the stage after it starts from the policy before it.
        """
        policies = [stage for stage in self.stages if stage.stage != "reward_model"]
        followed = [*pairwise(policies)]
        for number, stage in enumerate(self.stages):
            if stage.stage == "reward_model":
                followed += [(s, stage) for s in self.stages[:number] if s.stage != "reward_model"][-1:]
        for before, after in followed:
            held, wanted = ((stage.learner or self.learner).lora for stage in (before, after))
            if held is None or wanted is None or held == wanted:
                continue
            key = next(k for k in LoraConfig.model_fields if getattr(held, k) != getattr(wanted, k))
            raise ValueError(
                f"stage {after.title!r} goes on with the adapter of {before.title!r}, but lora.{key} is "
                f"{getattr(wanted, key)!r} in one and {getattr(held, key)!r} in the other: give both the same, or one "
                "of them no lora"
            )
        return self

    def without_domains(self, names: Sequence[str]) -> RunConfig:
        """ConfigError when nothing is left to train on, in the run or in a stage."""
        domains = tuple(domain for domain in self.domains if domain.name not in names)
        stages = []
        for stage in self.stages:
            kept = stage.domains and tuple(name for name in stage.domains if name not in names)
            if not domains or (stage.domains and not kept):
                raise ConfigError(f"stage {stage.title!r} has no domain left without {', '.join(names)}")
            stages.append(stage.model_copy(update={"domains": kept}))
        return self.model_copy(update={"domains": domains, "stages": tuple(stages)})
