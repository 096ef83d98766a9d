"""The JSON forms: what is written is read back, and what is not of the form is refused in one line."""

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.core.programs import Answer, Call, CallExecution, Execution, Limits, Program, UnitExecution, UnitRecord
from strop.sandbox import wire

NAMES = st.text(st.characters(exclude_characters="/\0.", exclude_categories=["Cs"]), min_size=1, max_size=8)
FLOATS = st.floats(0, 1e6)
ABOVE_0 = st.floats(0.001, 1e6)
SIZES = st.integers(1, 2**40)
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
LIMITS = st.builds(
    Limits,
    cpu_s=ABOVE_0,
    wall_s=st.none() | ABOVE_0,
    memory_bytes=SIZES,
    processes=SIZES,
    output_bytes=SIZES,
    disk_bytes=SIZES,
)
PROGRAMS = st.builds(
    Program,
    language=st.text(max_size=8),
    source=st.text(),
    stdin=st.binary(),
    args=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    files=st.dictionaries(NAMES, st.binary(), max_size=3),
    fetch=st.lists(NAMES, max_size=3).map(tuple),
)
EXECUTIONS = st.builds(
    Execution,
    status=st.sampled_from(["ok", "runtime_error", "time_limit", "infra_error"]),
    tier=st.sampled_from(["full", "rootless", "landlock", "unsafe"]),
    exit_code=st.none() | st.integers(-255, 255),
    signal=st.none() | st.integers(1, 64),
    stdout=st.binary(),
    stderr=st.binary(),
    cpu_s=FLOATS,
    wall_s=FLOATS,
    queue_s=FLOATS,
    peak_memory_bytes=st.integers(0, 2**40),
    limit=st.none() | st.sampled_from(["cpu", "wall", "memory"]),
    detail=st.text(),
    files=st.dictionaries(NAMES, st.binary(), max_size=3),
)
CALLS = st.builds(Call, args=st.lists(PLAIN, max_size=3).map(tuple), kwargs=st.dictionaries(NAMES, PLAIN, max_size=2))
ANSWERS = st.builds(Answer, kind=st.sampled_from(["value", "error", "none"]), value=PLAIN, detail=st.text(max_size=8))
RECORDS = st.builds(UnitRecord, name=NAMES, outcome=st.sampled_from(["passed", "failed", "error", "skipped"]))
VALUES = {
    "program": (wire.PROGRAM, PROGRAMS),
    "limits": (wire.LIMITS, LIMITS),
    "execution": (wire.EXECUTION, EXECUTIONS),
    "call": (wire.CALL, CALLS),
    "call_execution": (
        wire.CALL_EXECUTION,
        st.builds(CallExecution, execution=EXECUTIONS, answers=st.lists(ANSWERS, max_size=3).map(tuple)),
    ),
    "unit_execution": (
        wire.UNIT_EXECUTION,
        st.builds(
            UnitExecution,
            tester=EXECUTIONS,
            solution=EXECUTIONS,
            records=st.lists(RECORDS, max_size=3).map(tuple),
            finished=st.booleans(),
        ),
    ),
}
FORMS = [form for form, _ in VALUES.values()] + [wire.RUN_JOB, wire.CALL_JOB, wire.UNIT_JOB, wire.HEALTH]
RUN = {"key": "k", "program": {"language": "python", "source": ""}}


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_what_is_written_is_read_back(name, data):
    form, values = VALUES[name]
    value = data.draw(values)
    assert form.load(form.dump(value)) == value


def test_exact_types_of_arguments_survive():
    call = Call(args=((1, True), [1.0, b"x"], {1: None}), kwargs={"a": (2,)})
    back = wire.CALL.load(wire.CALL.dump(call))
    assert back == call and [type(value) for value in back.args[0]] == [int, bool]
    assert type(back.args[1][0]) is float and type(back.kwargs["a"]) is tuple


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kez": "x"}, "unknown key 'kez'"),
        ({"key": None}, "key must be a string of 1 to 200 characters, got None"),
        ({"key": ""}, "key must be"),
        ({"program": []}, "program must be an object, got a list"),
        ({"program": {"source": ""}}, "key 'program.language' is missing"),
        ({"program": {"language": "python", "source": 3}}, "program.source must be a string, got 3"),
        ({"program": {**RUN["program"], "stdin": "äé"}}, "program.stdin is not base64"),
        ({"program": {**RUN["program"], "args": ["a", 1]}}, "program.args[1] must be a string, got 1"),
        ({"program": {**RUN["program"], "files": {"../x": ""}}}, "file names are relative"),
        ({"program": {**RUN["program"], "sourze": ""}}, "unknown key 'program.sourze'"),
        ({"limits": {"cpu_s": True}}, "limits.cpu_s must be a finite number, got True"),
        ({"limits": {"cpu_s": -1}}, "limits: cpu_s must be a finite number above 0"),
        ({"limits": {"processes": 1.5}}, "limits.processes must be an integer"),
        ({"limits": {"memory_bytes": 2**70}}, "limits.memory_bytes must be an integer of at most 63 bits"),
    ],
)
def test_a_fault_is_one_line_that_names_the_key(change, says):
    with pytest.raises(wire.WireError) as caught:
        wire.RUN_JOB.load(json.dumps({**RUN, **change}).encode())
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b"9" * 5000, b'{"key": NaN}', b'"\\ud800"', b"null"],
    ids=["empty", "cut", "bytes", "deep", "long number", "nan", "surrogate", "null"],
)
def test_what_is_not_json_is_refused(body):
    for form in FORMS:
        with pytest.raises(wire.WireError):
            form.load(body)


def test_arguments_that_are_not_plain_data_are_refused():
    call = {"args": base64.b64encode(b"\x80\x04K\x01.").decode(), "kwargs": "!"}
    for name in call:
        with pytest.raises(wire.WireError, match=name):
            wire.CALL.from_json({name: call[name]})


def test_an_answer_too_large_to_be_written_is_no_answer():
    execution = Execution(status="ok", tier="full")
    value = ["[" * 64] * 5000  # each text is sent as it is, all together have too many brackets
    called = CallExecution(execution=execution, answers=(Answer(kind="value", value=value), Answer(kind="value")))
    answers = wire.CALL_EXECUTION.load(wire.CALL_EXECUTION.dump(called)).answers
    assert [answer.kind for answer in answers] == ["none", "value"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["key", "program", "limits", "language", "source", "stdin", "files", "calls", "cpu_s", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(JSON | st.binary(max_size=50))
def test_any_body_is_read_or_refused(data):
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    for form in FORMS:
        try:
            form.load(body)
        except wire.WireError as error:
            assert "\n" not in str(error)
