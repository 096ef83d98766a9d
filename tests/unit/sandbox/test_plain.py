"""Plain data survives as bytes exactly; any other value or bytes give a PlainError, soon."""

import contextlib
import json
import math
import time
from collections import Counter, OrderedDict, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.sandbox.inside.plain import PlainError, decode, encode

SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(st.characters(codec=None), max_size=4),
    st.binary(max_size=4),
    st.complex_numbers(allow_nan=False),
)
HASHABLE = SCALAR | st.tuples(SCALAR, SCALAR) | st.frozensets(SCALAR, max_size=3)
PLAIN = st.recursive(
    HASHABLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.sets(HASHABLE, max_size=3),
    ),
    max_leaves=8,
)


def typed(value):
    """With every type written out, and -0.0 told from 0.0."""
    kind = type(value)
    if kind in (list, tuple):
        return kind, [typed(v) for v in value]
    if kind in (set, frozenset):
        return kind, sorted(map(repr, map(typed, value)))
    if kind is dict:
        return kind, [(typed(k), typed(v)) for k, v in value.items()]
    return kind, repr(value)


@given(PLAIN)
def test_a_round_trip_keeps_values_and_types(value):
    assert typed(decode(encode(value))) == typed(value)


@pytest.mark.parametrize(
    "value",
    [
        10**5000,
        -(2**63),
        2**63 - 1,
        -0.0,
        math.inf,
        "a\ud800b",
        "\ud83d\ude00",  # two halves that must not become one character
        "[{" * 5000,
        "日本" * 1000,
        {1: "a", (2,): {b"\0\xff"}, None: frozenset([1.5])},
        [None, True, 1.0],
        list(range(100_000)),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "int",
)
def test_hard_values(value):
    assert typed_big(decode(encode(value))) == typed_big(value)


def typed_big(value):
    return (int, hex(value)) if type(value) is int else typed(value)


def test_not_a_number_stays_one():
    assert math.isnan(decode(encode(math.nan)))


def test_dicts_in_all_but_name_are_dicts():
    for value in (Counter("aab"), OrderedDict(a=2, b=1), defaultdict(int, a=2, b=1)):
        assert type(decode(encode(value))) is dict
        assert decode(encode(value)) == {"a": 2, "b": 1}


class LyingInt(int):
    def __repr__(self):
        return "7"


class LyingStr(str):
    __slots__ = ()


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def cyclic():
    value = []
    value.append(value)
    return value


def shared(levels):
    value = [0]
    for _ in range(levels):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "value",
    [object(), LyingInt(3), LyingStr("x"), [LyingInt(3)], {LyingStr("x"): 1}, (i for i in ()), lambda: 0, range(3)],
)
def test_what_is_not_exactly_plain_is_refused(value):
    with pytest.raises(PlainError):
        encode(value)


@pytest.mark.parametrize(
    "value",
    [deep(101), deep(100_000), cyclic(), shared(90), [0] * 10**7, "x" * (5 << 20), ["x" * 10**6] * 10**4],
    ids=["deep", "very deep", "cyclic", "shared", "long", "text", "repeated"],
)
def test_what_is_too_large_is_refused_soon(value):
    started = time.process_time()
    with pytest.raises(PlainError):
        encode(value)
    assert time.process_time() - started < 2


def test_a_hundred_levels_pass():
    value = 0
    for _ in range(99):
        value = {1: (value,)} if _ < 49 else value
    assert decode(encode(value)) == value
    assert decode(encode(deep(99))) == deep(99)


@given(st.binary())
def test_arbitrary_bytes_give_a_value_or_the_error(data):
    with contextlib.suppress(PlainError):
        decode(data)


JSON_TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("tsfdibucx?"), inner, max_size=2),
)


@given(JSON_TREES)
def test_arbitrary_trees_give_a_value_or_the_error(tree):
    with contextlib.suppress(PlainError):
        decode(json.dumps(tree).encode())


COLLIDING = {"s": [{"i": hex(k * (2**61 - 1))} for k in range(1, 60_000)]}


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 1_000_000,
        b'{"a":1,"a":' * 1000,
        b"[" * 90_000 + b"]" * 90_000,
        b'"' + b'\\"' * 1_000_000,
        b"[" + b"[]," * 300_000 + b"[]]",
        b"9" * 4_000_000,
        b'{"i":"' + b"z" * 100 + b'"}',
        b'{"t":5}',
        b'{"s":[[]]}',
        b'{"d":[1]}',
        b'{"c":[1,2,3]}',
        b'{"x":1}',
        b"\xff\xfe",
        json.dumps(COLLIDING).encode(),
        json.dumps({"d": [x for key in COLLIDING["s"] for x in (key, 0)]}).encode(),
    ],
    ids=range(15),
)
def test_hostile_bytes_are_refused_soon(data):
    started = time.process_time()
    with pytest.raises(PlainError):
        decode(data)
    assert time.process_time() - started < 2


def test_sizes_are_bounded_unless_they_are_ours():
    data = encode("x" * 1000)
    with pytest.raises(PlainError):
        decode(data, max_bytes=1000)
    many = [[n] for n in range(140_000)]
    with pytest.raises(PlainError):
        encode(many)
    assert decode(encode(many, max_bytes=None), max_bytes=None) == many


@settings(max_examples=30)
@given(st.lists(st.integers()))
def test_objects_may_stand_for_themselves(numbers):
    class Ticket:
        def __init__(self, number):
            self.number = number

    data = encode([Ticket(n) for n in numbers], foreign=lambda value: ("ticket", value.number))
    back = decode(data, foreign=lambda payload: Ticket(payload[1]))
    assert [ticket.number for ticket in back] == numbers
