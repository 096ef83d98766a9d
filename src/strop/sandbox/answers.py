"""Reads what jobs wrote on their answer pipes. Total: any bytes give answers, empty ones where nothing is readable."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

from strop.core.programs import Answer, UnitRecord
from strop.sandbox.inside.plain import PlainError, decode

LOAD = FINISHED = 0xFFFFFFFF  # the index of the frame about the loading of calls, and of the last frame of records
MAX_RECORDS = 100_000
MAX_RECORD_BYTES = 1 << 16
UNREADABLE = "answered with what cannot be read: "  # a call that returned, but no plain data
_HEADER = struct.Struct("<II")
_OUTCOMES = ("passed", "failed", "error", "skipped")


def read_answers(data: bytes, num_calls: int) -> tuple[Answer | None, tuple[Answer, ...]]:
    """How the loading went (None: not said), and the answers of the first calls up to the last one that has any.

    The first frame of an index counts. A call without one, before a later one that has one, gave none.
    """
    load: Answer | None = None
    found: dict[int, Answer] = {}
    for index, payload in _frames(data):
        if index == LOAD:
            load = load or _answer(payload)
        elif index < num_calls and index not in found:
            found[index] = _answer(payload)
    missing = Answer(kind="none", detail="no answer")
    return load, tuple(found.get(index, missing) for index in range(max(found, default=-1) + 1))


def read_records(data: bytes) -> tuple[tuple[UnitRecord, ...], bool]:
    """The tests that were recorded, in order, and whether the tester said that it ran to its end."""
    records: list[UnitRecord] = []
    for index, payload in _frames(data):
        if index == FINISHED:
            return tuple(records), True
        record = _record(payload)
        if record is None or len(records) == MAX_RECORDS:
            break
        records.append(record)
    return tuple(records), False


def _frames(data: bytes) -> Iterator[tuple[int, memoryview]]:
    view, offset = memoryview(data), 0
    while offset + _HEADER.size <= len(data):
        index, length = _HEADER.unpack_from(data, offset)
        offset += _HEADER.size
        if offset + length > len(data):
            return
        yield index, view[offset : offset + length]
        offset += length


def _answer(payload: memoryview) -> Answer:
    letter, content = bytes(payload[:1]), payload[1:]
    if letter == b"v":
        try:
            return Answer(kind="value", value=decode(bytes(content)))
        except PlainError as error:
            return Answer(kind="none", detail=UNREADABLE + str(error))
    detail = bytes(content[:2000]).decode("utf-8", "replace")
    return Answer(kind="error" if letter == b"e" else "none", detail=detail)


def _record(payload: memoryview) -> UnitRecord | None:
    if len(payload) > MAX_RECORD_BYTES:
        return None
    try:
        found = json.loads(bytes(payload).decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(isinstance(found.get(key), str) for key in ("name", "outcome", "detail")):
        return None
    if found["outcome"] not in _OUTCOMES:
        return None
    return UnitRecord(name=found["name"], outcome=found["outcome"], detail=found["detail"])
