"""Preference pairs from the graded rollouts of a run: answers to one task that differ in what they earned."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import pyarrow as pa
import pyarrow.dataset as ds

from strop.core.errors import ConfigError, DataError
from strop.core.pairs import Answer, PreferencePair, form_of, is_held_out
from strop.core.types import NOT_SAMPLED, Message, TrainingSample

COLUMNS = (
    "stage",
    "domain",
    "task_id",
    "status",
    "prompt",
    "text",
    "token_ids",
    "loss_mask",
    "scores",
    "total",
    "finish_reason",
    "num_tokens",
)
Row = Mapping[str, Any]


def graded_rollouts(
    run: str = "",
    split: Literal["train", "held_out"] = "train",
    folder: Path | None = None,
    stage: str = "",
    score: str = "",
    domains: Sequence[str] = (),
    margin: float = 0.5,
    length_ratio: float = 1.25,
    equal_form: bool = True,
    max_per_task: int = 8,
    held_out_share: float = 0.1,
) -> Sequence[PreferencePair]:
    """Pairs of two rollouts of one task whose rewards differ by at least `margin`, at most `max_per_task` of a task.

    `run` is the folder of another run; without it the run's own earlier stages are read. `stage` reads one stage
    only. The reward is the total, or the score named `score`. So that neither length nor form can be what is learned,
    both answers are of one length bucket (powers of `length_ratio`; 1 asks for equal lengths) and, with `equal_form`,
    ended alike, with the same marks (see core/pairs.py) and the same score `form`, where that is recorded.
    """
    _check(margin, length_ratio, held_out_share)
    place = Path(run) if run else folder
    if place is None:
        raise ConfigError("graded_rollouts: give `run`, the folder of a run")
    tasks: dict[str, list[Row]] = {}
    for row in _rows(place, stage):
        if not domains or row["domain"] in domains:
            tasks.setdefault(_prompt_id(row), []).append(row)
    found: list[PreferencePair] = []
    for prompt_id, rows in sorted(tasks.items()):
        if is_held_out(prompt_id, held_out_share) == (split == "held_out"):
            chosen = sorted(_pairs(rows, score, margin, length_ratio, equal_form), key=_order)
            found.extend(_pair(prompt_id, better, worse) for better, worse in chosen[:max_per_task])
    return tuple(found)


def _check(margin: float, length_ratio: float, held_out_share: float) -> None:
    if not margin > 0:
        raise ConfigError(f"graded_rollouts: margin must be above 0, got {margin}")
    if not length_ratio >= 1:
        raise ConfigError(f"graded_rollouts: length_ratio must be at least 1, got {length_ratio}")
    if not 0.0 < held_out_share < 1.0:
        raise ConfigError(f"graded_rollouts: held_out_share must be between 0 and 1, got {held_out_share}")


def _rows(place: Path, stage: str) -> list[Row]:
    """Rollouts that ended by themselves or by their limit, in one piece, in the order of stages and steps."""
    if not place.is_dir():
        raise DataError(f"graded_rollouts: {place} is no folder; give the folder of a run")
    files = sorted(place.glob("*/rollouts/step-*.parquet"), key=_stage_and_step)
    if not files:
        raise DataError(f"graded_rollouts: {place} holds no rollouts; give the folder of a run with an rl stage")
    try:
        table = ds.dataset([str(file) for file in files]).to_table(columns=list(COLUMNS))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"graded_rollouts: the rollouts in {place} cannot be read: {error}") from error
    rows: list[Row] = table.to_pylist(maps_as_pydicts="strict")
    if stage and not any(row["stage"] == stage for row in rows):
        known = ", ".join(sorted({row["stage"] for row in rows}))
        raise DataError(f"graded_rollouts: {place} has no rollouts of a stage {stage!r}; there are those of {known}")
    return [
        row
        for row in rows
        if (not stage or row["stage"] == stage)
        and row["status"] in ("ok", "truncated")
        and len(row["token_ids"]) == 1
        and any(row["loss_mask"][0])
    ]


def _stage_and_step(file: Path) -> tuple[int, str, int]:
    number, _, name = file.parts[-3].partition("-")
    return (int(number) if number.isdigit() else 0, name, int(file.stem.removeprefix("step-")))


def _prompt_id(row: Row) -> str:
    """The task, and the tokens it was asked with, which another template or model would change."""
    asked = row["token_ids"][0][: row["loss_mask"][0].index(True)]
    content = json.dumps([row["task_id"], asked])
    return f"rollouts-{blake2b(content.encode(), digest_size=8).hexdigest()}"


def _pairs(
    rows: Sequence[Row], score: str, margin: float, length_ratio: float, equal_form: bool
) -> Iterator[tuple[Row, Row]]:
    """Each better answer with each worse one of its kind. An answer given twice has the mean of its rewards."""
    kinds: dict[object, dict[tuple[int, ...], tuple[list[float], Row]]] = {}
    for row in rows:
        reward = _reward(row, score)
        if reward is not None:
            kind = (_bucket(row["num_tokens"], length_ratio), _form(row) if equal_form else None)
            rewards, _ = kinds.setdefault(kind, {}).setdefault(tuple(row["token_ids"][0]), ([], row))
            rewards.append(reward)
    for answers in kinds.values():
        for (better, first), (worse, second) in product(answers.values(), repeat=2):
            if fmean(better) - fmean(worse) >= margin:
                yield first, second


def _reward(row: Row, score: str) -> float | None:
    if not score:
        total: float | None = row["total"]
        return total
    if score not in row["scores"]:
        raise DataError(
            f"graded_rollouts: the rollouts of {row['domain']!r} have no score {score!r}; there are "
            f"{', '.join(row['scores'])}"
        )
    value: float | None = row["scores"][score]["value"]
    return value


def _bucket(num_tokens: int, ratio: float) -> int:
    return num_tokens if ratio == 1 else int(math.log(num_tokens) / math.log(ratio) + 1e-9)


def _form(row: Row) -> tuple[object, ...]:
    form = row["scores"]["form"]["value"] if "form" in row["scores"] else None
    return (row["finish_reason"], form, *form_of(row["text"]))


def _order(pair: tuple[Row, Row]) -> bytes:
    """A fixed order by chance, so that what `max_per_task` leaves out says nothing."""
    content = json.dumps([row["token_ids"][0] for row in pair])
    return blake2b(content.encode(), digest_size=8).digest()


def _pair(prompt_id: str, better: Row, worse: Row) -> PreferencePair:
    return PreferencePair(
        id=prompt_id,
        prompt=(Message(role="user", content=better["prompt"]),),
        chosen=_answer(better),
        rejected=_answer(worse),
    )


def _answer(row: Row) -> Answer:
    ids = row["token_ids"][0]
    return Answer(
        messages=(Message(role="assistant", content=row["text"]),),
        sample=TrainingSample(
            token_ids=ids, loss_mask=row["loss_mask"][0], versions=[NOT_SAMPLED] * len(ids), domain=row["domain"]
        ),
    )
