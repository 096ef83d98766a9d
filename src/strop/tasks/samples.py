"""A user's rows in one form, each named by the hash of its content, and which of them repeat others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

from strop.core.errors import DataError
from strop.core.types import Message
from strop.tasks.files import read_rows
from strop.tasks.near_duplicates import near_duplicates, words_of
from strop.tasks.pairs import pair_of
from strop.tasks.rows import PROMPTS, REFERENCES, RESPONSES, task_of

Kind = Literal["tasks", "pairs"]
OWN = ("id", "prompt", "answer", "completion", "chosen", "rejected", "margin")  # columns with a meaning of ours
ANSWERS = ("answer", "completion", "chosen", "rejected")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One row. `row` is JSON in the normalised columns; its `id` is the hash of all the rest of it.

    `prompt_id` is the hash that the id of the Task (or pair) ends with, which records and checkpoints name.
    """

    kind: Kind
    where: str
    prompt_id: str
    row: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def prompt_text(self) -> str:
        """What the user says, of all turns."""
        return "\n".join(str(m["content"]) for m in self.row["prompt"] if m["role"] == "user")

    @property
    def answer_text(self) -> str:
        """What the row says is right, or teaches, or prefers."""
        return json.dumps([self.row[name] for name in ANSWERS if name in self.row], ensure_ascii=False, sort_keys=True)

    @property
    def all_text(self) -> str:
        """Every text of prompt and answers, one a line."""
        values = [self.row[name] for name in ("prompt", *ANSWERS) if name in self.row]
        return "\n".join(text for value in values for text in _texts(value))


@dataclass(frozen=True, kw_only=True, slots=True)
class Removed:
    """A sample that was left out, why, and where that stands which it repeats."""

    sample: Sample
    reason: str
    of: str
    share: float


def _texts(value: Any) -> list[str]:
    """A text, or the contents of messages; nothing of other JSON."""
    if isinstance(value, str):
        return [value]
    entries = value if isinstance(value, list) else []
    return [str(entry["content"]) for entry in entries if isinstance(entry, Mapping) and "content" in entry]


def read_samples(path: str, *, kind: Kind | None = None, prompt: str = "", reference: str = "") -> list[Sample]:
    """The rows of a JSONL or Parquet file; DataError names the line and what is wrong with it.

    Rows with `chosen` and `rejected` are pairs unless `kind` says otherwise; one file has one kind.
    """
    samples: list[Sample] = []
    for where, row in read_rows(path):
        sample = sample_of(row, where, kind=kind, prompt=prompt, reference=reference)
        if samples and sample.kind != samples[0].kind:
            raise DataError(
                f"{where}: is of the kind {sample.kind} and {samples[0].where} of the kind {samples[0].kind}; "
                "put them in files of their own, or give --kind"
            )
        samples.append(sample)
    if not samples:
        raise DataError(f"{path}: holds no row")
    return samples


def sample_of(
    row: Mapping[str, Any], where: str, *, kind: Kind | None = None, prompt: str = "", reference: str = ""
) -> Sample:
    """`prompt` becomes messages; the reference `answer`; what is taught `completion`; other columns stay as they are.

    A column that stands in the way of one of ours is kept as `original_NAME`; one that is null is left out.
    """
    row = {name: value for name, value in row.items() if value is not None}
    _check_json(row, where)
    if kind is None:
        kind = "pairs" if "chosen" in row and "rejected" in row else "tasks"
    if kind == "pairs":
        prompt_id, ours, used = _pair_columns(row, where, prompt)
    else:
        prompt_id, ours, used = _task_columns(row, where, prompt, reference)
    rest = {name: value for name, value in row.items() if name not in used}
    for name in [name for name in rest if name in OWN]:
        if name == "id" and rest["id"] == content_hash(row):  # made by us before
            rest.pop("id")
        else:
            rest[f"original_{name}"] = rest.pop(name)
    whole = {**ours, **rest}
    return Sample(kind=kind, where=where, prompt_id=prompt_id, row={"id": content_hash(whole), **whole})


def content_hash(row: Mapping[str, Any]) -> str:
    """Of everything in a row but its `id`, whatever the order of its columns."""
    content = {name: value for name, value in row.items() if name != "id"}
    text = json.dumps(content, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _task_columns(
    row: Mapping[str, Any], where: str, prompt: str, reference: str
) -> tuple[str, dict[str, Any], set[str]]:
    task = task_of(row, domain="d", where=where, prompt=prompt, reference=reference)
    asked = next((name for name in ((prompt,) if prompt else PROMPTS) if name in row), "messages")
    wanted = next((name for name in ((reference,) if reference else REFERENCES) if name in row), None)
    answered = next((name for name in RESPONSES if name in row), None) if asked != "messages" else None
    ours: dict[str, Any] = {"prompt": _raw(row[asked], task.prompt, first=True)}
    if wanted is not None:
        ours["answer"] = row[wanted]
    if "response" in task.data and (answered is not None or asked == "messages"):
        ours["completion"] = task.data["response"]
    used = {asked, *([wanted] if wanted else []), *([answered] if answered else [])}
    return task.id.rpartition("-")[2], ours, used


def _pair_columns(row: Mapping[str, Any], where: str, prompt: str) -> tuple[str, dict[str, Any], set[str]]:
    pair = pair_of(row, where=where, prompt=prompt)
    asked = next((name for name in ((prompt,) if prompt else PROMPTS) if name in row), None)
    given = row[asked] if asked is not None else row["chosen"]
    ours: dict[str, Any] = {"prompt": _raw(given, pair.prompt, first=True)}
    for name, answer in (("chosen", pair.chosen), ("rejected", pair.rejected)):
        ours[name] = _raw(row[name], answer.messages, first=False)
    if "margin" in row:
        ours["margin"] = row["margin"]
    return pair.id.rpartition("-")[2], ours, {"chosen", "rejected", "margin", *([asked] if asked else [])}


def _raw(value: Any, messages: Sequence[Message], *, first: bool) -> list[Any]:
    """`messages` as they stand in `value`, at its start or its end, with whatever else their entries hold."""
    if isinstance(value, str):
        return [{"role": m.role, "content": m.content} for m in messages]
    return list(value[: len(messages)] if first else value[-len(messages) :])


def _check_json(row: Mapping[str, Any], where: str) -> None:
    for name, value in row.items():
        try:
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"{where}, column {name}: cannot be written as JSON ({error}); make it text") from error


def without_duplicates(samples: Iterable[Sample], near: float) -> tuple[list[Sample], list[Removed]]:
    """What is kept, the first of equals, and what is not: equal in the words of prompt and answer, or nearly.

    Near is a Jaccard similarity of word shingles of the prompts of at least `near` (0: only equal ones are removed)
    where numbers and answers are equal; see near_duplicates. One prompt with two answers is kept once, the first.
    """
    kept: list[Sample] = []
    removed: list[Removed] = []
    by_prompt: dict[str, Sample] = {}
    by_words: dict[tuple[str, ...], Sample] = {}
    for sample in samples:
        words = (*words_of(sample.prompt_text), "\0", sample.answer_text)
        again = by_prompt.get(sample.prompt_id) if sample.kind == "tasks" else None
        if words in by_words:
            removed.append(Removed(sample=sample, reason="duplicate", of=by_words[words].where, share=1.0))
        elif again is not None:
            removed.append(Removed(sample=sample, reason="same prompt, another answer", of=again.where, share=1.0))
        else:
            by_prompt[sample.prompt_id] = by_words[words] = sample
            kept.append(sample)
    if near == 0 or not kept:
        return kept, removed
    found = near_duplicates([s.prompt_text for s in kept], near, [s.answer_text for s in kept])
    for match in found:
        of = kept[match.of].where
        removed.append(Removed(sample=kept[match.index], reason="near-duplicate", of=of, share=match.similarity))
    gone = {match.index for match in found}
    return [sample for number, sample in enumerate(kept) if number not in gone], removed
