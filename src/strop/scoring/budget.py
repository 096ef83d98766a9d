"""How much of a step may fail for reasons that are nobody's answer before the run stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from strop.core.errors import RewardError
from strop.core.types import Rollout, RolloutGroup


def check_infra_budget(groups: Sequence[RolloutGroup], max_share: float) -> None:
    """RewardError that names the commonest failure when more than `max_share` of the rollouts have no reward for it."""
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    failures = [reason for rollout in rollouts if (reason := failure_of(rollout)) is not None]
    if len(failures) > max_share * len(rollouts):
        reason, _ = Counter(failures).most_common(1)[0]
        raise RewardError(f"{len(failures)} of {len(rollouts)} rollouts failed outside the policy, mostly: {reason}")


def failure_of(rollout: Rollout) -> str | None:
    """What failed outside the policy, None when nothing did."""
    if rollout.status == "infra_error":
        return f"environment: {rollout.error}"
    scores = rollout.reward.scores.items() if rollout.reward is not None else ()
    return next((f"reward {name!r}: {score.detail}" for name, score in scores if score.outcome == "infra"), None)
