"""Floating values and magnitudes of expressions: enough to order bounds and to tell clearly different values apart."""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping
from fractions import Fraction

from strop.rewards.math.parse import Expr

LARGEST = 1e8  # of any number on the way: beyond it, floats could hide or invent a difference
HUGE = 1e300


class NoFloatError(Exception):
    """The value is not known as a float."""


def real(expr: Expr) -> float | None:
    """The value of a real constant, infinities included; None where it is not one."""
    if expr == ("sym", "oo"):
        return math.inf
    if expr[0] == "mul" and len(expr) == 3 and expr[2] == ("sym", "oo") and expr[1][0] == "num":
        return math.copysign(math.inf, expr[1][1])
    try:
        value = approximate(expr, {}, HUGE)
    except NoFloatError:
        return None
    return value.real if abs(value.imag) <= 1e-12 * max(1.0, abs(value.real)) else None


def approximate(expr: Expr, values: Mapping[str, float], largest: float = LARGEST) -> complex:
    """NoFloatError for what has no float, or whose parts exceed `largest`."""
    try:
        return _approximate(expr, values, largest)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise NoFloatError(str(error)) from error


def _approximate(expr: Expr, values: Mapping[str, float], largest: float) -> complex:
    kind = expr[0]
    if kind == "num":
        value = complex(float(expr[1]))
    elif kind == "sym":
        known = {"pi": math.pi, "e": math.e, "i": 1j}.get(expr[1], values.get(expr[1]))
        if known is None:
            raise NoFloatError(expr[1])
        value = complex(known)
    elif kind in ("add", "mul", "inv", "pow"):
        parts = [_approximate(part, values, largest) for part in expr[1:]]
        if kind == "add":
            value = sum(parts, 0j)
        elif kind == "mul":
            value = math.prod(parts, start=1 + 0j)
        elif kind == "inv":
            value = 1 / parts[0]
        else:
            value = parts[0] ** parts[1] if parts[1].imag or parts[1].real != int(parts[1].real) else _whole(parts)
    elif kind == "fn":
        value = _function(expr[1], [_approximate(part, values, largest) for part in expr[2:]], expr)
    else:
        raise NoFloatError(kind)
    if not (cmath.isfinite(value) and abs(value) <= largest):
        raise NoFloatError("too large")
    return value


def _whole(parts: list[complex]) -> complex:
    base, exponent = parts
    if abs(exponent.real) > 2000:
        raise NoFloatError("too high a power")
    return base ** int(exponent.real)


def _function(name: str, given: list[complex], expr: Expr) -> complex:
    x = given[0]
    if name in ("sin", "cos", "tan", "sinh", "cosh", "tanh"):
        return complex(getattr(cmath, name)(in_radians(expr[2], x)))
    if name in ("cot", "sec", "csc"):
        partner = {"cot": "tan", "sec": "cos", "csc": "sin"}[name]
        return 1 / complex(getattr(cmath, partner)(in_radians(expr[2], x)))
    if name in ("arcsin", "arccos", "arctan"):
        return complex(getattr(cmath, "a" + name[3:])(x))
    if name == "ln":
        return cmath.log(x)
    if name == "logb":
        return cmath.log(x) / cmath.log(given[1])
    if name == "degree":
        return x
    if name == "abs":
        return complex(abs(x))
    if name == "factorial" and x.imag == 0 and 0 <= x.real <= 150 and x.real == int(x.real):
        return complex(math.factorial(int(x.real)))
    raise NoFloatError(name)


def in_radians(argument: Expr, value: complex) -> complex:
    """The argument of a trigonometric function: 30° is of degrees."""
    return value * math.pi / 180 if argument[:2] == ("fn", "degree") else value


def magnitude(expr: Expr) -> float | None:
    """log10 of the absolute value of a product, power or factorial however large, to a part in a thousand, or None."""
    try:
        return _magnitude(expr)
    except (OverflowError, ValueError, ZeroDivisionError):
        return None


def _magnitude(expr: Expr) -> float | None:
    kind = expr[0]
    if kind == "num":
        return _log10(expr[1]) if expr[1] else None
    if kind == "mul":
        parts = [_magnitude(part) for part in expr[1:]]
        return None if any(part is None or math.isinf(part) for part in parts) else sum(parts)  # type: ignore[arg-type]
    if kind == "inv":
        inner = _magnitude(expr[1])
        return None if inner is None else -inner
    if kind == "pow":
        base, exponent = _magnitude(expr[1]), _size(expr[2])
        return None if base is None or exponent is None else (base * exponent if base else 0.0)
    if kind == "fn" and expr[1] == "factorial":
        return _factorial(_size(expr[2]))
    if kind == "fn" and expr[1] == "binom":
        n, k = _size(expr[2]), _size(expr[3])
        if n is None or k is None or not 0 <= k <= n or math.isinf(n):
            return None
        return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(10)
    value = real(expr)
    return math.log10(abs(value)) if value else None


def _size(expr: Expr) -> float | None:
    """The value as a float, infinite where it is larger than one."""
    value = real(expr)
    if value is not None:
        return value
    log = _magnitude(expr)
    if log is None or not _positive(expr):
        return None
    return 10.0**log if log < 300 else math.inf


def _positive(expr: Expr) -> bool:
    if expr[0] == "num":
        return bool(expr[1] > 0)
    return expr[0] in ("mul", "inv", "pow", "add", "fn") and all(
        _positive(part) if isinstance(part, tuple) else part in ("factorial", "binom") for part in expr[1:]
    )


def _factorial(x: float | None) -> float | None:
    if x is None or x < 0 or math.isinf(x):
        return x if x is not None and x > 0 else None
    return math.lgamma(x + 1) / math.log(10) if x < 1e300 else math.inf


def _log10(value: Fraction) -> float:
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    if abs(bits) < 900:
        return math.log10(abs(value.numerator / value.denominator))
    return bits * math.log10(2)
