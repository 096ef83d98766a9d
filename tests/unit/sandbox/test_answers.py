"""Whatever bytes a job writes on its answer pipe, the reader gives answers and never raises."""

import json
import struct

from hypothesis import given
from hypothesis import strategies as st

from strop.core.programs import Answer, UnitRecord
from strop.sandbox.answers import FINISHED, LOAD, UNREADABLE, read_answers, read_records
from strop.sandbox.inside.plain import encode


def frame(index, payload):
    return struct.pack("<II", index, len(payload)) + payload


def value(index, content):
    return frame(index, b"v" + encode(content))


LOADED = value(LOAD, None)


def test_answers_in_order():
    data = LOADED + value(0, (1, 2)) + frame(1, b"eKeyError: 'k'") + frame(2, b"nended by signal 9")
    load, answers = read_answers(data, 3)
    assert load == Answer(kind="value")
    assert answers == (
        Answer(kind="value", value=(1, 2)),
        Answer(kind="error", detail="KeyError: 'k'"),
        Answer(kind="none", detail="ended by signal 9"),
    )


def test_the_first_frame_of_an_index_wins_and_gaps_are_empty():
    data = value(2, "c") + value(0, "a") + value(2, "forged") + value(0, "forged") + value(7, "beyond")
    load, answers = read_answers(data, 3)
    assert load is None
    assert [(a.kind, a.value) for a in answers] == [("value", "a"), ("none", None), ("value", "c")]


def test_a_frame_that_is_cut_off_is_no_answer():
    whole = LOADED + value(0, [1] * 50)
    for end in range(len(LOADED), len(whole)):
        assert read_answers(whole[:end], 1)[1] == ()


def test_junk_lengths_and_payloads():
    huge = struct.pack("<II", 0, 2**32 - 1) + b"v1"
    assert read_answers(huge, 1) == (None, ())
    _, [answer] = read_answers(frame(0, b"v" + b"[" * 100_000), 1)
    assert answer.kind == "none" and answer.detail.startswith(UNREADABLE)
    _, [answer] = read_answers(frame(0, b""), 1)
    assert answer.kind == "none"
    _, [answer] = read_answers(frame(0, b"e\xff\xfe"), 1)
    assert answer.kind == "error"


FRAMES = st.lists(
    st.tuples(st.integers(0, 5) | st.just(LOAD) | st.integers(0, 2**32 - 1), st.binary(max_size=30)).map(
        lambda pair: frame(*pair)
    )
    | st.tuples(st.integers(0, 5), st.integers() | st.text()).map(lambda pair: value(*pair))
    | st.binary(max_size=20)
).map(b"".join)


@given(st.binary() | FRAMES, st.integers(0, 6))
def test_any_bytes_give_at_most_the_calls(data, num_calls):
    _, answers = read_answers(data, num_calls)
    assert len(answers) <= num_calls
    assert all(answer.kind in ("value", "error", "none") for answer in answers)
    read_records(data)


def record(index, **content):
    return frame(index, json.dumps(content).encode())


def test_records():
    data = record(0, name="a", outcome="passed", detail="") + record(1, name="b", outcome="failed", detail="line 3")
    found = (UnitRecord(name="a", outcome="passed"), UnitRecord(name="b", outcome="failed", detail="line 3"))
    assert read_records(data) == (found, False)
    assert read_records(data + frame(FINISHED, b"{}")) == (found, True)


def test_records_that_are_none_end_the_reading():
    good = record(0, name="a", outcome="passed", detail="")
    for bad in (
        record(1, name="b", outcome="PASSED", detail=""),
        record(1, name=3, outcome="passed", detail=""),
        record(1, name="b", outcome="passed"),
        frame(1, b"[" * 60_000),
        frame(1, b"\xff"),
        frame(1, b" " * 70_000),
    ):
        records, finished = read_records(good + bad + frame(FINISHED, b"{}"))
        assert [r.name for r in records] == ["a"] and not finished
