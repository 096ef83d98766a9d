"""How measurements of one step become the numbers that are logged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, pstdev

from strop.core.protocols import Domain
from strop.core.types import Metric, Rollout, RolloutGroup, Score


def reduce_metrics(metrics: Iterable[Metric]) -> dict[str, float]:
    """Weighted mean of the metrics of each name; a name whose weights sum to 0 is left out rather than logged as 0."""
    sums: defaultdict[str, float] = defaultdict(float)
    weights: defaultdict[str, float] = defaultdict(float)
    for metric in metrics:
        sums[metric.name] += metric.value * metric.weight
        weights[metric.name] += metric.weight
    return {name: sums[name] / weight for name, weight in weights.items() if weight}


def group_metrics(groups: Iterable[RolloutGroup], signals: Mapping[str, str], version: int) -> list[Metric]:
    """What a step's groups say before any filtering: rewards, pass rate, signal, lengths and failures.

    `infra_share` failed outside the policy; `skipped_share` could be marked neither right nor wrong. Each named reward
    has `score/NAME`, its mean, `score_std/NAME`, its standard deviation over the step, and `score_applies/NAME`, the
    share of rollouts it applies to of those it did not fail on; a learned one also `raw/NAME`, its mean before it was
    normalised within the group.

    Per domain under `domain/NAME/...` and over all. `signals` names each domain's right-or-wrong reward.
    """
    found: list[Metric] = []
    groups = tuple(groups)
    for group in groups:
        signal = signals[group.task.domain]
        values = [v for r in group.trainable if (v := _score(r, signal)) is not None]
        found.extend(_both("signal_rate", float(len(set(values)) > 1), group))
        for rollout in group.rollouts:
            failed = _failed(rollout)
            found.extend(_both("infra_share", float(failed), group))
            found.extend(_both("skipped_share", float(not failed and _score(rollout, signal) is None), group))
            found.extend(_both("truncated_share", float(rollout.status == "truncated"), group))
            found.append(Metric(name="completion_tokens", value=rollout.num_tokens))
            found.append(Metric(name="turns", value=len(rollout.turns)))
            if rollout.total is not None:
                found.extend(_both("reward", rollout.total, group))
            for turn in rollout.turns:
                ages = version - turn.completion.versions
                found.append(Metric(name="staleness", value=float(ages.mean()) if len(ages) else 0.0))
        for value in values:
            found.extend(_both("pass_rate", float(value > 0), group))
    return found + _dimension_metrics(groups)


def _dimension_metrics(groups: Sequence[RolloutGroup]) -> list[Metric]:
    """Mean, spread and applicable share of each named reward, over all and per domain."""
    scores: defaultdict[tuple[str, str], list[Score]] = defaultdict(list)
    for group in groups:
        for rollout in group.rollouts:
            for name, score in rollout.reward.scores.items() if rollout.reward is not None else ():
                for where in ("", f"domain/{group.task.domain}/"):
                    scores[where, name].append(score)
    found = []
    for (where, name), all_given in scores.items():
        given = [score for score in all_given if score.outcome != "infra"]
        values = [score.value for score in given if score.value is not None]
        if values:
            found.append(Metric(name=f"{where}score/{name}", value=fmean(values)))
            found.append(Metric(name=f"{where}score_std/{name}", value=pstdev(values)))
        raw = [score.raw for score in given if score.raw is not None]
        if raw:
            found.append(Metric(name=f"{where}raw/{name}", value=fmean(raw)))
        if given:
            found.append(Metric(name=f"{where}score_applies/{name}", value=len(values) / len(given)))
    return found


def reward_counts(domains: Iterable[Domain]) -> dict[str, float]:
    """`count/REWARD/KEY`: what rewards count themselves (a judge its requests, retries, tokens), since the run began.

    A reward that counts has a mapping `counts`; those of one name add up over domains.
    """
    found: Counter[str] = Counter()
    for domain in domains:
        for reward in domain.rewards:
            for key, count in dict(getattr(reward.fn, "counts", {})).items():
                found[f"count/{reward.name}/{key}"] += count
    return {name: float(count) for name, count in found.items()}


def _failed(rollout: Rollout) -> bool:
    scores = rollout.reward.scores.values() if rollout.reward is not None else ()
    return rollout.status == "infra_error" or any(score.outcome == "infra" for score in scores)


def _score(rollout: Rollout, name: str) -> float | None:
    return None if rollout.reward is None or name not in rollout.reward.scores else rollout.reward.scores[name].value


def _both(name: str, value: float, group: RolloutGroup) -> tuple[Metric, Metric]:
    return Metric(name=name, value=value), Metric(name=f"domain/{group.task.domain}/{name}", value=value)
