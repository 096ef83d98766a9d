"""Which task comes when: from the sections of a recipe to a Curriculum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strop.config.curriculum import RetirementConfig
from strop.config.resolve import STRATEGIES, make
from strop.config.schema import RunConfig, StageConfig
from strop.core.errors import ConfigError
from strop.core.protocols import Domain, LevelledSource
from strop.curriculum.difficulty import Ladder
from strop.curriculum.forgetting import ForgettingGuard
from strop.curriculum.mixture import Mixture
from strop.curriculum.retirement import Retirement
from strop.curriculum.shares import Bounds, DomainGroup


def build_mixture(config: RunConfig, stage: StageConfig, domains: Sequence[Domain]) -> Mixture:
    """ConfigError where floors, ceilings, groups or levels cannot be had."""
    sections = {section.name: section for section in config.domains}
    curriculum = config.curriculum
    strategy = make(curriculum.strategy, STRATEGIES, "curriculum.strategy")
    if getattr(strategy, "floor", 1.0) == 0:
        raise ConfigError("curriculum.strategy: its floor must be above 0, so that no domain is given up for good")
    return Mixture(
        domains=tuple(domains),
        seed=config.seed,
        lag=(stage.max_staleness + 1) * (stage.groups_per_step + stage.max_replacements),
        every=curriculum.every or stage.groups_per_step,
        strategy=strategy,
        groups=tuple(DomainGroup(**group.model_dump()) for group in curriculum.groups),
        bounds={d.name: Bounds(floor=sections[d.name].floor, ceiling=sections[d.name].ceiling) for d in domains},
        levelled=_levelled(domains, [name for name, section in sections.items() if section.levels]),
        ladder=Ladder(**curriculum.levels.model_dump()),
        retirement=_retirement(curriculum.retirement, stage.groups_per_step),
    )


def _retirement(config: RetirementConfig | None, groups_per_step: int) -> Retirement | None:
    if config is None:
        return None
    return Retirement(
        clean_groups=config.clean_groups,
        rest_tickets=config.rest_steps * groups_per_step,
        kept_share=config.kept_share,
    )


def _levelled(domains: Sequence[Domain], names: Sequence[str]) -> Mapping[str, LevelledSource]:
    found: dict[str, LevelledSource] = {}
    for domain in domains:
        if domain.name not in names:
            continue
        if not getattr(domain.tasks, "levels", ()):
            raise ConfigError(
                f"domain {domain.name!r}: levels = true, but its tasks have no levels; remove it, or give its source "
                "`levels` and `at_level(level)`"
            )
        found[domain.name] = domain.tasks  # type: ignore[assignment]  # it has what the protocol asks for
    return found


def build_guard(config: RunConfig, stage: StageConfig) -> ForgettingGuard | None:
    """The guard of an RL stage; None where no probe is asked for. The model that the stage starts from is one."""
    forgetting = config.curriculum.forgetting
    if not forgetting.every_steps:
        return None
    settings = forgetting.model_dump(exclude={"every_steps", "num_tasks", "num_samples"})
    return ForgettingGuard(num_probes=1 + stage.steps // forgetting.every_steps, **settings)
