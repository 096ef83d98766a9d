"""How two evaluations of the same tasks differ, and the tables that show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from strop.core.errors import DataError
from strop.evaluation.intervals import Estimate, bootstrap_mean, bootstrap_p_value, holm, stratified_bootstrap
from strop.evaluation.report import DomainReport, EvalReport

Verdict = Literal["better", "same", "worse"]
COLOURS = {"better": "green", "same": "dim", "worse": "red"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """The paired difference of a domain, after minus before. `same` means: not shown to differ."""

    difference: Estimate
    verdict: Verdict


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


def compare(before: EvalReport, after: EvalReport) -> dict[str, Change]:
    """The change of every domain both evaluated on common tasks.

    Intervals are 95% each; the chance of any false verdict over all domains is at most 5% (Holm).
    """
    paired = _paired(before, after)
    rejected = holm([bootstrap_p_value(values) for values in paired.values()])
    changes = {}
    for (name, values), differs in zip(paired.items(), rejected, strict=True):
        difference = bootstrap_mean(values)
        changes[name] = Change(difference=difference, verdict=_verdict(difference.value) if differs else "same")
    return changes


def mean_difference(
    before: EvalReport, after: EvalReport, *, transfer: bool = False, parsed_only: bool = False
) -> Estimate | None:
    """Mean over domains of the paired difference, tasks resampled within domains; None without a common task."""
    chosen = {d.domain for d in after.domains if d.transfer == transfer}
    paired = _paired(before, after, parsed_only=parsed_only)
    values = [v for name, v in paired.items() if name in chosen]
    return stratified_bootstrap(values) if values else None


def verdict(difference: Estimate) -> Verdict:
    """What one 95% interval says by itself: `same` when it holds 0."""
    return "same" if difference.low <= 0 <= difference.high else _verdict(difference.value)


def comparison_table(reports: Sequence[EvalReport]) -> Group:
    """What `rich` prints of several evaluations: accuracies and the paired difference of the last to each before it.

    DataError when the last report shares no task with an earlier one.
    """
    last, earlier = reports[-1], reports[:-1]
    changes = [compare(before, last) for before in earlier]
    for before, change in zip(earlier, changes, strict=True):
        if not change:
            raise DataError(f"{before.model} and {last.model} share no task; compare evaluations of the same recipe")
    table = _table(
        "held-out accuracy in % ± half its 95% interval, and paired differences",
        [*(report.model for report in reports), *(f"{last.model} - {before.model}" for before in earlier)],
    )
    if earlier:
        table.caption = "verdicts on domains: at most 5% chance that any is false (Holm)"
    for transfer in (False, True):
        chosen = [d.domain for d in last.domains if d.transfer == transfer and d.results]
        for name in chosen:
            same = [report.domain(name) for report in reports]
            accuracies = [_plus_minus(d.accuracy() if d is not None else None) for d in same]
            table.add_row(name, *accuracies, *(_change_cell(change.get(name)) for change in changes))
        if chosen:
            _add_means(table, reports, transfer)
    return Group(table, _detail_table(reports))


def _add_means(table: Table, reports: Sequence[EvalReport], transfer: bool) -> None:
    last, earlier = reports[-1], reports[:-1]
    means = [_plus_minus(report.mean_accuracy(transfer=transfer)) for report in reports]
    changes = [mean_difference(before, last, transfer=transfer) for before in earlier]
    table.add_section()
    table.add_row("mean (not trained on)" if transfer else "mean", *means, *map(_mean_cell, changes), style="bold")
    parsed = [mean_difference(before, last, transfer=transfer, parsed_only=True) for before in earlier]
    if any(change is not None for change in parsed):
        table.add_row("where both parse", *[""] * len(reports), *map(_mean_cell, parsed))
    table.add_section()


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, box=box.SIMPLE)
    table.add_column("domain", overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _detail_table(reports: Sequence[EvalReport]) -> Table:
    columns = _detail_columns(reports)
    table = _table(" / ".join(report.model for report in reports), list(columns))
    for domain in reports[-1].domains:
        same = [report.domain(domain.domain) for report in reports]
        table.add_row(
            domain.domain, *(" / ".join("-" if d is None else show(d) for d in same) for show in columns.values())
        )
    return table


def _detail_columns(reports: Sequence[EvalReport]) -> dict[str, Callable[[DomainReport], str]]:
    """What else is shown of each report, by the title of its column."""
    columns: dict[str, Callable[[DomainReport], str]] = {
        f"pass@{k}": partial(_pass_at_k, k) for k in sorted({k for r in reports for k in r.ks if k > 1})
    }
    columns["parsed %"] = lambda d: "-" if (share := d.parsed_share()) is None else f"{100 * share:.0f}"
    columns["cut off %"] = lambda d: f"{100 * d.truncated_share():.0f}"
    columns["tokens"] = lambda d: f"{d.mean_tokens():.0f}"
    if any(domain.num_failed for report in reports for domain in report.domains):
        columns["failed"] = lambda d: str(d.num_failed)
    if any(domain.num_skipped for report in reports for domain in report.domains):
        columns["skipped"] = lambda d: str(d.num_skipped)
    return columns


def _pass_at_k(k: int, domain: DomainReport) -> str:
    found = domain.at_k(k)
    return "-" if found is None else f"{100 * found[0]:.0f}"


def _paired(before: EvalReport, after: EvalReport, *, parsed_only: bool = False) -> dict[str, list[float]]:
    old = {d.domain: d for d in before.domains}
    found = {d.domain: differences(old[d.domain], d, parsed_only=parsed_only) for d in after.domains if d.domain in old}
    return {name: values for name, values in found.items() if values}


def _verdict(value: float) -> Verdict:
    return "better" if value > 0 else "worse"


def _plus_minus(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{100 * estimate.value:.1f} ±{50 * (estimate.high - estimate.low):.1f}"


def _change_cell(change: Change | None) -> Text:
    return Text("-") if change is None else _coloured(change.difference, change.verdict)


def _mean_cell(difference: Estimate | None) -> Text:
    return Text("-") if difference is None else _coloured(difference, verdict(difference))


def _coloured(estimate: Estimate, says: Verdict) -> Text:
    signed = f"{100 * estimate.value:+.1f} [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}] "
    return Text.assemble(signed, (says, COLOURS[says]))
