"""Tasks from rows in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal

from strop.core.errors import DataError
from strop.core.types import Task
from strop.tasks.rows import task_of


@dataclass(frozen=True)
class InMemory:
    """Rows (as tasks/rows.py reads them) or Tasks. A tenth is held out, by the hash of the id.

    Equal rows are one; DataError where two differ and share a prompt, or where two Tasks share an id. A split that
    would be empty takes one task, so that a handful of rows can be tried.
    """

    rows: Sequence[Task | Mapping[str, Any]]
    domain: str
    split: Literal["train", "held_out"] = "train"
    held_out_share: float = 0.1
    _tasks: tuple[Task, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tasks: dict[str, Task] = {}
        for number, row in enumerate(self.rows):
            task = self._task(number, row)
            if task.id in tasks and (isinstance(row, Task) or tasks[task.id] != task):
                raise DataError(
                    f"domain {self.domain!r}, row {number}: another row before it has the same "
                    + (f"id {task.id!r}; give each its own" if isinstance(row, Task) else "prompt; leave one out")
                )
            tasks[task.id] = task
        ranked = sorted(tasks.values(), key=lambda task: blake2b(task.id.encode(), digest_size=8).digest())
        count = max(1, round(self.held_out_share * len(ranked)))
        chosen = ranked[:count] if self.split == "held_out" else ranked[count:]
        object.__setattr__(self, "_tasks", tuple(chosen))

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, index: int) -> Task:
        return self._tasks[index]

    def _task(self, number: int, row: Task | Mapping[str, Any]) -> Task:
        if isinstance(row, Task):
            return replace(row, domain=self.domain)
        return task_of(row, domain=self.domain, where=f"domain {self.domain!r}, row {number}")
