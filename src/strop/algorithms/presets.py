"""Named algorithms, and how a configuration changes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from strop.algorithms.advantage import DomainScaled, Gae, Gdpo, Grpo, ReinforcePlusPlus, Rloo
from strop.algorithms.constraint import Constrained, Constraint
from strop.algorithms.keep import KeepAll, KeepSignal
from strop.algorithms.kl import KlInReward
from strop.algorithms.loss import Cispo, EntropyBonus, Gspo, Importance, KlPenalty, PpoClip, Reinforce, ValueLoss
from strop.config.component import Component
from strop.config.resolve import check_takes, make_callable
from strop.config.schema import AlgorithmConfig
from strop.core.errors import ConfigError
from strop.core.protocols import AdvantageFn, Aggregation, Algorithm, LossFn

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Preset:
    advantage: str
    loss: str = "ppo_clip"
    aggregation: Aggregation = "token_mean"
    clip_high: float | None = None
    domain_normaliser: bool = False


PRESETS: Mapping[str, Preset] = {
    "strop": Preset(advantage="domain_scaled", clip_high=0.28, domain_normaliser=True),
    "grpo": Preset(advantage="grpo", aggregation="seq_mean_token_mean"),
    "dr_grpo": Preset(advantage="dr_grpo", aggregation="constant"),
    "dapo": Preset(advantage="grpo", clip_high=0.28),
    "rloo": Preset(advantage="rloo", loss="reinforce", aggregation="seq_mean_token_sum"),
    "reinforce_plus_plus": Preset(advantage="reinforce_plus_plus"),
    "gspo": Preset(advantage="grpo", loss="gspo", aggregation="seq_mean_token_mean"),
    "cispo": Preset(advantage="grpo", loss="cispo"),
    "gdpo": Preset(advantage="gdpo"),
    "ppo": Preset(advantage="gae"),
}

ADVANTAGES: Mapping[str, Callable[[AlgorithmConfig], AdvantageFn]] = {
    "domain_scaled": lambda config: DomainScaled(),
    "grpo": lambda config: Grpo(),
    "dr_grpo": lambda config: Grpo(scaling="none"),
    "rloo": lambda config: Rloo(),
    "reinforce_plus_plus": lambda config: ReinforcePlusPlus(),
    "gdpo": lambda config: Gdpo(),
    "gae": lambda config: Gae(gamma=config.gamma, lam=config.gae_lambda),
}

CLIPS: Mapping[str, tuple[float, float]] = {"ppo_clip": (0.2, 0.2), "gspo": (3e-4, 4e-4), "cispo": (1.0, 4.0)}

LOSSES: Mapping[str, Callable[[float, float], LossFn]] = {
    "ppo_clip": lambda low, high: PpoClip(clip_low=low, clip_high=high),
    "gspo": lambda low, high: Gspo(clip_low=low, clip_high=high),
    "cispo": lambda low, high: Cispo(clip_high=high),
    "reinforce": lambda low, high: Reinforce(),
}


def make_algorithm(
    config: AlgorithmConfig, *, max_tokens: int, group_size: int, signals: Mapping[str, str], max_staleness: int
) -> Algorithm:
    """The preset that `config` names with its changes. `advantage` and `loss` may be the user's code: a function, or
    the "module:attribute" of one.

    The learner's own logprobs are computed again (`old`) where the sampler's weights may be older, or where the
    configuration asks for importance weights; else the sampler's logprobs are the anchor. A KL penalty with estimator
    k1 goes into the reward, with k2 or k3 into the loss: as a loss, k1 pulls nowhere.
    """
    preset = _named(PRESETS, config.preset, "preset")
    advantage_name = config.advantage if config.advantage is not None else preset.advantage
    uses_values = advantage_name == "gae"
    own = not isinstance(advantage_name, str) or ":" in advantage_name
    min_group = 1 if uses_values or own else 2
    if group_size < min_group:
        raise ConfigError(
            f"group_size = {group_size}: the baseline of {config.preset!r} needs at least 2 rollouts a task; "
            'raise group_size, or use preset = "ppo", whose baseline is a value head'
        )
    importance = config.importance or ("token_tis" if max_staleness > 0 else "none")
    geometric = config.geometric_mask if config.geometric_mask is not None else max_staleness > 0
    needs = []
    if importance != "none" or geometric:
        needs.append("old")
    if config.kl_coef > 0:
        needs.append("reference")
    if uses_values:
        needs.append("value")
    constraints = tuple(Constraint(**constraint.model_dump()) for constraint in config.constraint)
    also = tuple(constraint.reward for constraint in constraints)
    signal = config.keep == "signal" and min_group > 1
    keep = KeepSignal(dict(signals), min_group, also) if signal else KeepAll(min_group)
    advantage = _advantage(config, advantage_name)
    return Algorithm(
        name=config.preset,
        advantage=Constrained(advantage, constraints) if constraints else advantage,
        loss=_loss(config, preset, importance, uses_values),
        keep=keep,
        aggregation=config.aggregation or preset.aggregation,
        needs=tuple(needs),
        min_group=min_group,
        max_tokens=max_tokens,
        geometric_mask=geometric,
        mask_truncated=config.mask_truncated,
        domain_normaliser=_or(config.domain_normaliser, preset.domain_normaliser),
        constraints=constraints,
        weighs_by_age=importance != "none" or ("old" not in needs and (config.loss or preset.loss) != "reinforce"),
    )


def _advantage(config: AlgorithmConfig, name: Any) -> AdvantageFn:
    advantage: AdvantageFn
    if not isinstance(name, str) or ":" in name:
        advantage = make_callable(Component(use=name), {}, "algorithm.advantage")
        check_takes(advantage, ("groups", "outputs", "scale"), "algorithm.advantage")
    else:
        advantage = _named(ADVANTAGES, name, "advantage")(config)
    return KlInReward(advantage, config.kl_coef) if config.kl_coef > 0 and config.kl_estimator == "k1" else advantage


def _loss(config: AlgorithmConfig, preset: Preset, importance: str, uses_values: bool) -> LossFn:
    chosen = config.loss if config.loss is not None else preset.loss
    loss: LossFn
    if not isinstance(chosen, str) or ":" in chosen:
        loss = make_callable(Component(use=chosen), {}, "algorithm.loss")
        check_takes(loss, ("inputs",), "algorithm.loss")
    else:
        make_loss = _named(LOSSES, chosen, "loss")
        low, high = CLIPS.get(chosen, (0.0, 0.0))
        if chosen == preset.loss:  # clips fit one loss: GSPO with those of PPO would have no trust region
            high = _or(preset.clip_high, high)
        loss = make_loss(_or(config.clip_low, low), _or(config.clip_high, high))
    if importance != "none":
        loss = Importance(loss, cap=config.tis_cap if importance == "token_tis" else math.inf)
    if config.kl_coef > 0 and config.kl_estimator != "k1":
        loss = KlPenalty(loss, config.kl_coef, config.kl_estimator)
    if config.entropy_coef > 0:
        loss = EntropyBonus(loss, config.entropy_coef)
    if uses_values:
        loss = ValueLoss(loss, config.value_coef, config.value_clip)
    return loss


def _or(choice: Value | None, default: Value) -> Value:
    return default if choice is None else choice


def _named(table: Mapping[str, Value], name: str, kind: str) -> Value:
    if name not in table:
        near = get_close_matches(name, table, 1, 0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(table)}"
        raise ConfigError(f"algorithm.{kind} = {name!r}: unknown; {hint}")
    return table[name]
