"""One frozen schema per section of a recipe. Every default of Strop stands here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Dtype = Literal["float32", "bfloat16", "float64"]


class Section(BaseModel):
    """Unknown keys are errors; values never change after loading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Component(Section):
    """Code to use: a built-in name or `module:attribute`, with the keyword arguments it is made with."""

    use: str | Callable[..., Any]
    params: dict[str, Any] = {}


class ModelConfig(Section):
    """`path` is a folder, a hub id, or a model that `strop model get` knows."""

    path: str
    chat_template: str | None = None
    max_context: int | None = Field(None, gt=0)


class EngineConfig(Section):
    dtype: Dtype = "float32"
    device: str = "auto"
    max_rows: int = Field(64, gt=0)
    cache_tokens: int = Field(16384, gt=0)
    deterministic: bool = False
    threads: int | None = Field(None, gt=0)


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


class RewardConfig(Component):
    name: str
    weight: float = 1.0
    per: Literal["rollout", "group"] = "rollout"
    gate: str | None = None
    timeout_s: float = Field(30.0, gt=0)


class DomainConfig(Section):
    """`tasks` and `held_out` are task sources; `transfer` domains are evaluated and never trained on."""

    name: str
    tasks: Component
    held_out: Component | None = None
    environment: Component = Component(use="single_turn")
    rewards: tuple[RewardConfig, ...] = ()
    sampling: SamplingConfig | None = None
    weight: float = Field(1.0, ge=0)
    parent: str | None = None
    max_turns: int = Field(1, gt=0)
    max_rollout_tokens: int | None = Field(None, gt=0)
    signal: str = "accuracy"
    transfer: bool = False


class AlgorithmConfig(Section):
    """A preset name, with any of its choices replaced. None keeps the preset's choice."""

    preset: str = "strop"
    advantage: str | Callable[..., Any] | None = None
    loss: str | Callable[..., Any] | None = None
    aggregation: Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "constant"] | None = None
    clip_low: float | None = Field(None, gt=0)
    clip_high: float | None = Field(None, gt=0)
    kl_coef: float = Field(0.0, ge=0)
    kl_estimator: Literal["k1", "k2", "k3"] = "k2"
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


class EvaluationConfig(Section):
    """The base model and every stage's result are evaluated; `every_steps` adds evaluations within RL stages."""

    every_steps: int = Field(0, ge=0)
    num_tasks: int = Field(64, gt=0)
    num_samples: int = Field(1, gt=0)
    ks: tuple[int, ...] = (1,)
    temperature: float = Field(0.0, ge=0)
    seed: int = 0
    concurrency: int = Field(64, gt=0)


class SaveConfig(Section):
    every_steps: int = Field(0, ge=0)
    keep: int = Field(2, gt=0)


class StageConfig(Section):
    """One stage of a run. Sections given here replace those of the run for this stage."""

    stage: Literal["sft", "rl"]
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
    save: SaveConfig = SaveConfig()

    @property
    def title(self) -> str:
        return self.name or self.stage


class RunConfig(Section):
    """A whole recipe."""

    name: str
    seed: int = 0
    output: str = "runs"
    model: ModelConfig
    engine: EngineConfig = EngineConfig()
    learner: LearnerConfig = LearnerConfig()
    sampling: SamplingConfig = SamplingConfig()
    rewards: tuple[RewardConfig, ...] = ()
    domains: tuple[DomainConfig, ...] = Field(min_length=1)
    evaluation: EvaluationConfig = EvaluationConfig()
    stages: tuple[StageConfig, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct_names(self) -> RunConfig:
        for kind, names in (
            ("domain", [d.name for d in self.domains]),
            ("stage", [s.title for s in self.stages]),
        ):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise ValueError(f"two {kind}s are named {twice[0]!r}: give each its own name")
        return self
