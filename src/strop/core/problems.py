"""A coding problem as JSON, the form in which tasks and files carry it: `problem_from_json` and `problem_to_json`.

Keys: `language`, `entry_point`, `cases` ([{args, kwargs, expected}]), `stdin_cases` ([{stdin, expected}]), `tests`,
`test_names`, `float_tolerance`, `checker`, `same_process` and `limits` ({cpu_s, wall_s, memory_bytes, processes,
output_bytes, disk_bytes}). All have defaults; null says the same as a missing key, except in `expected`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from strop.core.errors import DataError, brief
from strop.core.programs import Call, FunctionCase, Limits, Problem, StdinCase
from strop.core.types import JSON

PROBLEM_KEYS = tuple(f.name for f in fields(Problem))
LIMIT_KEYS = tuple(f.name for f in fields(Limits))
COUNTS = ("memory_bytes", "processes", "output_bytes", "disk_bytes")


def problem_from_json(data: Mapping[str, Any] | str) -> Problem:
    """The problem that `data` (an object, or its text) describes. DataError names the key that cannot be used."""
    given = _object(_parsed(data) if isinstance(data, str) else data, "problem", PROBLEM_KEYS)
    checked = "checker" in given
    try:
        return Problem(
            language=_text(given, "language", "python"),
            entry_point=_text(given, "entry_point", None),
            cases=tuple(
                _function_case(case, f"problem.cases[{number}]", checked)
                for number, case in enumerate(_list(given, "cases"))
            ),
            stdin_cases=tuple(
                _stdin_case(case, f"problem.stdin_cases[{number}]", checked)
                for number, case in enumerate(_list(given, "stdin_cases"))
            ),
            tests=_text(given, "tests", None),
            test_names=tuple(_names(given)),
            float_tolerance=_number(given, "float_tolerance", "problem"),
            checker=_text(given, "checker", None),
            same_process=_flag(given, "same_process"),
            limits=_limits(given.get("limits", {})),
        )
    except ValueError as error:
        raise DataError(f"problem: {error}") from error


def problem_to_json(problem: Problem) -> dict[str, JSON]:
    """The JSON form of `problem`, without what has its default. DataError where a case holds what JSON cannot say."""
    found: dict[str, JSON] = {"language": problem.language}
    for name in ("entry_point", "tests", "float_tolerance", "checker"):
        if getattr(problem, name) is not None:
            found[name] = getattr(problem, name)
    if problem.cases:
        found["cases"] = [_case_to_json(case, f"cases[{n}]") for n, case in enumerate(problem.cases)]
    if problem.stdin_cases:
        found["stdin_cases"] = [{"stdin": case.stdin, "expected": case.expected} for case in problem.stdin_cases]
    if problem.test_names:
        found["test_names"] = list(problem.test_names)
    if problem.same_process:
        found["same_process"] = True
    default = Limits()
    limits = {k: v for k in LIMIT_KEYS if (v := getattr(problem.limits, k)) != getattr(default, k)}
    return {**found, "limits": limits} if limits else found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"problem: not valid JSON: {error}") from error


def _object(value: Any, where: str, known: Sequence[str]) -> dict[str, Any]:
    """The object's keys that are not null. DataError when there is one that is not `known`."""
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: must be a JSON object, got {type(value).__name__}")
    unknown = [key for key in value if key not in known]
    if unknown:
        near = get_close_matches(str(unknown[0]), known, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
        raise DataError(f"{where}: unknown key {unknown[0]!r}; {hint}")
    return {key: content for key, content in value.items() if content is not None or key == "expected"}


def _text(given: Mapping[str, Any], key: str, default: Any) -> Any:
    value = given.get(key, default)
    if value is not default and not (isinstance(value, str) and value.strip()):
        raise DataError(f"problem.{key}: must be text that is not empty, got {brief(value)}")
    return value


def _list(given: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = given.get(key, ())
    if not isinstance(value, list | tuple):
        raise DataError(f"problem.{key}: must be a list, got {brief(value)}")
    return value


def _names(given: Mapping[str, Any]) -> Sequence[str]:
    names = _list(given, "test_names")
    if not all(isinstance(name, str) and name for name in names):
        raise DataError("problem.test_names: must hold names of tests, as text")
    if names and "tests" not in given:
        raise DataError("problem.test_names: there are no tests to name; add tests")
    return names


def _number(given: Mapping[str, Any], key: str, where: str) -> Any:
    value = given.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise DataError(f"{where}.{key}: must be a number, got {brief(value)}")
    return value


def _flag(given: Mapping[str, Any], key: str) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        raise DataError(f"problem.{key}: must be true or false, got {brief(value)}")
    return value


def _function_case(value: Any, where: str, checked: bool) -> FunctionCase:
    given = _object(value, where, ("args", "kwargs", "expected"))
    args, kwargs = given.get("args", []), given.get("kwargs", {})
    if not isinstance(args, list | tuple):
        raise DataError(f"{where}.args: must be the list of arguments, got {brief(args)}")
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise DataError(f"{where}.kwargs: must be an object of named arguments, got {brief(kwargs)}")
    if "expected" not in given and not checked:
        raise DataError(f"{where}.expected: is missing, and there is no checker to do without it")
    return FunctionCase(call=Call(args=tuple(args), kwargs=dict(kwargs)), expected=given.get("expected"))


def _stdin_case(value: Any, where: str, checked: bool) -> StdinCase:
    given = {k: v for k, v in _object(value, where, ("stdin", "expected")).items() if v is not None}
    for key in ("stdin", "expected"):
        if key not in given and not (key == "expected" and checked):
            raise DataError(f"{where}.{key}: is missing")
        if not isinstance(given.get(key, ""), str):
            raise DataError(f"{where}.{key}: must be text, got {brief(given[key])}")
    return StdinCase(stdin=given["stdin"], expected=given.get("expected", ""))


def _limits(value: Any) -> Limits:
    given = _object(value, "problem.limits", LIMIT_KEYS)
    for key in given:
        _number(given, key, "problem.limits")
        if key in COUNTS and isinstance(given[key], float) and not given[key].is_integer():
            raise DataError(f"problem.limits.{key}: must be a whole number, got {brief(given[key])}")
    try:
        values: dict[str, Any] = {k: int(v) if k in COUNTS else float(v) for k, v in given.items()}
        return Limits(**values)
    except ValueError as error:
        raise DataError(f"problem.limits: {error}") from error


def _case_to_json(case: FunctionCase, where: str) -> dict[str, JSON]:
    _check_plain(list(case.call.args), f"{where}.args")
    _check_plain(dict(case.call.kwargs), f"{where}.kwargs")
    _check_plain(case.expected, f"{where}.expected")
    found: dict[str, JSON] = {"args": list(case.call.args)}
    if case.call.kwargs:
        found["kwargs"] = dict(case.call.kwargs)
    return {**found, "expected": case.expected}


def _check_plain(value: Any, where: str) -> None:
    if isinstance(value, list):
        for content in value:
            _check_plain(content, where)
    elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
        for content in value.values():
            _check_plain(content, where)
    elif value is not None and not isinstance(value, bool | int | float | str):
        raise DataError(f"problem.{where}: JSON has no {type(value).__name__}; state the case as an assert in tests")
