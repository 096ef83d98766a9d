"""strop compare: evaluations of the same tasks, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from strop.core.errors import DataError
from strop.evaluation.compare import comparison_table
from strop.evaluation.report import EvalReport


def compare(
    reports: Annotated[list[Path], typer.Argument(help="two or more report files, or one run folder")],
) -> None:
    """Paired differences with intervals, of the last report to each before it (of a run: in the order made)."""
    found = (reports[0] / "evaluations").glob("*.json")
    files = sorted(found, key=lambda file: file.stat().st_mtime) if len(reports) == 1 else reports
    if len(files) < 2:
        raise DataError(f"{reports[0]}: give two reports, or a run folder that holds at least two evaluations")
    Console().print(comparison_table([read_report(file) for file in files]))


def read_report(file: Path) -> EvalReport:
    """DataError when the file is missing or is no report."""
    try:
        return EvalReport.from_json(file.read_text())
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{file}: not a report of strop eval ({error})") from error
