"""Says whether what a program gave is what was expected. Everything here takes bounded time, whatever was given."""

from __future__ import annotations

import math
import re
from itertools import zip_longest
from typing import Any

BLANKS = b" \t\r\v\f"
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_DECIMAL = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?")
_MAX_NUMBER_BYTES = 400
_MAX_KEY = 1 << 63


def same_output(got: bytes, expected: str, float_tolerance: float | None = None) -> bool:
    """Whether a whole output is the expected one.

    Line by line; blanks (ASCII: space, tab, CR, VT, FF) at line ends and empty lines at the end do not count. Only
    where a tolerance is given, token by token: as many tokens, each the same text, or two integers of one value, or
    two numbers of which one is no integer within the tolerance, absolute or relative. What only Python takes for a
    number (`1_4`, digits of other scripts, `nan`, `inf`) is text.
    """
    wanted = expected.encode("utf-8", "surrogatepass")
    if float_tolerance is None:
        return _lines(got) == _lines(wanted)
    pairs = zip_longest(got.split(), wanted.split())
    return all(a is not None and b is not None and _same_token(a, b, float_tolerance) for a, b in pairs)


def _lines(output: bytes) -> list[bytes]:
    lines = [line.rstrip(BLANKS) for line in output.split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _same_token(got: bytes, wanted: bytes, tolerance: float) -> bool:
    if got == wanted:
        return True
    if len(got) > _MAX_NUMBER_BYTES or len(wanted) > _MAX_NUMBER_BYTES:
        return False
    if _INTEGER.fullmatch(got) and _INTEGER.fullmatch(wanted):
        return int(got) == int(wanted)
    if not (_DECIMAL.fullmatch(got) and _DECIMAL.fullmatch(wanted)):
        return False
    return close(float(got), float(wanted), tolerance)


def close(got: float, wanted: float, tolerance: float) -> bool:
    """Within `tolerance`, absolute or relative to `wanted`. What is not finite is close to nothing."""
    try:
        off = abs(got - wanted)
        return math.isfinite(got) and math.isfinite(wanted) and off <= tolerance * max(1.0, abs(wanted))
    except OverflowError:  # an integer beyond the floats
        return False


def same_value(got: Any, expected: Any, float_tolerance: float | None = None) -> bool:
    """Whether plain data is the expected value, which JSON may have carried.

    A bool equals only a bool and None only None; int and float are equal where their values are, floats within the
    tolerance. As JSON has neither tuples nor keys that are numbers, an expected list also takes a tuple and an
    expected key "1" also 1; an expected tuple or set takes only its own kind (a frozenset is a set). NaN equals none.
    """
    if isinstance(expected, bool) or expected is None:
        return type(got) is type(expected) and got == expected
    if isinstance(expected, int | float):
        return _same_number(got, expected, float_tolerance)
    if isinstance(expected, list | tuple):
        kinds = (list, tuple) if isinstance(expected, list) else (tuple,)
        if type(got) not in kinds or len(got) != len(expected):
            return False
        return all(same_value(a, b, float_tolerance) for a, b in zip(got, expected, strict=True))
    if isinstance(expected, dict):
        return type(got) is dict and _same_dict(got, expected, float_tolerance)
    if isinstance(expected, set | frozenset):
        return type(got) in (set, frozenset) and _tagged(got) == _tagged(expected)
    return type(got) is type(expected) and got == expected


def _same_number(got: Any, expected: float, tolerance: float | None) -> bool:
    if type(got) not in (int, float):
        return False
    if got == expected:
        return True
    if tolerance is None or (type(got) is int and type(expected) is int):
        return False
    return close(got, expected, tolerance)


def _same_dict(got: dict[Any, Any], expected: dict[Any, Any], tolerance: float | None) -> bool:
    if _tagged(got) != _tagged(expected):
        got = {_json_key(key): value for key, value in got.items()}
        if _tagged(got) != _tagged(expected):
            return False
    return all(same_value(got[key], value, tolerance) for key, value in expected.items())


def _json_key(key: Any) -> Any:
    return str(key) if type(key) is int and abs(key) < _MAX_KEY else key


def _tagged(values: Any) -> set[tuple[bool, Any]]:
    """With bools told apart from 0 and 1."""
    return {(type(value) is bool, value) for value in values}
