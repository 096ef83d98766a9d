"""What a run leaves behind: who owns its folder, what it cost, its metrics as JSONL, every rollout as Parquet."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from strop.core.batch import split_rollout
from strop.core.errors import ConfigError, DataError
from strop.core.types import JSON, Rollout, RolloutGroup, Task

RUN_FILE = "run.json"
LOCK_FILE = ".lock"
COSTS_FILE = "seconds.json"
DOMAINS_FILE = "domains.json"
NOT_SET = object()
SCORE = pa.struct(
    [
        ("value", pa.float64()),
        ("outcome", pa.string()),
        ("detail", pa.string()),
        ("version", pa.string()),
        ("raw", pa.float64()),
    ]
)
SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("stage", pa.string()),
        ("step", pa.int32()),
        ("ticket", pa.int32()),
        ("attempt", pa.int32()),
        ("index", pa.int32()),
        ("domain", pa.string()),
        ("task_id", pa.string()),
        ("level", pa.int32()),
        ("status", pa.string()),
        ("error", pa.string()),
        ("prompt", pa.string()),
        ("text", pa.string()),
        ("token_ids", pa.list_(pa.list_(pa.int32()))),  # one list per training sample of the rollout, here and below
        ("loss_mask", pa.list_(pa.list_(pa.bool_()))),
        ("sampled_logprobs", pa.list_(pa.list_(pa.float32()))),
        ("versions", pa.list_(pa.list_(pa.int32()))),
        ("scores", pa.map_(pa.string(), SCORE)),
        ("weights", pa.map_(pa.string(), pa.float64())),
        ("total", pa.float64()),
        ("advantage", pa.float64()),
        ("finish_reason", pa.string()),
        ("num_tokens", pa.int32()),
        ("evidence", pa.string()),  # JSON
        ("timing", pa.map_(pa.string(), pa.float64())),
    ]
)


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. It belongs to one configuration and refuses another."""

    path: Path
    run_id: str

    @classmethod
    def create(
        cls, root: Path, name: str, config: Mapping[str, JSON], recipe: Mapping[str, JSON] | None = None
    ) -> RunFolder:
        """A new folder `root/name`, or `name-2`, `name-3`, ... where that is taken.

        `recipe` is what the user wrote of `config`, from which the run can go on; None where it holds code.
        """
        root.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            path = root / (name if number == 1 else f"{name}-{number}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            break
        run_id = uuid.uuid4().hex[:12]
        identity = {"run_id": run_id, "config": config, "recipe": recipe}
        write_whole(path / RUN_FILE, json.dumps(identity, indent=1).encode())
        return cls(path, run_id)

    @classmethod
    def open(cls, path: Path, config: Mapping[str, JSON]) -> RunFolder:
        """An existing folder, to go on with. ConfigError when it is no run, or the run of another configuration."""
        run_id, stored = _identity(path, "run_id", "config")
        difference = first_difference(stored, json.loads(json.dumps(config)))
        if difference is not None:
            key, there, here = difference
            raise ConfigError(
                f"{path}: is the run of another configuration, with {key} = {there} where this is {here}; use its own "
                "(--resume alone does), or start a new run"
            )
        return cls(path, run_id)

    def costs(self) -> Costs:
        """What the run has cost so far."""
        file = self.path / COSTS_FILE
        return Costs(file, json.loads(file.read_text()) if file.exists() else {})

    @contextmanager
    def claim(self) -> Iterator[None]:
        """While open no other process may write here; the system ends the claim of a process that dies."""
        with (self.path / LOCK_FILE).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigError(f"{self.path}: another process is at work on this run; wait for its end") from error
            yield


@dataclass(frozen=True)
class Costs:
    """Seconds by what they went into, kept on disk, so that a run that was stopped counts on."""

    file: Path
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[Callable[[], None]]:
        """Count the time within for `name`; what is yielded puts it on disk before the end, too."""
        before, started_s = self.seconds.get(name, 0.0), time.monotonic()

        def keep() -> None:
            self.seconds[name] = before + time.monotonic() - started_s
            write_whole(self.file, json.dumps(self.seconds).encode())

        yield keep
        keep()


def stored_recipe(path: Path) -> Mapping[str, JSON]:
    """What the run in `path` was started with. ConfigError when that held code, which no file can give back."""
    (recipe,) = _identity(path, "recipe")
    if recipe is None:
        raise ConfigError(
            f"{path}: was started from Python with code of its own; go on there, with "
            f"strop.train(..., resume={str(path)!r})"
        )
    found: Mapping[str, JSON] = recipe
    return found


def _identity(path: Path, *keys: str) -> list[Any]:
    if not (path / RUN_FILE).is_file():
        raise ConfigError(f"{path}: not a run folder; give --resume the folder that `strop train` printed")
    try:
        identity = json.loads((path / RUN_FILE).read_text())
        return [identity[key] for key in keys]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path / RUN_FILE}: cannot be read as a run's ({error}); start a new run") from error


def first_difference(there: Any, here: Any, path: str = "") -> tuple[str, str, str] | None:
    """The first key, in the order of `here`, at which two JSON values differ, and what each holds there."""
    if isinstance(there, list) and isinstance(here, list):
        there, here = ({str(n): item for n, item in enumerate(items)} for items in (there, here))
    if isinstance(there, dict) and isinstance(here, dict):
        for key in {**here, **there}:
            pair = (side.get(key, NOT_SET) for side in (there, here))
            found = first_difference(*pair, f"{path}.{key}".removeprefix("."))
            if found is not None:
                return found
        return None
    return None if there == here else (path, _said(there), _said(here))


def _said(value: Any) -> str:
    text = "not set" if value is NOT_SET else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class MetricsLog:
    """One JSON object per step: `{"step": 3, "reward": 0.5, ...}`."""

    path: Path

    def append(self, step: int, metrics: Mapping[str, float]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps({"step": step, **metrics}) + "\n")

    def read(self) -> list[dict[str, Any]]:
        """All steps in order. A last line that a crash cut short is left out."""
        return [json.loads(line) for line in self._lines()]

    def cut(self, after_step: int) -> None:
        """Forget the steps after `after_step`: a resumed run writes them again."""
        if self.path.exists():
            kept = [line for line in self._lines() if json.loads(line)["step"] <= after_step]
            write_whole(self.path, b"".join(kept))

    def _lines(self) -> list[bytes]:
        if not self.path.exists():
            return []
        return [line for line in self.path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def write_rollouts(
    folder: Path,
    step: int,
    groups: Sequence[RolloutGroup],
    *,
    stage: str,
    run: str = "",
    advantages: Mapping[tuple[int, int], float] | None = None,
) -> Path:
    """Write every rollout of a step into one Parquet file, whole or not at all, replacing that step's earlier one.

    `advantages` are by (ticket, index), where there is one number per rollout.
    """
    rows = []
    for group in groups:
        for rollout in group.rollouts:
            advantage = (advantages or {}).get((group.ticket, rollout.index))
            about = {"run": run, "stage": stage, "step": step, "attempt": group.attempt, "advantage": advantage}
            rows.append({**about, **_row(rollout, group.task, group.ticket)})
    folder.mkdir(parents=True, exist_ok=True)
    file, partial = _file_of(folder, step), folder / f".step-{step}.partial"
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), partial, compression="zstd")
    os.replace(partial, file)
    return file


def _row(rollout: Rollout, task: Task, ticket: int) -> dict[str, Any]:
    samples = split_rollout(rollout, ticket, task.domain)
    reward = rollout.reward
    scores = reward.scores.items() if reward is not None else ()
    return {
        "ticket": ticket,
        "index": rollout.index,
        "domain": task.domain,
        "task_id": task.id,
        "level": task.level,
        "status": rollout.status,
        "error": rollout.error,
        "prompt": "\n\n".join(f"{m.role}: {m.content}" for m in task.prompt),
        "text": "\n\n".join(_lines_of(rollout)),
        "token_ids": [s.token_ids for s in samples],
        "loss_mask": [s.loss_mask for s in samples],
        "sampled_logprobs": [s.sampled_logprobs for s in samples],
        "versions": [s.versions for s in samples],
        "scores": [(n, {key: getattr(s, key) for key in SCORE.names}) for n, s in scores],
        "weights": list(reward.weights.items()) if reward is not None else [],
        "total": rollout.total,
        "finish_reason": rollout.turns[-1].completion.finish_reason if rollout.turns else None,
        "num_tokens": rollout.num_tokens,
        "evidence": json.dumps(dict(rollout.evidence), default=str),
        "timing": list(rollout.timing.items()),
    }


def _lines_of(rollout: Rollout) -> Iterator[str]:
    for turn in rollout.turns:
        yield turn.message.content
        yield from (f"{reply.role}: {reply.content}" for reply in turn.replies)


def read_rollouts(
    folder: Path,
    *,
    step: int | None = None,
    domain: str | None = None,
    task_id: str | None = None,
    columns: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Rows of a folder of `write_rollouts` in the order of steps, tickets and indices; maps come as dicts.

    `columns` keeps the reading of long runs small. DataError when `step` was not recorded.
    """
    files = [_file_of(folder, step)] if step is not None else [file for _, file in sorted(_files(folder))]
    if step is not None and not files[0].exists():
        raise DataError(f"{folder}: step {step} has no rollouts; recorded are {sorted(n for n, _ in _files(folder))}")
    if not files:
        return []
    wanted = None
    for name, value in (("domain", domain), ("task_id", task_id)):
        if value is not None:
            condition = ds.field(name) == value
            wanted = condition if wanted is None else wanted & condition
    table = ds.dataset(files, schema=SCHEMA).to_table(columns=list(columns) if columns else None, filter=wanted)
    rows: list[dict[str, Any]] = table.to_pylist(maps_as_pydicts="strict")
    return rows


def cut_rollouts(folder: Path, after_step: int) -> None:
    """Delete the rollouts of the steps after `after_step`: a resumed run writes them again."""
    for step, file in _files(folder):
        if step > after_step:
            file.unlink()


def _file_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step}.parquet"


def _files(folder: Path) -> Iterator[tuple[int, Path]]:
    for file in folder.glob("step-*.parquet"):
        yield int(file.stem.removeprefix("step-")), file


def write_whole(file: Path, content: bytes) -> None:
    """Write the file whole or not at all, in place of what it was."""
    partial = file.with_name(f".{file.name}.partial")
    partial.write_bytes(content)
    os.replace(partial, file)
