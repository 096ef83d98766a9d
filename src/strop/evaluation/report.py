"""What an evaluation found."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from strop.evaluation.intervals import Estimate, average, clustered_se, mean_score
from strop.evaluation.pass_at_k import pass_at_k, pass_hat_k


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One attempt. `parsed` is None where the domain does not say whether an answer could be read."""

    task_id: str
    index: int
    score: float
    parsed: bool | None
    truncated: bool
    num_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DomainReport:
    """All attempts of one domain. Left out are `num_failed` attempts, which have no score for infrastructure reasons,
    and `num_skipped`, which the reward that says right or wrong does not apply to; `failure` is a reason for it.

    Shares and means need at least one result.
    """

    domain: str
    transfer: bool
    results: tuple[Result, ...]
    num_failed: int = 0
    num_skipped: int = 0
    failure: str | None = None

    def by_task(self) -> dict[str, list[Result]]:
        tasks: dict[str, list[Result]] = {}
        for result in self.results:
            tasks.setdefault(result.task_id, []).append(result)
        return tasks

    def task_means(self) -> list[float]:
        """Mean score of each task."""
        return [float(np.mean([r.score for r in task])) for task in self.by_task().values()]

    def accuracy(self) -> Estimate:
        """Mean score over tasks with its interval."""
        return mean_score(self.task_means())

    @property
    def is_share(self) -> bool:
        """Whether the scores can be read as shares of what is right, from 0 to 1."""
        return all(0.0 <= r.score <= 1.0 for r in self.results)

    def standard_error(self) -> float:
        """Of the mean score, samples of one task being a cluster."""
        return clustered_se([[r.score for r in task] for task in self.by_task().values()])

    def parsed_share(self) -> float | None:
        known = [r.parsed for r in self.results if r.parsed is not None]
        return float(np.mean(known)) if known else None

    def truncated_share(self) -> float:
        return float(np.mean([r.truncated for r in self.results]))

    def mean_tokens(self) -> float:
        return float(np.mean([r.num_tokens for r in self.results]))

    def at_k(self, k: int) -> tuple[float, float] | None:
        """pass@k and pass^k, a score of 1 being right; over the tasks with k known samples, None without any."""
        counts = [(len(task), sum(r.score >= 1.0 for r in task)) for task in self.by_task().values()]
        counts = [(n, c) for n, c in counts if n >= k]
        if not counts:
            return None
        return (
            float(np.mean([pass_at_k(n, c, k) for n, c in counts])),
            float(np.mean([pass_hat_k(n, c, k) for n, c in counts])),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalReport:
    """One model on all domains; everything else is computed from the results."""

    model: str
    domains: tuple[DomainReport, ...]
    ks: tuple[int, ...]
    seconds: float

    def domain(self, name: str) -> DomainReport | None:
        """The domain of that name, None where it has no result."""
        return next((d for d in self.domains if d.domain == name and d.results), None)

    def mean_accuracy(self, *, transfer: bool = False) -> Estimate | None:
        """Mean over the trained domains (or those that are only evaluated); None where none has a result."""
        chosen = [d.accuracy() for d in self.domains if d.transfer == transfer and d.results]
        return average(chosen) if chosen else None

    def to_json(self) -> str:
        """All results, and a summary for readers, which `from_json` computes anew."""
        summary = {d.domain: _summary(d, self.ks) for d in self.domains if d.results}
        return json.dumps({**dataclasses.asdict(self), "summary": summary}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> EvalReport:
        """KeyError, TypeError or ValueError when `text` is no report."""
        content: dict[str, Any] = json.loads(text)
        domains = tuple(
            DomainReport(**{**domain, "results": tuple(Result(**r) for r in domain["results"])})
            for domain in content["domains"]
        )
        return cls(model=content["model"], domains=domains, ks=tuple(content["ks"]), seconds=content["seconds"])


def _summary(domain: DomainReport, ks: tuple[int, ...]) -> dict[str, Any]:
    at_k = {k: found for k in ks if (found := domain.at_k(k)) is not None}
    return {
        "num_tasks": len(domain.by_task()),
        "num_failed": domain.num_failed,
        "num_skipped": domain.num_skipped,
        "accuracy": dataclasses.asdict(domain.accuracy()),
        "standard_error": domain.standard_error(),
        "pass@k": {k: found[0] for k, found in at_k.items()},
        "pass^k": {k: found[1] for k, found in at_k.items()},
        "parsed_share": domain.parsed_share(),
        "truncated_share": domain.truncated_share(),
        "mean_tokens": domain.mean_tokens(),
    }
