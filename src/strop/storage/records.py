"""What a run leaves to read: its identity, metrics by step, and every rollout."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from strop.core.errors import ConfigError
from strop.core.types import NOT_SAMPLED, Rollout, RolloutGroup, Turn

RUN_FILE = "run.json"


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. It belongs to one configuration and refuses another."""

    path: Path

    @classmethod
    def create(cls, root: Path, name: str, config: Mapping[str, Any]) -> RunFolder:
        """A new folder `root/name`, or `name-2`, `name-3`, ... where that is taken."""
        root.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            path = root / (name if number == 1 else f"{name}-{number}")
            try:
                path.mkdir()
            except FileExistsError:
                number += 1
                continue
            identity = {"created": time.time(), "config_hash": config_hash(config), "config": config}
            (path / RUN_FILE).write_text(json.dumps(identity, indent=1))
            return cls(path)

    @classmethod
    def open(cls, path: Path, config: Mapping[str, Any]) -> RunFolder:
        """An existing folder, to go on with. ConfigError when it is no run, or the run of another configuration."""
        if not (path / RUN_FILE).is_file():
            raise ConfigError(f"{path}: not a run folder; give --resume the folder that `strop train` printed")
        if json.loads((path / RUN_FILE).read_text())["config_hash"] != config_hash(config):
            raise ConfigError(f"{path}: is the run of another configuration; use its recipe, or start a new run")
        return cls(path)


def config_hash(config: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class MetricsLog:
    """One JSON line a step."""

    path: Path

    def append(self, step: int, metrics: Mapping[str, float]) -> None:
        with self.path.open("a") as stream:
            stream.write(json.dumps({"step": step, **metrics}) + "\n")

    def cut(self, after: int) -> None:
        """Forget the steps after `after`: a resumed run writes them again. A torn last line goes too."""
        if self.path.exists():
            kept = [line for line in self.read() if line["step"] <= after]
            _replace(self.path, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def read(self) -> Iterator[dict[str, Any]]:
        for line in self.path.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                return


def write_rollouts(folder: Path, step: int, groups: Sequence[RolloutGroup], *, stage: str) -> Path:
    """All rollouts of a step as one Parquet file, whole or absent."""
    rows = [_row(step, stage, group, rollout) for group in groups for rollout in group.rollouts]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"step-{step:06d}.parquet"
    scratch = file.with_suffix(".writing")
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), scratch, compression="zstd")
    os.replace(scratch, file)
    return file


def cut_rollouts(folder: Path, after: int) -> None:
    """Forget the rollouts of steps after `after`."""
    for file in folder.glob("step-*.parquet"):
        if int(file.stem.removeprefix("step-")) > after:
            file.unlink()


def read_rollouts(folder: Path, *, step: int | None = None, domain: str | None = None) -> list[dict[str, Any]]:
    """Rows of the Parquet files of `folder`, `scores` parsed."""
    rows: list[dict[str, Any]] = []
    for file in sorted(folder.glob("step-*.parquet")):
        if step is None or int(file.stem.removeprefix("step-")) == step:
            rows.extend(pq.read_table(file).to_pylist())
    chosen = [row for row in rows if domain is None or row["domain"] == domain]
    return [{**row, "scores": json.loads(row["scores"])} for row in chosen]


SCHEMA = pa.schema(
    [
        ("stage", pa.string()),
        ("step", pa.int32()),
        ("ticket", pa.int64()),
        ("attempt", pa.int32()),
        ("index", pa.int32()),
        ("domain", pa.string()),
        ("task_id", pa.string()),
        ("level", pa.int32()),
        ("status", pa.string()),
        ("error", pa.string()),
        ("prompt", pa.string()),
        ("text", pa.string()),
        ("total", pa.float64()),
        ("scores", pa.string()),
        ("finish_reason", pa.string()),
        ("num_tokens", pa.int32()),
        ("num_turns", pa.int32()),
        ("token_ids", pa.list_(pa.int32())),
        ("sampled", pa.list_(pa.bool_())),
        ("logprobs", pa.list_(pa.float32())),
        ("versions", pa.list_(pa.int32())),
        ("evidence", pa.string()),
        ("rollout_s", pa.float64()),
    ]
)


def _row(step: int, stage: str, group: RolloutGroup, rollout: Rollout) -> dict[str, Any]:
    scores = {} if rollout.reward is None else rollout.reward.scores
    weights = {} if rollout.reward is None else rollout.reward.weights
    described = {
        name: {"value": s.value, "outcome": s.outcome, "detail": s.detail, "weight": weights[name]}
        for name, s in scores.items()
    }
    return {
        "stage": stage,
        "step": step,
        "ticket": group.ticket,
        "attempt": group.attempt,
        "index": rollout.index,
        "domain": group.task.domain,
        "task_id": group.task.id,
        "level": group.task.level,
        "status": rollout.status,
        "error": rollout.error,
        "prompt": "\n".join(f"{m.role}: {m.content}" for m in group.task.prompt),
        "text": "\n".join(_turn_text(turn) for turn in rollout.turns),
        "total": rollout.total,
        "scores": json.dumps(described),
        "finish_reason": rollout.turns[-1].completion.finish_reason if rollout.turns else None,
        "num_tokens": rollout.num_tokens,
        "num_turns": len(rollout.turns),
        "token_ids": [i for turn in rollout.turns for i in [*turn.input_ids.tolist(), *_drawn(turn, "token_ids")]],
        "sampled": [x for turn in rollout.turns for x in _padded(turn, False, [True] * len(turn.completion.token_ids))],
        "logprobs": [x for turn in rollout.turns for x in _padded(turn, 0.0, _drawn(turn, "logprobs"))],
        "versions": [x for turn in rollout.turns for x in _padded(turn, NOT_SAMPLED, _drawn(turn, "versions"))],
        "evidence": json.dumps(dict(rollout.evidence), default=str),
        "rollout_s": rollout.timing.get("rollout_s"),
    }


def _drawn(turn: Turn, field: str) -> list[Any]:
    values: list[Any] = getattr(turn.completion, field).tolist()
    return values


def _padded(turn: Turn, filler: Any, drawn: list[Any]) -> list[Any]:
    """Values of a turn's tokens: `filler` for those given, then those drawn."""
    return [filler] * len(turn.input_ids) + drawn


def _turn_text(turn: Turn) -> str:
    replies = "".join(f"\n{reply.role}: {reply.content}" for reply in turn.replies)
    return f"{turn.message.content}{replies}"


def _replace(path: Path, content: bytes) -> None:
    scratch = path.with_suffix(".writing")
    scratch.write_bytes(content)
    os.replace(scratch, path)
