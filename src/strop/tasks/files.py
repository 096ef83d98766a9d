"""Tasks from a JSONL or Parquet file, or from a data set of the `datasets` library (a hub id, or its local folder)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from strop.core.errors import ConfigError, DataError
from strop.core.types import Task
from strop.tasks.rows import task_of


@dataclass(frozen=True)
class Files:
    """The rows of `path` as tasks. A row is held out by the hash of its prompt, so equal prompts never straddle.

    `prompt` and `reference` name columns where they are not recognised (see tasks/rows.py); `dataset_split` is the
    split of a hub data set. Rows that repeat a prompt are left out.
    """

    path: str
    domain: str
    split: Literal["train", "held_out"] = "train"
    prompt: str = ""
    reference: str = ""
    held_out_share: float = 0.1
    max_tasks: int | None = None
    dataset_split: str = "train"
    _tasks: tuple[Task, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0.0 < self.held_out_share < 1.0:
            raise ConfigError(f"held_out_share must be between 0 and 1, got {self.held_out_share}")
        found: dict[str, Task] = {}
        empty = True
        for where, row in read_rows(self.path, self.dataset_split):
            empty = False
            task = task_of(row, domain=self.domain, where=where, prompt=self.prompt, reference=self.reference)
            if self._is_held_out(task) == (self.split == "held_out"):
                found.setdefault(task.id, task)
        if empty:
            raise DataError(f"{self.path}: holds no row")
        object.__setattr__(self, "_tasks", tuple(found.values())[: self.max_tasks])

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, index: int) -> Task:
        return self._tasks[index]

    def _is_held_out(self, task: Task) -> bool:
        return int(task.id.rpartition("-")[2], 16) / 2**64 < self.held_out_share


def read_rows(path: str, dataset_split: str = "train") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each row with where it stands. DataError names the file and line that cannot be read."""
    file = Path(path)
    if file.suffix in (".jsonl", ".json", ".parquet") and not file.is_file():
        raise DataError(f"{path}: no such file")
    if file.suffix in (".jsonl", ".json"):
        yield from _json_lines(file)
    elif file.suffix == ".parquet":
        yield from _parquet(file)
    elif file.is_file():
        raise DataError(f"{path}: neither .jsonl nor .parquet; convert it to one of them")
    else:
        yield from _dataset(path, dataset_split)


def _json_lines(file: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            where = f"{file}, line {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{where}: not valid JSON, one object a line: {error}") from error
            if not isinstance(row, dict):
                raise DataError(f"{where}: must be one JSON object a line, got {type(row).__name__}")
            yield where, row


def _parquet(file: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        rows = pq.read_table(file).to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{file}: not a Parquet file: {error}") from error
    for number, row in enumerate(rows, start=1):
        yield f"{file}, row {number}", row


def _dataset(path: str, split: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        import datasets
    except ImportError as error:
        raise ConfigError(f"{path}: hub data sets need datasets: pip install 'strop[datasets]'") from error
    try:
        found = datasets.load_dataset(path, split=split)
    except Exception as error:
        raise DataError(f"{path}: no file of that name, and datasets gave {type(error).__name__}: {error}") from error
    for number, row in enumerate(found, start=1):
        yield f"{path}, row {number}", row
