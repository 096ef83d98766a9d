"""Outputs and values: what counts as the same."""

import itertools
import math
import time

import pytest

from strop.sandbox.compare import same_output, same_value


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ("done\n\n\n", "done"),
        ("7", "7\n"),
        ("a\nb\n", "a\r\nb\r\n"),
        ("a\r\nb", "a\nb\n"),
        ("a \t\nb  ", "a\nb"),
        ("", "\n\n"),
        ("\n\n", ""),
        ("a\n\nb", "a\n\nb"),
        ("  a", "  a"),
        ("café 日本", "café 日本\n"),
        ("nan", "nan"),
    ],
)
def test_same_lines(got, expected):
    assert same_output(got.encode(), expected)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ("1\n1\n2\n", "1 1 2\n"),
        ("YES", "Yes"),
        ("3\n4\n", "3\n4\n5\n"),
        ("3\n4\n5\n6\n", "3\n4\n5\n"),
        (" a", "a"),
        ("a\n\nb", "a\nb"),
        ("\n3", "3"),
        ("", "0"),
        ("\n", "\n3"),
        ("1  2", "1 2"),
        ("14\u00a0", "14"),
        ("\u200b14", "14"),
        ("\ufeff14", "14"),
        ("١٤", "14"),
        ("1_4", "14"),
        ("14\0", "14"),
        ("13\b4", "14"),
        ("14.0", "14"),
        ("1e1", "10"),
    ],
)
def test_other_lines(got, expected):
    assert not same_output(got.encode(), expected)


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ("0.3333333333333333", "0.333333", True),
        ("1e3", "1000.0", True),
        ("1000000008", "1000000007", False),
        ("+5 -0 007", "5 0 7", True),
        ("3", "3.0", True),
        ("1\n2.0000001", "1 2.0", True),
        ("1.0 2.0", "1.0", False),
        ("1.0", "1.0 2.0", False),
        ("1.00001", "1.0", False),
        ("1000000.5", "1000000.0", True),
        ("nan", "1.0", False),
        ("nan", "NaN", False),
        ("inf", "1e308", False),
        ("1e400", "inf", False),
        ("1e999999999", "1e999999999", True),
        ("1e999999999", "1.0", False),
        ("1_4.0", "14.0", False),
        ("١٤.0", "14.0", False),
        ("sNaN", "14.0", False),
        ("0x0e", "14.0", False),
        ("1.", "1.0", True),
        (".5", "0.5", True),
        (".", "0.0", False),
        ("e5", "0.0", False),
        ("yes 1.0000000001", "yes 1.0", True),
        ("", "", True),
    ],
)
def test_tokens_within_a_tolerance(got, expected, same):
    assert same_output(got.encode(), expected, 1e-6) is same


def test_large_outputs_take_linear_time():
    started = time.process_time()
    assert not same_output(b"1" * 4_000_000, "1.5 " * 10, 1e-6)
    assert not same_output(b" " * 4_000_000 + b"x", "y")
    assert not same_output(b"\n" * 4_000_000 + b"x", "y")
    assert not same_output(b"\xff\xfe\0" * 1_000_000, "y", 1e-6)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        (False, None, False),
        (None, None, True),
        (0, None, False),
        (True, 1, False),
        (1, True, False),
        (True, True, True),
        (1, 1.0, True),
        (1.0, 1, True),
        ("1", 1, False),
        (b"a", "a", False),
        ((1, 2), [1, 2], True),
        ([(1, 2)], [[1, 2]], True),
        ([1, 2], (1, 2), False),
        ([1], [1, 2], False),
        ([1, 2], [1], False),
        ({1: "a"}, {"1": "a"}, True),
        ({1: "a"}, {"2": "a"}, False),
        ({"1": "a", 1: "b"}, {"1": "a"}, False),
        ({1: "a"}, {True: "a"}, False),
        ({True: "a"}, {"1": "a"}, False),
        ({True: "a"}, {1: "a"}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({1, 2}, [1, 2], False),
        (frozenset({1}), {1}, True),
        ({True}, {1}, False),
        (math.nan, math.nan, False),
        (math.inf, math.inf, True),
        (2**53 + 1, 2**53 + 1, True),
        (2**53, 2**53 + 1, False),
        (10**5000, 10**5000, True),
        (10**5000, 1.5, False),
        ("é", "é", True),
        (1 + 2j, 1 + 2j, True),
    ],
    ids=itertools.count(),
)
def test_values(got, expected, same):
    assert same_value(got, expected) is same


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ([1 / 3, 0.5], [0.3333333333, 0.5], True),
        ([1 / 3, 2 / 3], [0.3333333333, 0.5], False),
        (1000000008, 1000000007, False),
        (3, 3.0000000001, True),
        (1e12 + 1, 1e12, True),
        (math.nan, 1.0, False),
        (math.inf, 1.0, False),
        (10**400, 1.0, False),
        (True, 1.0000000001, False),
        ({"a": 0.1 + 0.2}, {"a": 0.3}, True),
    ],
    ids=itertools.count(),
)
def test_values_within_a_tolerance(got, expected, same):
    assert same_value(got, expected, 1e-6) is same
