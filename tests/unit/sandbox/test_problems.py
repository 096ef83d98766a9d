import json

import pytest

from strop.core.errors import DataError
from strop.core.problems import problem_from_json, problem_to_json
from strop.core.programs import Call, FunctionCase, Limits, Problem, StdinCase

FULL = {
    "language": "python",
    "entry_point": "f",
    "cases": [{"args": [1, [2.5, None]], "kwargs": {"y": "a"}, "expected": {"k": [True, 9007199254740993]}}],
    "stdin_cases": [{"stdin": "4\n", "expected": "12\n"}],
    "tests": "assert f(1) == 2",
    "test_names": ["T.test_a"],
    "float_tolerance": 1e-6,
    "checker": "def check(args, value): return True",
    "same_process": True,
    "limits": {"cpu_s": 2, "wall_s": 9.5, "memory_bytes": 1 << 28, "processes": 8, "output_bytes": 10, "disk_bytes": 1},
}


def test_every_key_arrives_and_comes_back():
    problem = problem_from_json(FULL)
    call = Call(args=(1, [2.5, None]), kwargs={"y": "a"})
    assert problem.cases == (FunctionCase(call=call, expected={"k": [True, 9007199254740993]}),)
    assert problem.stdin_cases == (StdinCase(stdin="4\n", expected="12\n"),)
    assert (problem.test_names, problem.float_tolerance, problem.same_process) == (("T.test_a",), 1e-6, True)
    assert problem.limits == Limits(
        cpu_s=2, wall_s=9.5, memory_bytes=1 << 28, processes=8, output_bytes=10, disk_bytes=1
    )
    assert problem_from_json(json.dumps(problem_to_json(problem))) == problem == problem_from_json(json.dumps(FULL))


def test_defaults_and_null():
    nulls = dict.fromkeys(["tests", "checker", "float_tolerance", "test_names", "limits", "same_process"])
    case = {"args": [1], "kwargs": None, "expected": None}
    problem = problem_from_json({"entry_point": "f", "cases": [case], **nulls})
    assert problem == Problem(entry_point="f", cases=(FunctionCase(call=Call(args=(1,))),))
    assert problem.limits.wall == 3 * problem.limits.cpu_s
    assert problem_to_json(problem) == {
        "language": "python",
        "entry_point": "f",
        "cases": [{"args": [1], "expected": None}],
    }


def test_a_checker_needs_no_expected_value():
    checker = "def check(input, output): return True"
    problem = problem_from_json({"stdin_cases": [{"stdin": "4"}], "checker": checker})
    assert problem.stdin_cases[0].expected == ""


ONE = {"args": [1], "expected": 2}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("[1", "problem: not valid JSON"),
        ([1], "problem: must be a JSON object, got list"),
        ({}, "needs at least one of cases, stdin_cases or tests"),
        ({"cases": [ONE]}, "needs entry_point"),
        ({"entry_point": "f", "case": [ONE]}, "unknown key 'case'; did you mean 'cases'"),
        ({"entry_point": "f", "cases": {"args": []}}, "problem.cases: must be a list"),
        ({"entry_point": "f", "cases": [ONE, 3]}, r"problem.cases\[1\]: must be a JSON object, got int"),
        ({"entry_point": "f", "cases": [{"args": [1]}]}, r"problem.cases\[0\].expected: is missing"),
        ({"entry_point": "f", "cases": [{"args": 1, "expected": 2}]}, r"problem.cases\[0\].args: must be the list"),
        ({"entry_point": "f", "cases": [{**ONE, "kwargs": [1]}]}, r"problem.cases\[0\].kwargs: must be an object"),
        ({"entry_point": "f", "cases": [{**ONE, "output": 2}]}, r"problem.cases\[0\]: unknown key 'output'"),
        ({"entry_point": 3, "cases": [ONE]}, "problem.entry_point: must be text"),
        ({"stdin_cases": [{"stdin": 4, "expected": "12"}]}, r"problem.stdin_cases\[0\].stdin: must be text, got 4"),
        ({"stdin_cases": [{"stdin": "4"}]}, r"problem.stdin_cases\[0\].expected: is missing"),
        ({"stdin_cases": [{"expected": "4"}]}, r"problem.stdin_cases\[0\].stdin: is missing"),
        ({"tests": " "}, "problem.tests: must be text that is not empty"),
        ({"tests": "assert 1", "test_names": "T.a"}, "problem.test_names: must be a list"),
        ({"stdin_cases": [{"stdin": "", "expected": ""}], "test_names": ["a"]}, "test_names: there are no tests"),
        ({"tests": "assert 1", "float_tolerance": True}, "problem.float_tolerance: must be a number, got True"),
        ({"tests": "assert 1", "float_tolerance": -1}, "float_tolerance must be a finite number"),
        ({"tests": "assert 1", "same_process": 1}, "problem.same_process: must be true or false"),
        ({"tests": "assert 1", "limits": {"cpu": 1}}, "problem.limits: unknown key 'cpu'; did you mean 'cpu_s'"),
        ({"tests": "assert 1", "limits": {"cpu_s": "1"}}, "problem.limits.cpu_s: must be a number, got '1'"),
        ({"tests": "assert 1", "limits": {"cpu_s": 0}}, "problem.limits: cpu_s must be a finite number above 0"),
        ({"tests": "assert 1", "limits": {"wall_s": float("inf")}}, "problem.limits: wall_s must be a finite number"),
        ({"tests": "assert 1", "limits": {"processes": 1.5}}, "problem.limits.processes: must be a whole number"),
        ({"tests": "assert 1", "limits": {"processes": float("nan")}}, "problem.limits.processes: must be a whole"),
        ({"tests": "assert 1", "limits": 3}, "problem.limits: must be a JSON object"),
    ],
)
def test_what_cannot_be_used_is_named_in_one_line(data, words):
    with pytest.raises(DataError, match=words) as caught:
        problem_from_json(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [(1, 2), {1}, b"a", {1: 2}, [{"k": (1,)}]])
def test_what_json_cannot_say_is_refused(value):
    problem = Problem(entry_point="f", cases=(FunctionCase(call=Call(), expected=value),))
    with pytest.raises(DataError, match=r"problem.cases\[0\].expected: JSON has no"):
        problem_to_json(problem)
