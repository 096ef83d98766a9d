"""Asserts of one function become cases; anything that says more stays a test."""

import math

import pytest

from strop.sandbox.lift import lift


def one(test, value, entry_point="f"):
    [case] = lift(test, entry_point).cases
    return case.holds(value)


@pytest.mark.parametrize(
    ("test", "right", "wrong"),
    [
        ("assert f(1) == 2", 2, 3),
        ("assert f(1) == 2", 2.0, None),
        ("assert 2 == f(1)", 2, 1),
        ("assert f(1) == [1, (2, 'a')]", [1, (2, "a")], [1, [2, "a"]]),
        ("assert f(1) == (1, 2)", (1, 2), [1, 2]),
        ("assert f(1) == {'a': {1}, None: b'x'}", {"a": {1}, None: b"x"}, {}),
        ("assert f(1) == -1.5e3", -1500, 1500),
        ("assert f(1) is None", None, False),
        ("assert f(1) is True", True, 1),
        ("assert f(1) is not None", 0, None),
        ("assert f(1)", [0], []),
        ("assert not f(1)", "", "x"),
        ("assert f(1) != 3", 4, 3),
        ("assert f(1) < 3", 2, 3),
        ("assert f(1) < 3", 2, "2"),
        ("assert f(1) in (1, 2)", 2, 3),
        ("assert 3 in f(1)", [3], [2]),
        ("assert 3 in f(1)", {3}, 3),
        ("assert abs(f(1) - 0.3) < 1e-6", 0.1 + 0.2, 0.31),
        ("assert abs(f(1) - 0.3) < 1e-6", 0.3, math.nan),
        ("assert abs(0.3 - f(1)) <= 1e-6", 0.3, "0.3"),
        ("import math\nassert math.isclose(f(1), 0.3)", 0.1 + 0.2, 0.4),
        ("import math\nassert math.isclose(f(1), 0.3, rel_tol=0.1)", 0.31, 0.4),
        ("assert round(f(1), 2) == 0.33", 1 / 3, 0.5),
        ("assert sorted(f(1)) == [1, 2]", [2, 1], [1, "a"]),
        ("assert set(f(1)) == {1, 2}", [2, 1, 1], 5),
        ("assert len(f(1)) == 2", "ab", 2),
        ("assert list(f(1)) == [1]", (1,), {2}),
        ("assert f(1) == 2**3", 8, 6),
        ("assert f(1) == [0] * 3 + [1]", [0, 0, 0, 1], [0]),
        ("assert f(1) == 'ab' * 2", "abab", "ab"),
        ("assert f(1) == set()", set(), {}),
        ("assert f(1) == set([1, 2])", {1, 2}, [1, 2]),
        ("assert f(1) == tuple([1])", (1,), [1]),
        ("assert f(1) == float('inf')", math.inf, 1.0),
        ("assert f(1) == math.inf", math.inf, 1.0),
        ("assert f(1) == 1 + 2j", 1 + 2j, 1),
        ("assert f(1) == 2, 'message'", 2, 3),
    ],
)
def test_what_an_assert_says(test, right, wrong):
    assert one(test, right)
    assert not one(test, wrong)


def test_arguments():
    [case] = lift("assert f(-1, [2, (3,)], {'a': {4}}, key=None, n=10**3) == 0", "f").cases
    assert case.call.args == (-1, [2, (3,)], {"a": {4}})
    assert case.call.kwargs == {"key": None, "n": 1000}


HUMANEVAL = """

METADATA = {'author': 'x', 'dataset': 'test'}


def check(candidate):
    "docstring"
    # Simple cases
    assert candidate([1, 2]) == 3, "message"
    assert candidate([]) == 0
    assert True, "This prints if this assert fails 1 (good for debugging!)"

"""


def test_the_form_of_human_eval():
    found = lift(HUMANEVAL, "add")
    assert found.entry_point == "add"
    assert [case.call.args for case in found.cases] == [([1, 2],), ([],)]
    assert len(lift(HUMANEVAL + "check(add)\n", "add").cases) == 2
    assert lift(HUMANEVAL, None) is None
    assert lift(HUMANEVAL + "check(other)\n", "add") is None


def test_the_function_may_be_found():
    found = lift("assert inc(1) == 2\nassert inc(2) == 3\n", None)
    assert found.entry_point == "inc" and len(found.cases) == 2
    assert lift("assert sorted(g(1)) == [1]", None).entry_point == "g"
    assert lift("assert inc(1) == 2\nassert dec(2) == 1\n", None) is None


def test_functions_of_tests_and_what_stands_around_them():
    tests = (
        "import math\nfrom solution import f\nfrom typing import List\n\ndef test_one():\n    assert f(1) == 2\n\n"
        "def test_two():\n    assert f(2) == 3\n\nif __name__ == '__main__':\n    test_one()\n"
    )
    assert len(lift(tests, "f").cases) == 2


@pytest.mark.parametrize(
    "tests",
    [
        "",
        "x = 1\nassert f(x) == 1",
        "assert f(f(1)) == 1",
        "assert f(1) == f(1)",
        "assert f(1) == g(1)",
        "assert g(1) == 1",
        "assert f(1) is 1000",
        "assert f(1) is []",
        "assert f(*[1]) == 1",
        "assert f(**{'a': 1}) == 1",
        "assert f(lambda x: x) == 1",
        "assert f(1) == 1 == 1",
        "assert f(1) and True",
        "assert f(1).x == 1",
        "assert f(1)[0] == 1",
        "assert solution.f(1) == 1",
        "assert [f(x) for x in (1, 2)] == [1, 2]",
        "for x in (1, 2):\n    assert f(x) == x",
        "assert f(1) == 1\nprint('x')",
        "assert f(1) == 1\nassert False",
        "from random import choice\nassert f(1) == 1",
        "from math import floor as f\nassert f(1) == 1",
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(1), 1)",
        "def test_one(fixture):\n    assert f(1) == 1",
        "@skip\ndef test_one():\n    assert f(1) == 1",
        "def f(x):\n    return 1\nassert f(1) == 1",
        "try:\n    f(1)\nexcept ValueError:\n    pass",
        "assert f(1) == 9**9**9",
        "assert f(1) == [0] * 10**9",
        "assert f(1) == bytes(10**10)",
        "assert f(1) == {[]}",
        "assert f(1) == 1 / 0",
        "assert f(1) == ...",
        "assert f(1) == f'{1}'",
        "assert f(... ) == 1",
        "def broken(",
        "assert " + "(" * 300 + "f(1)" + ")" * 300,
        "assert f(" + "-" * 100_000 + "1) == 1",
    ],
)
def test_what_is_not_lifted(tests):
    assert lift(tests, "f") is None


def test_hostile_values_are_only_wrong():
    colliding = [k * (2**61 - 1) for k in range(1, 60_000)]
    assert not one("assert set(f(1)) == {1}", colliding)
    assert not one("assert str(f(1)) == '1'", 10**5000)
    assert not one("assert abs(f(1) - 0.5) < 1", 10**5000)
    assert not one("assert round(f(1), 2) == 1", "x")
    assert not one("assert f(1) == 1", [[]])
