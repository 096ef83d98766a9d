"""What became of each task: attempts, passes, last steps; and which samples a run has seen.

Pure: `record` takes a history and one result and gives the next history, which is JSON. A result is one group: all
attempts at one task under one ticket.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from strop.core.types import JSON, RolloutGroup
from strop.curriculum.retirement import PASS

History = Mapping[str, Mapping[str, Mapping[str, Any]]]  # domain -> task id -> TaskRecord as JSON


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskResult:
    """What came of one ticket; attempts without a score are left out."""

    domain: str
    task_id: str
    step: int
    attempts: int
    passes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRecord:
    """All results of one task."""

    attempts: int = 0
    passes: int = 0
    last_step: int | None = None
    last_pass_step: int | None = None


def record(history: History, result: TaskResult) -> dict[str, Any]:
    """The history after `result`; one without a scored attempt changes nothing."""
    if result.attempts == 0:
        return dict(history)
    before = record_of(history, result.domain, result.task_id)
    after = TaskRecord(
        attempts=before.attempts + result.attempts,
        passes=before.passes + result.passes,
        last_step=result.step,
        last_pass_step=result.step if result.passes else before.last_pass_step,
    )
    return {**history, result.domain: {**history.get(result.domain, {}), result.task_id: asdict(after)}}


def record_of(history: History, domain: str, task_id: str) -> TaskRecord:
    """Of a task that was never tried, the record of nothing."""
    if domain not in history or task_id not in history[domain]:
        return TaskRecord()
    return TaskRecord(**history[domain][task_id])


def solved_tasks(history: History, domain: str) -> tuple[str, ...]:
    """The tasks that were passed at least once, the last passed first: what a forgotten domain practises again."""
    tasks = history.get(domain, {})
    passed = [(record["last_pass_step"], task) for task, record in tasks.items() if record["passes"]]
    return tuple(task for _, task in sorted(passed, key=lambda pair: (-pair[0], pair[1])))


def result_of(group: RolloutGroup, step: int, signal: str) -> TaskResult:
    """The result of a group by the score of the reward `signal`, before any filtering or shaping."""
    values = [
        r.reward.scores[signal].value for r in group.rollouts if r.reward is not None and signal in r.reward.scores
    ]
    known = [value for value in values if value is not None]
    return TaskResult(
        domain=group.task.domain,
        task_id=group.task.id,
        step=step,
        attempts=len(known),
        passes=sum(value >= PASS for value in known),
    )


def results_of_rows(
    rows: Iterable[Mapping[str, Any]], signals: Mapping[str, str] | str = "accuracy"
) -> list[TaskResult]:
    """Results of recorded rollouts (storage/records.py: step, ticket, domain, task_id, scores), in their order.

    `signals` names the reward that says right or wrong, for all domains or by domain. Rollouts without that score
    count as tried with none scored.
    """
    groups: dict[tuple[int, int, str, str], list[float | None]] = {}
    for row in rows:
        signal = signals if isinstance(signals, str) else signals[row["domain"]]
        score = row["scores"][signal]["value"] if signal in row["scores"] else None
        groups.setdefault((row["step"], row["ticket"], row["domain"], row["task_id"]), []).append(score)
    return [
        TaskResult(
            domain=domain,
            task_id=task_id,
            step=step,
            attempts=sum(value is not None for value in values),
            passes=sum(value is not None and value >= PASS for value in values),
        )
        for (step, _, domain, task_id), values in groups.items()
    ]


def samples_seen(history: History) -> dict[str, JSON]:
    """What a checkpoint says of the samples it was trained on: how many, and a hash of all (domain, task id) pairs.

    The pairs themselves are the keys of the history that lies in the same checkpoint.
    """
    names = sorted((domain, task) for domain, tasks in history.items() for task in tasks)
    digest = blake2b(json.dumps(names, ensure_ascii=False).encode(), digest_size=16).hexdigest()
    return {"num_tasks": len(names), "digest": digest}
