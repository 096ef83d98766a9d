"""Preference pairs from a JSONL or Parquet file, from a data set of the `datasets` library, or from rows in memory."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from numbers import Real
from typing import Any, Literal

from strop.core.errors import ConfigError, DataError
from strop.core.pairs import Answer, PreferencePair, is_held_out
from strop.core.types import Message
from strop.tasks.files import read_rows
from strop.tasks.rows import PROMPTS, messages_of

log = logging.getLogger(__name__)


def pairs(
    path: str,
    split: Literal["train", "held_out"] = "train",
    prompt: str = "",
    chosen: str = "chosen",
    rejected: str = "rejected",
    held_out_share: float = 0.1,
    max_pairs: int | None = None,
    dataset_split: str = "train",
) -> Sequence[PreferencePair]:
    """The rows of `path` as pairs, held out by the hash of their prompt.

    A prompt is text or messages; an answer is text, its messages, or the whole conversation with the prompt. Without
    a prompt column the messages that both conversations begin with are the prompt. A column `margin` says by how much
    the chosen one is better. Rows whose answers are equal are left out, and counted in a warning.
    """
    found = (
        pair_of(row, where=where, prompt=prompt, chosen=chosen, rejected=rejected)
        for where, row in read_rows(path, dataset_split)
    )
    return _of_split(found, path, split, held_out_share)[:max_pairs]


def pairs_of_rows(
    rows: Sequence[Mapping[str, Any]], split: Literal["train", "held_out"] = "train", held_out_share: float = 0.1
) -> Sequence[PreferencePair]:
    """Rows with `prompt`, `chosen`, `rejected` and maybe `margin`, held out by the hash of their prompt."""
    found = (pair_of(row, where=f"pair {number}") for number, row in enumerate(rows))
    return _of_split(found, "pairs", split, held_out_share)


def _of_split(
    pairs: Iterable[PreferencePair], where: str, split: str, held_out_share: float
) -> tuple[PreferencePair, ...]:
    if not 0.0 < held_out_share < 1.0:
        raise ConfigError(f"held_out_share must be between 0 and 1, got {held_out_share}")
    found: list[PreferencePair] = []
    num_rows = num_equal = 0
    for pair in pairs:
        num_rows += 1
        if pair.chosen.messages == pair.rejected.messages:
            num_equal += 1
        elif is_held_out(pair.id, held_out_share) == (split == "held_out"):
            found.append(pair)
    if not num_rows:
        raise DataError(f"{where}: holds no row")
    if num_equal:
        log.warning("%s: %d of %d rows are left out: chosen and rejected are equal", where, num_equal, num_rows)
    return tuple(found)


def pair_of(
    row: Mapping[str, Any], *, where: str, prompt: str = "", chosen: str = "chosen", rejected: str = "rejected"
) -> PreferencePair:
    """The pair of one row; DataError, which begins with `where`, says which column is missing or wrong."""
    for name in (chosen, rejected, *([prompt] if prompt else [])):
        if row.get(name) is None:
            raise DataError(f"{where}: no column {name!r}; there are {', '.join(row) or 'none'}")
    column = prompt or next((name for name in PROMPTS if row.get(name) is not None), None)
    if column is not None:
        asked = messages_of(row[column], f"{where}, column {column}")
        answers = [_answer(row[name], asked, f"{where}, column {name}") for name in (chosen, rejected)]
    else:
        asked, answers = _split_conversations(row, (chosen, rejected), where)
    for name, answer in zip((chosen, rejected), answers, strict=True):
        _check_answer(answer, f"{where}, column {name}")
    content = json.dumps([[m.role, m.content] for m in asked], ensure_ascii=False)
    return PreferencePair(
        id=f"pair-{blake2b(content.encode(), digest_size=8).hexdigest()}",
        prompt=tuple(asked),
        chosen=Answer(messages=tuple(answers[0])),
        rejected=Answer(messages=tuple(answers[1])),
        margin=_margin(row.get("margin"), where),
    )


def _answer(value: Any, asked: list[Message], where: str) -> list[Message]:
    if isinstance(value, str):
        return [Message(role="assistant", content=value)]
    messages = messages_of(value, where)
    return messages[len(asked) :] if messages[: len(asked)] == asked else messages


def _split_conversations(
    row: Mapping[str, Any], names: tuple[str, str], where: str
) -> tuple[list[Message], list[list[Message]]]:
    for name in names:
        if isinstance(row[name], str):
            raise DataError(f"{where}: {name} is text, so a prompt is needed too: one of {', '.join(PROMPTS)}")
    first, second = (messages_of(row[name], f"{where}, column {name}") for name in names)
    shared = 0
    while shared < min(len(first), len(second)) and first[shared] == second[shared]:
        shared += 1
    while shared and first[shared - 1].role == "assistant":  # equal so far, and still an answer
        shared -= 1
    if not shared:
        raise DataError(f"{where}: {names[0]} and {names[1]} begin differently; give the prompt they share")
    return first[:shared], [first[shared:], second[shared:]]


def _check_answer(answer: list[Message], where: str) -> None:
    if not answer or answer[-1].role != "assistant" or not answer[-1].content.strip():
        raise DataError(f"{where}: must end with what the assistant says, and not be empty")
    if answer[0].role != "assistant":
        raise DataError(f"{where}: begins with a message of the {answer[0].role}, not with the prompt's messages")


def _margin(value: Any, where: str) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value < 0:
        raise DataError(f"{where}, column margin: must be a number of at least 0, got {value!r}")
    return float(value)
