"""A reward as a constraint: its weight is a Lagrange multiplier that rises while the constraint is broken."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from strop.config.constraint import ConstraintConfig
from strop.core.errors import ConfigError
from strop.core.protocols import AdvantageFn, Credit, ScaleState
from strop.core.types import Reward, RolloutGroup, TokenOutputs


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """Maximise E[r] subject to E[g] >= c, where g is the named `reward` and c is `at_least`.

    One step of dual ascent on the Lagrangian E[r] + lambda (E[g] - c) for each step of training, with the mean of g
    over the step's rollouts it applies to: lambda <- min(max, max(0, lambda + step (c - mean g))). Stooke et al. 2020
    (2007.03964: the integral term of their controller); Dai et al. 2023 (2310.12773: Safe RLHF, which moves the log of
    lambda instead). Groups that are dropped count too: those whose members all obey are among them.
    """

    reward: str
    at_least: float
    step: float
    max: float

    @property
    def key(self) -> str:
        """The multiplier's place in the scale state, and its metric."""
        return f"constraint/{self.reward}/multiplier"

    def __call__(self, groups: Sequence[RolloutGroup], scale: ScaleState) -> tuple[ScaleState, Mapping[str, float]]:
        """The scale with the new multiplier, and what to log; both without change where the reward applied to none."""
        multiplier = scale.get(self.key, 0.0)
        rewards = [rollout.reward for group in groups for rollout in group.rollouts if rollout.reward is not None]
        scores = [reward.scores[self.reward] for reward in rewards if self.reward in reward.scores]
        values = [score.value for score in scores if score.value is not None]
        if not values:
            return scale, {self.key: multiplier}
        mean = fmean(values)
        multiplier = min(self.max, max(0.0, multiplier + self.step * (self.at_least - mean)))
        return {**scale, self.key: multiplier}, {self.key: multiplier, f"constraint/{self.reward}/value": mean}


@dataclass(frozen=True)
class Constrained:
    """`inner` on (r + sum_k lambda_k g_k) / (1 + sum_k lambda_k): the multipliers join the weights, and the division
    keeps the step's size while they grow, as both papers do."""

    inner: AdvantageFn
    constraints: tuple[Constraint, ...]

    def __call__(
        self, groups: Sequence[RolloutGroup], outputs: Mapping[str, Sequence[TokenOutputs]], scale: ScaleState
    ) -> Credit:
        added = {c.reward: scale.get(c.key, 0.0) for c in self.constraints}
        if not any(added.values()):
            return self.inner(groups, outputs, scale)
        weighed = [
            replace(group, rollouts=tuple(replace(r, reward=_weighed(r.reward, added)) for r in group.rollouts))
            for group in groups
        ]
        credit = self.inner(weighed, outputs, scale)
        return replace(credit, scale={**credit.scale, **{c.key: added[c.reward] for c in self.constraints}})


def _weighed(reward: Reward | None, added: Mapping[str, float]) -> Reward | None:
    if reward is None:
        return None
    total = 1.0 + sum(added.values())
    weights = {name: (weight + added.get(name, 0.0)) / total for name, weight in reward.weights.items()}
    return Reward(scores=reward.scores, weights=weights)


def check_constraints(constraints: Sequence[ConstraintConfig], names: Collection[str], where: str) -> None:
    """ConfigError when one is on a reward that no domain has."""
    for constraint in constraints:
        if constraint.reward not in names:
            raise ConfigError(
                f"{where}: algorithm.constraint.reward = {constraint.reward!r} names no reward of its domains; "
                f"there are {', '.join(sorted(names))}"
            )
