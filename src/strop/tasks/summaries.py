"""Documents to sum up: generated ones of known facts, or a file of the user's with the facts of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from strop.core.errors import DataError
from strop.core.seeds import derive_seed
from strop.core.types import Message, Task
from strop.tasks.files import read_rows
from strop.tasks.generated.documents import Document, Fact, document
from strop.tasks.generated.source import LEVELS, distinct_problems, question_hash, split_of
from strop.tasks.levels import check_level, nearest_level


@dataclass(frozen=True)
class Summaries:
    """Documents with the facts that a summary ought to hold, as the reward `summary` reads them.

    Generated ones have `1 + level` facts. With `path` (JSONL, Parquet or a data set) each row has a `document` and
    `facts`: a list of values (numbers, names, dates), or of tables with a `value` and `cues`, beginnings of words of
    which one must stand in the value's sentence. Its `max_words` may differ from those given here, and its `summary` is
    what an SFT stage teaches. A quarter is held out, by the hash of the document.
    """

    domain: str
    path: str = ""
    level: int = 1
    split: Literal["train", "held_out"] = "train"
    size: int = 1000
    seed: int = 0
    max_words: int = 60
    _tasks: tuple[Task, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_level(self.level, self.levels)
        object.__setattr__(self, "_tasks", tuple(self._read() if self.path else self._draw()))

    @property
    def levels(self) -> tuple[int, ...]:
        """1 alone for documents of a file."""
        return LEVELS[:1] if self.path else LEVELS

    def at_level(self, level: int) -> Summaries:
        return replace(self, level=nearest_level(level, self.levels))

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, index: int) -> Task:
        return self._tasks[index]

    def _draw(self) -> list[Task]:
        draw = Random(derive_seed(self.seed, "summaries", self.level, self.split))
        found = distinct_problems(lambda: document(draw, self.level), self.size, self.split)
        return [self._task(drawn, drawn.max_words) for drawn in found]

    def _read(self) -> list[Task]:
        found: dict[str, Task] = {}
        empty = True
        for where, row in read_rows(self.path):
            empty = False
            task = self._task(_document(row, where), _max_words(row, self.max_words, where))
            if split_of(task.data["document"]) == self.split:  # type: ignore[arg-type]
                found.setdefault(task.id, task)
        if empty:
            raise DataError(f"{self.path}: holds no row")
        return list(found.values())[: self.size]

    def _task(self, read: Document, max_words: int) -> Task:
        facts = [{"value": fact.value, "cues": list(fact.cues)} for fact in read.facts]
        taught = {"response": read.summary} if read.summary else {}
        return Task(
            id=f"summary-{question_hash(read.text)}",
            domain=self.domain,
            prompt=(Message(role="user", content=f"Sum up in at most {max_words} words: {read.text}"),),
            reference={"facts": facts, "max_words": max_words},
            level=self.level,
            data={"document": read.text, **taught},
        )


def _document(row: Mapping[str, Any], where: str) -> Document:
    text, facts, summary = row.get("document"), row.get("facts"), row.get("summary")
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where}: needs a document, which must be text and not empty; there are {', '.join(row)}")
    if isinstance(facts, str) or not isinstance(facts, Sequence) or not facts:
        raise DataError(f"{where}: facts must be a list of at least one value, got {facts!r:.60}")
    return Document(text, tuple(_fact(fact, where) for fact in facts), summary if isinstance(summary, str) else "")


def _fact(given: Any, where: str) -> Fact:
    value, cues = (given.get("value"), given.get("cues") or ()) if isinstance(given, Mapping) else (given, ())
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise DataError(f"{where}: a fact must be a number or text, or a table with such a value, got {given!r:.60}")
    if isinstance(cues, str) or not all(isinstance(cue, str) and cue for cue in cues):
        raise DataError(f"{where}: cues must be a list of texts, got {cues!r:.60}")
    return Fact(str(value), tuple(cues))


def _max_words(row: Mapping[str, Any], default: int, where: str) -> int:
    given = row.get("max_words")
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
        raise DataError(f"{where}: max_words must be a whole number of at least 1, got {given!r:.60}")
    return given or default
