"""How much of a step may fail for reasons that are nobody's answer before the run stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from strop.core.errors import RewardError
from strop.core.types import Rollout, RolloutGroup


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed outside the policy: the component, as a recipe names it, and what it said."""

    component: str
    detail: str

    def __str__(self) -> str:
        return f"{self.component}: {self.detail}"


def check_infra_budget(groups: Sequence[RolloutGroup], max_share: float) -> None:
    """RewardError that counts the failures of each component when more than `max_share` of the rollouts have no reward
    for them; the last checkpoint stands, so the run can go on from it."""
    num_rollouts = sum(len(group.rollouts) for group in groups)
    failures = failures_of(groups)
    if len(failures) > max_share * num_rollouts:
        raise RewardError(
            f"{len(failures)} of {num_rollouts} rollouts failed outside the policy, above max_infra_share = "
            f"{max_share:g}: {report(failures)}; mend it, then go on with --resume"
        )


def failures_of(groups: Sequence[RolloutGroup]) -> list[Failure]:
    """One for each rollout that failed, with its domain in the name of the component and its task in the detail."""
    return [
        Failure(f"domain {group.task.domain!r}, {failure.component}", f"{failure.detail} (task {group.task.id})")
        for group in groups
        for rollout in group.rollouts
        if (failure := failure_of(rollout)) is not None
    ]


def report(failures: Sequence[Failure]) -> str:
    """Each component with its count and what it said first, the commonest component first."""
    said = {failure.component: failure for failure in reversed(failures)}
    return "; ".join(f"{n} × {said[name]}" for name, n in Counter(f.component for f in failures).most_common())


def failure_of(rollout: Rollout) -> Failure | None:
    """What failed outside the policy, None when nothing did."""
    if rollout.status == "infra_error":
        return Failure("environment", str(rollout.error))
    scores = rollout.reward.scores.items() if rollout.reward is not None else ()
    return next((Failure(f"reward {name!r}", score.detail) for name, score in scores if score.outcome == "infra"), None)
