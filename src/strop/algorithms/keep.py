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
    would make every group look informative.
    """

    signals: Mapping[str, str]
    min_group: int = 2

    def __call__(self, group: RolloutGroup) -> str | None:
        few = KeepAll(self.min_group)(group)
        if few is not None:
            return few
        name = self.signals[group.task.domain]
        scores = [rollout.reward.scores[name].value for rollout in group.trainable if rollout.reward is not None]
        marks = {value for value in scores if value is not None}
        return None if len(marks) > 1 else f"no signal: every {name} is {next(iter(marks), 'missing')}"
