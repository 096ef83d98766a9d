"""The audit as people and programs read it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strop.audit.findings import DomainAudit, brief

HEADINGS = ("domain", "tasks", "gold", "worst junk", "score", "limit", "same", "ms", "max", "verdict")
CAPTION = "gold: mean score of right answers; limit: what guessing may earn; same: when asked twice; ms: of one score"
COLOURS = {"pass": "green", "warn": "yellow", "fail": "red"}


def audit_table(audits: Sequence[DomainAudit], accepted: Sequence[str]) -> Table:
    """A row per domain."""
    table = Table(title="gold and junk answers", caption=CAPTION, box=None)
    for heading in HEADINGS:
        justify = "left" if heading in ("domain", "worst junk", "verdict") else "right"
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=heading not in ("domain", "worst junk"))
    for audit in audits:
        worst = audit.worst
        said = audit.verdict + (" (accepted)" if audit.verdict == "fail" and audit.domain in accepted else "")
        table.add_row(
            escape(audit.domain),
            str(audit.num_tasks),
            "none" if audit.gold_mean is None else f"{audit.gold_mean:.3g}",
            escape(worst.kind) if worst is not None else "",
            f"{worst.mean:.2f}" if worst is not None else "",
            f"{worst.limit:.2f}" if worst is not None else "",
            _repeatable(audit),
            f"{audit.p50_ms:.1f}",
            f"{audit.max_ms:.0f}",
            f"[{COLOURS[audit.verdict]}]{said}[/]",
        )
    return table


def _repeatable(audit: DomainAudit) -> str:
    if not audit.repeated:
        return ""
    return "no" if any(finding.check == "repeatable" for finding in audit.findings) else "yes"


def print_audits(console: Console, audits: Sequence[DomainAudit], accepted: Sequence[str]) -> None:
    """The table, then every finding, then what the model's samples earned where no answer is known to be right."""
    console.print(audit_table(audits, accepted))
    for audit in audits:
        for finding in audit.findings:
            colour = COLOURS[finding.verdict]
            console.print(f"[{colour}]{finding.verdict}[/] {escape(audit.domain)}: {escape(finding.text)}")
    for audit in audits:
        spread = audit.spread
        if spread is None:
            continue
        console.rule(f"{escape(audit.domain)}: {spread.num_samples} samples of each of {spread.num_tasks} tasks")
        console.print(
            f"mean {spread.mean:.3g}, standard deviation {spread.deviation:.3g}, "
            f"{100 * spread.constant_share:.0f}% of the tasks have samples that all score the same"
        )
        for heading, samples in (("best", spread.best), ("worst", spread.worst)):
            for score, text in samples:
                console.print(f"{heading} {score:.3g}: {escape(brief(text, 200))}")


def audits_json(audits: Sequence[DomainAudit], accepted: Sequence[str]) -> str:
    """All that was found, and the domains that fail without being accepted."""
    content = {"domains": [audit.to_json() for audit in audits], "failed": failed(audits, accepted)}
    return json.dumps(content, indent=1)


def failed(audits: Sequence[DomainAudit], accepted: Sequence[str]) -> list[str]:
    """Domains that fail and are not accepted."""
    return [audit.domain for audit in audits if audit.verdict == "fail" and audit.domain not in accepted]
