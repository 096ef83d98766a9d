"""Domains without right answers: how the model's own samples score, and whether junk scores like the best of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from statistics import fmean, pstdev

from strop.audit.audit import drawn
from strop.audit.findings import DomainAudit, Finding, Spread
from strop.core.protocols import Domain
from strop.core.types import Rollout, SamplingParams, Task

Attempt = Callable[[Domain, Task, int, SamplingParams], Awaitable[Rollout]]
NUM_TASKS = 8
NUM_SHOWN = 10


async def with_spread(audit: DomainAudit, domain: Domain, attempt: Attempt, num_samples: int) -> DomainAudit:
    """`audit` with the scores of `num_samples` samples a task, drawn as training would."""
    scored: list[list[tuple[float, str]]] = []
    for task in drawn(domain.tasks, NUM_TASKS):
        rollouts = [await attempt(domain, task, index, domain.sampling) for index in range(num_samples)]
        values = [(r.reward.scores[domain.signal].value, r.text) for r in rollouts if r.reward is not None]
        known = [(value, text) for value, text in values if value is not None]
        scored += [known] if known else []
    if not scored:
        text = "none of the model's samples has a score; check what the reward needs"
        return replace(audit, findings=(*audit.findings, Finding(check="spread", verdict="fail", text=text)))
    spread = spread_of(scored, num_samples)
    return replace(audit, spread=spread, findings=(*audit.findings, *spread_findings(audit, spread)))


def spread_of(scored: list[list[tuple[float, str]]], num_samples: int) -> Spread:
    """From (score, text) of each sample of each task."""
    ranked = sorted((pair for samples in scored for pair in samples), key=lambda pair: -pair[0])
    values = [value for value, _ in ranked]
    return Spread(
        num_tasks=len(scored),
        num_samples=num_samples,
        mean=fmean(values),
        deviation=pstdev(values),
        constant_share=fmean(len({value for value, _ in samples}) == 1 for samples in scored),
        best=tuple(ranked[:NUM_SHOWN]),
        worst=tuple(ranked[::-1][:NUM_SHOWN]),
    )


def spread_findings(audit: DomainAudit, spread: Spread) -> list[Finding]:
    """Junk must not earn what the best samples do, and groups whose samples all score the same teach nothing."""
    found = []
    best = fmean(score for score, _ in spread.best)
    worst = max(audit.junk, key=lambda row: row.mean, default=None)
    if worst is not None and worst.num_tasks > 1 and spread.deviation > 0 and worst.mean >= best:
        text = f"{worst.kind} scores {worst.mean:.3g}, no less than the ten best samples of the model ({best:.3g})"
        found.append(Finding(check="spread", verdict="fail", text=text))
    if spread.constant_share == 1.0:
        text = "all samples of each task score the same, so that no group teaches anything yet"
        found.append(Finding(check="spread", verdict="warn", text=text))
    return found
