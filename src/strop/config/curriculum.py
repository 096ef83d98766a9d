"""The sections that say which domains are sampled how often, at which level, and what happens when one is forgotten."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from strop.config.component import Component
from strop.config.section import Section


class GroupConfig(Section):
    """A named set of domains and groups: those whose `parent` it is. Floor and ceiling are shares of the whole.

    `weight` is against its siblings; without it, the sum of its members' weights.
    """

    name: str = Field(min_length=1)
    parent: str | None = None
    weight: float | None = Field(None, gt=0)
    floor: float = Field(0.0, ge=0, le=1)
    ceiling: float = Field(1.0, gt=0, le=1)


class LevelsConfig(Section):
    """How domains with `levels = true` climb: after `min_rollouts` at a level, up from a pass rate of `up`, down below
    `down`. `practice` is the share of a domain's tickets at easier levels; `start` is a level, else the easiest.
    """

    up: float = Field(0.8, gt=0, le=1)
    down: float = Field(0.2, ge=0, lt=1)
    min_rollouts: int = Field(64, gt=0)
    practice: float = Field(0.15, ge=0, lt=1)
    start: int | None = None


class ForgettingConfig(Section):
    """The guard: before an RL stage and every `every_steps` steps of it (0: never) `num_samples` answers to `num_tasks`
    held-out tasks of each domain are compared with its best so far; see docs/forgetting.md.
    """

    every_steps: int = Field(0, ge=0)
    num_tasks: int = Field(200, gt=0)
    num_samples: int = Field(2, gt=0)
    actions: tuple[Literal["raise_share", "replay", "roll_back", "stop"], ...] = Field(("raise_share",), min_length=1)
    alpha: float = Field(0.05, gt=0, lt=1)
    min_drop: float = Field(0.02, ge=0, le=1)
    share_factor: float = Field(2.0, ge=1)
    max_factor: float = Field(8.0, ge=1)
    num_steps: int = Field(50, gt=0)


class RetirementConfig(Section):
    """A task that every attempt of `clean_groups` groups in a row solved rests for `rest_steps` steps; `kept_share` of
    the tasks never do. Without this section no task rests.
    """

    clean_groups: int = Field(3, gt=0)
    rest_steps: int = Field(200, gt=0)
    kept_share: float = Field(0.05, ge=0, le=1)


class ReplayConfig(Section):
    """Groups of the policy's own with an answer of at least `min_reward` are kept and trained on again, up to `share`
    of the fresh ones of a step; each at most `max_replays` times, and none more than `max_staleness` versions old.
    """

    share: float = Field(0.1, gt=0, le=0.25)
    min_reward: float = 1.0
    max_per_domain: int = Field(32, gt=0)
    max_replays: int = Field(2, gt=0)
    max_staleness: int = Field(50, gt=0)


class CurriculumConfig(Section):
    """`strategy` turns what is known of each domain into weights: static, uniform, learnability, ucb, mt_grpo, strop,
    or a function of your own; see docs/curriculum.md. Weights change every `every` tickets, by default once a step.
    """

    strategy: Component = Component(use="static")
    every: int | None = Field(None, gt=0)
    groups: tuple[GroupConfig, ...] = ()
    levels: LevelsConfig = LevelsConfig()
    forgetting: ForgettingConfig = ForgettingConfig()
    retirement: RetirementConfig | None = None
    replay: ReplayConfig | None = None

    @model_validator(mode="after")
    def _something_to_replay(self) -> CurriculumConfig:
        if "replay" in self.forgetting.actions and self.replay is None:
            raise ValueError(
                "forgetting.actions: 'replay' needs groups that are kept: add a [curriculum.replay] section"
            )
        return self

    @field_validator("groups")
    @classmethod
    def _distinct(cls, groups: tuple[GroupConfig, ...]) -> tuple[GroupConfig, ...]:
        names = [group.name for group in groups]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two groups are named {twice!r}: give each its own name")
        return groups
