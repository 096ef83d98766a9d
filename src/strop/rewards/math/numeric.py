"""Equality by many digits: expressions that agree to far more digits than their parts have are taken as equal.

Only for worker processes: it needs mpmath, and its time is bounded by limits on sizes, not by a clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import mpmath

from strop.rewards.math.compare import exact_equal
from strop.rewards.math.exact import UndecidedError, UndefinedError, evaluate
from strop.rewards.math.parse import Expr
from strop.rewards.math.shapes import symbols

DIGITS = 60
MAX_DIGITS = 4000
MAX_POINTS = 9
LARGEST_POWER = 10**6  # decimal digits of a power on the way
LARGEST_ANGLE = 10**300
POINTS = ("0.37014", "1.7320571", "-0.6180337", "2.9231", "-1.4426951", "0.9159656", "-2.3025", "5.4366", "0.1134")
LOG_BASES = (math.e, 10.0)


class NoNumberError(Exception):
    """The expression has no value that can be had at this size."""


def numeric_equal(left: Expr, right: Expr) -> bool | None:
    """Exact arithmetic first, then digits at points where both sides are real."""
    found = exact_equal(left, right)
    if found is not None:
        return found
    bases = LOG_BASES if _holds_log(left) or _holds_log(right) else (math.e,)
    answers = [_equal_in_base(left, right, base) for base in bases]
    return True if True in answers else (None if None in answers else False)


def _holds_log(expr: Expr) -> bool:
    return expr[:2] == ("fn", "log") or any(isinstance(p, tuple) and _holds_log(p) for p in expr[1:])


def _equal_in_base(left: Expr, right: Expr, base: float) -> bool | None:
    names = sorted(symbols(left) | symbols(right))
    if len(names) > 6:
        return None
    complex_too = not names or _holds_i(left) or _holds_i(right)
    agreed = 0
    for values in _points(names):
        try:
            answer, real = _equal_at(left, right, values, base)
        except (NoNumberError, ValueError, ArithmeticError):
            continue
        if not real and not complex_too:  # outside of where the real functions are defined
            continue
        if not answer:
            return False
        agreed += 1
    return True if agreed >= min(2, len(names) + 1) else None


def _holds_i(expr: Expr) -> bool:
    return expr == ("sym", "i") or any(isinstance(p, tuple) and _holds_i(p) for p in expr[1:])


def _points(names: list[str]) -> Iterator[dict[str, str]]:
    if not names:
        yield {}
        return
    for shift in range(MAX_POINTS):
        yield {name: POINTS[(shift + 2 * place) % len(POINTS)] for place, name in enumerate(names)}


def _equal_at(left: Expr, right: Expr, values: Mapping[str, str], base: float) -> tuple[bool, bool]:
    """Whether the values there are equal, and whether one is real. The digits grow with what sums could hide."""
    digits = DIGITS
    for _ in range(3):
        sides = [Evaluator(digits, values, base) for _ in range(2)]
        with mpmath.workdps(digits):
            a, b = sides[0].value(left), sides[1].value(right)
            hidden = max(side.hidden for side in sides)
            gap, size = abs(a - b), max(abs(a), abs(b))
            if hidden + DIGITS <= digits:
                tolerance = mpmath.mpf(10) ** (30 - digits)
                scale = max(size, *(side.largest for side in sides))
                real = any(abs(mpmath.im(side)) <= tolerance * max(scale, 1) for side in (a, b))
                return bool(gap <= tolerance * scale), real
        digits = int(hidden) + DIGITS + 10
        if digits > MAX_DIGITS:
            raise NoNumberError("too many digits")
    raise NoNumberError("the digits do not settle")


class Evaluator:
    """Values to some digits. `hidden` says how many digits apart the parts of its sums are, `largest` how large."""

    def __init__(self, digits: int, values: Mapping[str, str], log_base: float) -> None:
        self.digits, self.values, self.log_base = digits, values, log_base
        self.hidden = 0.0
        self.largest = mpmath.mpf(0)

    def value(self, expr: Expr) -> Any:
        kind = expr[0]
        if kind == "num":
            self._literal(expr[1])
            return mpmath.mpf(expr[1].numerator) / expr[1].denominator
        if kind == "sym":
            return self._symbol(expr[1])
        if kind == "fn":
            return self._function(expr)
        if kind == "pow":
            return self._power(expr)
        parts = [self.value(part) for part in expr[1:]]
        if kind == "add":
            return self._sum(parts)
        if kind == "mul":
            return mpmath.fprod(parts)
        if kind == "inv":
            if parts[0] == 0:
                raise ZeroDivisionError
            return 1 / parts[0]
        raise NoNumberError(kind)

    def _literal(self, number: Fraction) -> None:
        bits = max(number.numerator.bit_length(), number.denominator.bit_length())
        self.hidden = max(self.hidden, bits * 0.302 if bits > 100 else 0.0)

    def _symbol(self, name: str) -> Any:
        if name in self.values:
            return mpmath.mpf(self.values[name])
        if name in ("pi", "e"):
            return +getattr(mpmath, name)
        if name == "i":
            return mpmath.mpc(0, 1)
        raise NoNumberError(name)

    def _sum(self, parts: list[Any]) -> Any:
        sizes = [abs(part) for part in parts if part]
        if sizes:
            large, small = max(sizes), min(sizes)
            self.hidden = max(self.hidden, float(mpmath.log10(large / small)))
            self.largest = max(self.largest, large)
        return mpmath.fsum(parts)

    def _power(self, expr: Expr) -> Any:
        base, exponent = self.value(expr[1]), self.value(expr[2])
        if base == 0:
            if mpmath.re(exponent) <= 0:
                raise NoNumberError("a power of zero")
            return mpmath.mpf(0)
        if abs(exponent) * (abs(mpmath.log(abs(base))) + 4) > LARGEST_POWER:
            raise NoNumberError("too large a power")
        if mpmath.im(base) == 0 and mpmath.re(base) < 0 and mpmath.im(exponent) == 0:
            exact = _rational(expr[2])
            if exact is not None and exact.denominator % 2 and exact.denominator > 1:  # the real root
                return (-1) ** exact.numerator * mpmath.power(-mpmath.re(base), exponent)
        return mpmath.power(base, exponent)

    def _function(self, expr: Expr) -> Any:
        name, given = expr[1], [self.value(argument) for argument in expr[2:]]
        x = given[0]
        if abs(x) > LARGEST_ANGLE and name not in ("abs", "ln", "log", "logb", "degree"):
            raise NoNumberError("too large an argument")
        if name in PLAIN:
            angle = expr[2][:2] == ("fn", "degree")
            self.largest = max(self.largest, mpmath.mpf(1))
            return getattr(mpmath, PLAIN[name])(x * mpmath.pi / 180 if angle else x)
        if name == "logb":
            return mpmath.log(x) / mpmath.log(given[1])
        if name == "log":
            return mpmath.log(x) / (1 if self.log_base == math.e else mpmath.log(10))
        if name == "degree":
            return x
        if name == "factorial" and abs(x) < 10**5:
            return mpmath.factorial(x)
        if name == "binom" and abs(x) < 10**5:
            return mpmath.binomial(*given)
        if name in ("floor", "ceil") and mpmath.im(x) == 0:
            return getattr(mpmath, name)(x)
        if name in ("max", "min") and all(mpmath.im(g) == 0 for g in given):
            return (max if name == "max" else min)(mpmath.re(g) for g in given)
        raise NoNumberError(name)


PLAIN = {
    **{name: name for name in "sin cos tan cot sec csc sinh cosh tanh coth exp sign".split()},
    **{f"arc{name}": f"a{name}" for name in "sin cos tan cot".split()},
    "ln": "log",
    "abs": "fabs",
    "Re": "re",
    "Im": "im",
}


def _rational(expr: Expr) -> Fraction | None:
    try:
        return evaluate(expr).rational
    except (UndecidedError, UndefinedError):
        return None
