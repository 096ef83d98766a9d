"""Which groups are worth training on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strop.core.types import RolloutGroup


@dataclass(frozen=True)
class KeepAll:
    """Keeps a group that has the members its baseline needs."""

    min_group: int = 2

    def __call__(self, group: RolloutGroup) -> str | None:
        found = len(group.trainable)
        return None if found >= self.min_group else f"{found} members with a reward, {self.min_group} needed"


@dataclass(frozen=True)
class KeepSignal:
    """Also drops a group whose members all got the same mark, DAPO's dynamic sampling (2503.14476).

    The mark is the raw right-or-wrong score that `signals` names for the domain, never the shaped total: length terms
    would make every group look informative. A group also stays where one of the rewards of `also` tells members apart.
    """

    signals: Mapping[str, str]
    min_group: int = 2
    also: tuple[str, ...] = ()

    def __call__(self, group: RolloutGroup) -> str | None:
        few = KeepAll(self.min_group)(group)
        if few is not None:
            return few
        name = self.signals[group.task.domain]
        marks = _marks(name, group)
        if len(marks) > 1 or any(len(_marks(other, group)) > 1 for other in self.also):
            return None
        return f"no signal: every {name} is {next(iter(marks), 'missing')}"


def _marks(name: str, group: RolloutGroup) -> set[float]:
    rewards = [rollout.reward for rollout in group.trainable if rollout.reward is not None]
    values = [reward.scores[name].value for reward in rewards if name in reward.scores]
    return {value for value in values if value is not None}
