"""What an evaluation found, and how two of them compare."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from strop.evaluation.intervals import Estimate, bootstrap_mean, stratified_bootstrap
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
    domain: str
    transfer: bool
    results: tuple[Result, ...]
    num_failed: int = 0

    def by_task(self) -> dict[str, list[Result]]:
        tasks: dict[str, list[Result]] = {}
        for result in self.results:
            tasks.setdefault(result.task_id, []).append(result)
        return tasks

    def accuracy(self) -> Estimate:
        """Mean score over tasks with its interval."""
        return bootstrap_mean([float(np.mean([r.score for r in task])) for task in self.by_task().values()])

    def parsed_share(self) -> float | None:
        known = [r.parsed for r in self.results if r.parsed is not None]
        return float(np.mean(known)) if known else None

    def truncated_share(self) -> float:
        return float(np.mean([r.truncated for r in self.results]))

    def mean_tokens(self) -> float:
        return float(np.mean([r.num_tokens for r in self.results]))

    def at_k(self, k: int) -> tuple[float, float]:
        """pass@k and pass^k, a score of 1 being right."""
        counts = [(len(task), sum(r.score >= 1.0 for r in task)) for task in self.by_task().values()]
        return (
            float(np.mean([pass_at_k(n, c, k) for n, c in counts])),
            float(np.mean([pass_hat_k(n, c, k) for n, c in counts])),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalReport:
    model: str
    domains: tuple[DomainReport, ...]
    ks: tuple[int, ...]
    seconds: float

    def mean_accuracy(self, *, transfer: bool = False) -> Estimate:
        """Mean over domains (trained ones, or those that are only evaluated)."""
        chosen = [d for d in self.domains if d.transfer == transfer and d.results]
        return stratified_bootstrap([list(_task_means(d).values()) for d in chosen])

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> EvalReport:
        """KeyError, TypeError or ValueError when `text` is no report."""
        content: dict[str, Any] = json.loads(text)
        domains = tuple(
            DomainReport(**{**domain, "results": tuple(Result(**r) for r in domain["results"])})
            for domain in content["domains"]
        )
        return cls(**{**content, "domains": domains, "ks": tuple(content["ks"])})


def differences(before: DomainReport, after: DomainReport, *, parsed_only: bool = False) -> list[float]:
    """After minus before for each task both tried; with `parsed_only`, over the attempts whose answers both parse."""
    pairs: dict[str, list[float]] = {}
    earlier = {(r.task_id, r.index): r for r in before.results}
    for result in after.results:
        old = earlier.get((result.task_id, result.index))
        if old is None or (parsed_only and not (old.parsed and result.parsed)):
            continue
        pairs.setdefault(result.task_id, []).append(result.score - old.score)
    return [float(np.mean(values)) for values in pairs.values()]


def mean_difference(
    before: EvalReport, after: EvalReport, *, transfer: bool = False, parsed_only: bool = False
) -> Estimate:
    """Mean over domains of the paired difference, with a bootstrap over tasks within domains.

    ValueError when the reports share no task.
    """
    old = {d.domain: d for d in before.domains}
    paired = [
        differences(old[d.domain], d, parsed_only=parsed_only)
        for d in after.domains
        if d.transfer == transfer and d.domain in old
    ]
    paired = [values for values in paired if values]
    if not paired:
        raise ValueError("the two reports share no task, so there is nothing to compare")
    return stratified_bootstrap(paired)


def verdict(difference: Estimate) -> str:
    """`better` or `worse` when the interval leaves out 0, else `same`."""
    if difference.low > 0:
        return "better"
    return "worse" if difference.high < 0 else "same"


def comparison_table(reports: Sequence[EvalReport]) -> Table:
    """Accuracy in per cent per domain and model, and the paired difference of the last to the first but one."""
    table = Table(title="held-out accuracy, % [95% interval]")
    table.add_column("domain")
    for report in reports:
        table.add_column(report.model, justify="right")
    first, last = reports[max(0, len(reports) - 2)], reports[-1]
    table.add_column(f"{last.model} - {first.model}", justify="right")
    table.add_column("verdict")
    table.add_column("parsed", justify="right")
    table.add_column("cut off", justify="right")
    table.add_column("tokens", justify="right")
    for domain in last.domains:
        table.add_row(*_row(domain, reports, first))
    for transfer, name in ((False, "mean of trained domains"), (True, "mean of domains not trained on")):
        if any(d.transfer == transfer for d in last.domains):
            change = mean_difference(first, last, transfer=transfer)
            means = [str(report.mean_accuracy(transfer=transfer)) for report in reports]
            table.add_section()
            table.add_row(name, *means, _signed(change), verdict(change), "", "", "", style="bold")
    return table


def _row(domain: DomainReport, reports: Sequence[EvalReport], first: EvalReport) -> list[str]:
    same = [next((d for d in report.domains if d.domain == domain.domain), None) for report in reports]
    cells = ["-" if d is None or not d.results else str(d.accuracy()) for d in same]
    before = next((d for d in first.domains if d.domain == domain.domain), None)
    paired = differences(before, domain) if before is not None else []
    change = bootstrap_mean(paired) if paired else None
    parsed = domain.parsed_share()
    return [
        domain.domain + (" (not trained)" if domain.transfer else ""),
        *cells,
        "-" if change is None else _signed(change),
        "-" if change is None else verdict(change),
        "-" if parsed is None else f"{100 * parsed:.0f}%",
        f"{100 * domain.truncated_share():.0f}%",
        f"{domain.mean_tokens():.0f}",
    ]


def _signed(estimate: Estimate) -> str:
    return f"{100 * estimate.value:+.1f} [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}]"


def _task_means(domain: DomainReport) -> Mapping[str, float]:
    return {task: float(np.mean([r.score for r in results])) for task, results in domain.by_task().items()}
