"""strop domains: how each domain of a run is doing and how often it is sampled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from strop.core.errors import DataError
from strop.storage.records import DOMAINS_FILE

HEADINGS = (
    "domain",
    "tickets",
    "share",
    "wanted",
    "now",
    "level",
    "pass rate",
    "signal",
    "tokens",
    "gradient",
    "guard",
)


def domains(
    run: Annotated[Path, typer.Argument(help="a run folder")],
    as_json: Annotated[bool, typer.Option("--json", help="the rows as JSON")] = False,
) -> None:
    """Show each domain of a run's RL stages: share wanted and realised, level, pass rate, signal, cost, guard."""
    files = sorted(run.glob(f"*/{DOMAINS_FILE}")) if run.is_dir() else []
    if not files:
        raise DataError(f"{run}: holds no table of domains; give the folder of a run that had a step of an RL stage")
    console = Console()
    for file in files:
        content = json.loads(file.read_text())
        if as_json:
            console.print_json(data={"stage": file.parent.name, **content})
        else:
            console.print(_table(file.parent.name, content))


def _table(stage: str, content: Mapping[str, Any]) -> Table:
    table = Table(title=f"{stage}, step {content['step']}", caption="shares in percent of all tickets")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "domain" else "right", no_wrap=heading == "domain")
    for row in content["domains"]:
        table.add_row(
            row["domain"],
            str(row["num_realised"]),
            *(f"{100 * row[name]:.1f}" for name in ("realised", "wanted", "share")),
            "" if row["level"] is None else str(row["level"]),
            ""
            if row["pass_rate"] is None
            else f"{_percent(row['pass_rate'])} [{_percent(row['low'])}, {_percent(row['high'])}]",
            _percent(row["signal_rate"]),
            "" if row["tokens"] is None else f"{row['tokens']:.0f}",
            _percent(row["gradient_share"]),
            "" if row["guard"] is None else f"best {_percent(row['guard']['best'])}, x{row['guard']['share_factor']:g}",
        )
    return table


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f}"
