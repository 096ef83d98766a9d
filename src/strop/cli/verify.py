"""strop verify: compare many answers with what is wanted, in bulk."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from strop.core.errors import DataError
from strop.core.types import Score

verify = typer.Typer(no_args_is_help=True, help="Compare answers with what is wanted, in bulk.")
AT_ONCE = 64  # rows under way: enough to keep the workers busy, few enough that waiting is not measured as work


@verify.callback()
def about() -> None:
    """Compare answers with what is wanted, in bulk."""


@verify.command("math")
def verify_math(
    file: Annotated[Path, typer.Argument(help="JSON lines with gold and prediction (a whole answer), and id if any")],
    workers: Annotated[int, typer.Option(min=1, help="processes for what exact arithmetic leaves open")] = 2,
    deadline: Annotated[float, typer.Option(min=0.1, help="seconds for each call of a worker")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a row, in the order of the file")] = False,
) -> None:
    """Whether each `prediction` of FILE is equivalent to its `gold`. Code 3: some row could not be decided (infra)."""
    rows = read_rows(file)
    answers = asyncio.run(_verified(rows, workers, deadline))
    for answer in answers:
        if as_json:
            print(json.dumps({key: getattr(answer, key) for key in ("id", "equivalent", "outcome", "seconds")}))
    if not as_json:
        counted = Counter(answer.outcome for answer in answers)
        right = sum(bool(answer.equivalent) for answer in answers)
        said = ", ".join(f"{count} {outcome}" for outcome, count in counted.items())
        print(f"{right} of {len(answers)} equivalent ({said})")
    if any(answer.outcome == "infra" for answer in answers):
        raise typer.Exit(3)


@dataclass(frozen=True, slots=True)
class Answer:
    """`seconds` counts the row's own work: what waits for a worker's turn is in it, what waits for a place is not."""

    id: Any
    equivalent: bool | None
    outcome: str
    seconds: float


def read_rows(file: Path) -> list[Mapping[str, Any]]:
    """DataError names the line that is no row."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: is not UTF-8 text (byte {error.start})") from error
    rows: list[Mapping[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"{file}, line {number}: is no JSON ({error})") from error
        if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("gold", "prediction")):
            raise DataError(f"{file}, line {number}: must be an object with the texts gold and prediction")
        rows.append({"id": number, **row})
    return rows


async def _verified(rows: list[Mapping[str, Any]], workers: int, deadline_s: float) -> list[Answer]:
    from strop.rewards.math import MathReward
    from strop.scoring.math_workers import open_math_workers

    pool = open_math_workers(workers=workers, deadline_s=deadline_s)
    reward = MathReward(math_workers=pool.call)
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(row: Mapping[str, Any]) -> Answer:
        async with gate:
            started = time.perf_counter()
            score = await reward.score(row["prediction"], [row["gold"]])
            return _answer(row["id"], score, time.perf_counter() - started)

    try:
        return list(await asyncio.gather(*map(one, rows)))
    finally:
        pool.close()


def _answer(name: Any, score: Score, seconds: float) -> Answer:
    equivalent = None if score.value is None else score.value == 1.0
    return Answer(name, equivalent, score.outcome, round(seconds, 6))
