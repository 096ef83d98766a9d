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
from strop.evaluation.intervals import Estimate, holm, mean_paired_difference, paired_mean, paired_p_value
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
    rejected = holm([paired_p_value(values) for values in paired.values()])
    changes = {}
    for (name, values), differs in zip(paired.items(), rejected, strict=True):
        difference = paired_mean(values)
        changes[name] = Change(difference=difference, verdict=_verdict(difference.value) if differs else "same")
    return changes


def mean_difference(
    before: EvalReport, after: EvalReport, *, transfer: bool = False, parsed_only: bool = False
) -> Estimate | None:
    """Mean over domains of the paired difference, tasks resampled within domains; None without a common task."""
    chosen = {d.domain for d in after.domains if d.transfer == transfer}
    paired = _paired(before, after, parsed_only=parsed_only)
    values = [v for name, v in paired.items() if name in chosen]
    return mean_paired_difference(values) if values else None


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
        "held-out accuracy in %, other scores as they are, and paired differences, with 95% intervals"
        if any(not d.is_share for report in reports for d in report.domains)
        else "held-out accuracy in % and paired differences, with 95% intervals",
        [*(report.model for report in reports), *(f"{last.model} - {before.model}" for before in earlier)],
    )
    if earlier:
        table.caption = "verdicts on domains: at most 5% chance that any is false (Holm)"
    for transfer in (False, True):
        chosen = [d.domain for d in last.domains if d.transfer == transfer and d.results]
        for name in chosen:
            same = [report.domain(name) for report in reports]
            share = _are_shares(reports, [name])
            accuracies = [_score_cell(d.accuracy() if d is not None else None, share) for d in same]
            table.add_row(name, *accuracies, *(_change_cell(change.get(name), share) for change in changes))
        if chosen:
            _add_means(table, reports, transfer, _are_shares(reports, chosen))
    return Group(table, _detail_table(reports))


def _are_shares(reports: Sequence[EvalReport], domains: Sequence[str]) -> bool:
    """Whether every score of these domains is one of 0 to 1, so that it reads as accuracy."""
    return all(d.is_share for report in reports for d in report.domains if d.domain in domains)


def _add_means(table: Table, reports: Sequence[EvalReport], transfer: bool, share: bool) -> None:
    last, earlier = reports[-1], reports[:-1]
    means = [_score_cell(report.mean_accuracy(transfer=transfer), share, ".1f") for report in reports]
    changes = [_mean_cell(mean_difference(before, last, transfer=transfer), share) for before in earlier]
    table.add_section()
    table.add_row("mean (not trained on)" if transfer else "mean", *means, *changes, style="bold")
    parsed = [mean_difference(before, last, transfer=transfer, parsed_only=True) for before in earlier]
    if any(change is not None for change in parsed):
        cells = [_mean_cell(change, share) for change in parsed]
        table.add_row("where both parse", *[""] * len(reports), *cells)
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


def _score_cell(estimate: Estimate | None, share: bool, form: str = ".0f") -> str:
    """`44 [32, 57]` in %, or the numbers themselves where they are no shares."""
    return "-" if estimate is None else _with_interval(estimate, share, form)


def _with_interval(estimate: Estimate, share: bool, form: str) -> str:
    numbers = (estimate.value, estimate.low, estimate.high)
    value, low, high = (format(100 * x, form) if share else f"{x:{'+' if form[0] == '+' else ''}.3g}" for x in numbers)
    return f"{value} [{low}, {high}]"


def _change_cell(change: Change | None, share: bool) -> Text:
    return Text("-") if change is None else _coloured(change.difference, change.verdict, share)


def _mean_cell(difference: Estimate | None, share: bool) -> Text:
    return Text("-") if difference is None else _coloured(difference, verdict(difference), share)


def _coloured(estimate: Estimate, says: Verdict, share: bool) -> Text:
    return Text.assemble(_with_interval(estimate, share, "+.1f"), " ", (says, COLOURS[says]))
