"""strop rollouts: read what the policy wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.markup import escape

from strop.core.errors import DataError
from strop.storage.records import read_rollouts


def rollouts(
    run: Annotated[Path, typer.Argument(help="a run folder")],
    step: Annotated[Optional[int], typer.Option(help="only this step")] = None,  # noqa: UP045
    domain: Annotated[Optional[str], typer.Option(help="only this domain")] = None,  # noqa: UP045
    limit: Annotated[int, typer.Option(help="how many to show")] = 10,
    worst: Annotated[bool, typer.Option(help="lowest reward first")] = False,
) -> None:
    """Show rollouts with their scores, highest reward first."""
    folders = sorted(run.glob("*/rollouts")) if run.is_dir() else []
    if not folders:
        raise DataError(f"{run}: holds no rollouts; give the folder of a run that had an RL stage")
    rows = [row for folder in folders for row in read_rollouts(folder, step=step, domain=domain)]
    if domain is not None and not rows:
        known = {row["domain"] for folder in folders for row in read_rollouts(folder, step=step, columns=["domain"])}
        raise DataError(f"{run}: no rollout is of domain {domain!r}; there are {', '.join(sorted(known))}")
    num_recorded = len(rows)
    rows = [row for row in rows if row["total"] is not None]
    rows.sort(key=lambda row: row["total"], reverse=not worst)
    console = Console()
    for row in rows[:limit]:
        console.rule(f"step {row['step']} · {row['domain']} · reward {row['total']:.2f} · {row['status']}")
        console.print(escape(row["prompt"]), style="dim")
        console.print(escape(row["text"]))
        console.print({name: score["value"] for name, score in row["scores"].items()})
    unknown = f"; {num_recorded - len(rows)} more have no reward" if num_recorded > len(rows) else ""
    console.print(f"{min(limit, len(rows))} of {len(rows)} rollouts{unknown}")
