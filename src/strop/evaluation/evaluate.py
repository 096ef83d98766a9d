"""Evaluating a model on held-out tasks: the same tasks, samples and seeds for every model, so that pairs compare."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Literal

from strop.core.errors import ConfigError, RewardError, first_error
from strop.core.protocols import Domain
from strop.core.types import Rollout, SamplingParams, Task
from strop.evaluation.report import DomainReport, EvalReport, Result
from strop.scoring.budget import failure_of

Unknown = Literal["failed", "skipped"]
Attempt = Callable[[Domain, Task, int, SamplingParams], Awaitable[Rollout]]
FORM = "form"  # the reward, where a domain has one, that says whether the answer could be read


async def evaluate(
    domains: Sequence[Domain],
    attempt: Attempt,
    *,
    model: str,
    transfer: Sequence[str] = (),
    num_tasks: int,
    num_samples: int = 1,
    ks: Sequence[int] = (1,),
    temperature: float = 0.0,
    concurrency: int = 64,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> EvalReport:
    """`num_samples` attempts at the first `num_tasks` held-out tasks of each domain (all it has, where fewer).

    Attempts that fail for infrastructure reasons, and those that can be called neither right nor wrong, are counted
    and left out; truncated ones count as scored. `progress` hears of every attempt: how many are done, of how many.
    ConfigError when a k exceeds `num_samples`, or when greedy samples would all be the same.
    """
    _check(ks, num_samples, temperature)
    started_s = time.monotonic()
    free = asyncio.Semaphore(concurrency)

    chosen = {domain.name: _tasks(domain, num_tasks) for domain in domains}
    total = num_samples * sum(map(len, chosen.values()))
    done = itertools.count(1)
    failures: dict[str, str] = {}

    async def one(domain: Domain, task: Task, index: int) -> Result | Unknown:
        params = replace(domain.sampling, temperature=temperature, top_p=1.0, top_k=0)
        async with free:
            rollout = await attempt(domain, task, index, params)
        result = _result(rollout, task, index, domain.signal)
        if not isinstance(result, Result):
            failures[domain.name] = str(failure_of(rollout) or f"reward {domain.signal!r} does not apply")
        progress(next(done), total)
        return result

    try:
        async with asyncio.TaskGroup() as group:
            running = [
                [group.create_task(one(d, task, k)) for task in chosen[d.name] for k in range(num_samples)]
                for d in domains
            ]
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None
    reports = []
    for domain, attempts in zip(domains, running, strict=True):
        found = [a.result() for a in attempts]
        reports.append(
            DomainReport(
                domain=domain.name,
                transfer=domain.name in transfer,
                results=tuple(result for result in found if isinstance(result, Result)),
                num_failed=found.count("failed"),
                num_skipped=found.count("skipped"),
                failure=failures.get(domain.name),
            )
        )
    return EvalReport(model=model, domains=tuple(reports), ks=tuple(ks), seconds=time.monotonic() - started_s)


def _check(ks: Sequence[int], num_samples: int, temperature: float) -> None:
    if max(ks) > num_samples:
        raise ConfigError(
            f"evaluation.ks holds {max(ks)}: set evaluation.num_samples to at least that, not {num_samples}"
        )
    if num_samples > 1 and temperature == 0.0:
        raise ConfigError(
            f"evaluation.num_samples = {num_samples} at temperature 0 repeats one answer; set evaluation.temperature"
        )


def check_scored(report: EvalReport) -> None:
    """RewardError when a domain has not one result: what follows could not say anything of it."""
    for domain in report.domains:
        if not domain.results:
            count = domain.num_failed + domain.num_skipped
            raise RewardError(
                f"domain {domain.domain!r}: none of its {count} held-out attempts has a score: {domain.failure}; "
                "check the reward, and that the tasks have what it compares with"
            )


def _tasks(domain: Domain, num_tasks: int) -> list[Task]:
    return [domain.held_out[i] for i in range(min(num_tasks, len(domain.held_out)))]


def _result(rollout: Rollout, task: Task, index: int, signal: str) -> Result | Unknown:
    if rollout.reward is None or any(score.outcome == "infra" for score in rollout.reward.scores.values()):
        return "failed"
    score = rollout.reward.scores[signal].value
    if score is None:
        return "skipped"
    form = rollout.reward.scores[FORM].value if FORM in rollout.reward.scores else None
    return Result(
        task_id=task.id,
        index=index,
        score=score,
        parsed=None if form is None else form > 0,
        truncated=rollout.status == "truncated",
        num_tokens=rollout.num_tokens,
    )
