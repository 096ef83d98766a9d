"""Sets of real numbers as unions of intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from strop.rewards.math.approximate import real
from strop.rewards.math.notation import NotMathError
from strop.rewards.math.parse import Expr

INFINITY: Expr = ("sym", "oo")
MINUS_INFINITY: Expr = ("mul", ("num", Fraction(-1)), INFINITY)


@dataclass(frozen=True, slots=True)
class Piece:
    """One interval; a point has equal closed ends."""

    low: Expr
    high: Expr
    low_closed: bool
    high_closed: bool

    @property
    def start(self) -> float:
        return _float(self.low)

    @property
    def end(self) -> float:
        return _float(self.high)


WHOLE = (Piece(MINUS_INFINITY, INFINITY, False, False),)


def _float(expr: Expr) -> float:
    value = real(expr)
    if value is None:
        raise NotMathError("a bound that is not a known real number")
    return value


def close(left: float, right: float) -> bool:
    if math.isinf(left) or math.isinf(right):
        return left == right
    return abs(left - right) <= 1e-11 * max(1.0, abs(left), abs(right))


def piece(low: Expr, high: Expr, low_closed: bool, high_closed: bool) -> Piece:
    """NotMathError where it holds nothing."""
    made = Piece(low, high, low_closed and math.isfinite(_float(low)), high_closed and math.isfinite(_float(high)))
    if made.start > made.end and not close(made.start, made.end):
        raise NotMathError("an interval from the larger to the smaller bound")
    return made


def point(value: Expr) -> Piece:
    return piece(value, value, True, True)


def union(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """In order, with pieces that touch or overlap made one."""
    found: list[Piece] = []
    for one in sorted(pieces, key=lambda p: (p.start, not p.low_closed)):
        if close(one.start, one.end) and not (one.low_closed and one.high_closed):
            continue
        if found and _meet(found[-1], one):
            last = found[-1]
            longer = one if one.end > last.end and not close(one.end, last.end) else last
            closed = longer.high_closed or (close(one.end, last.end) and (one.high_closed or last.high_closed))
            same_start = close(one.start, last.start)
            found[-1] = Piece(last.low, longer.high, last.low_closed or (same_start and one.low_closed), closed)
        else:
            found.append(one)
    return tuple(found)


def _meet(first: Piece, second: Piece) -> bool:
    if close(first.end, second.start):
        return first.high_closed or second.low_closed
    return second.start < first.end


def complement(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """What of the real line is in none of `pieces`."""
    found: list[Piece] = []
    low, closed = MINUS_INFINITY, False
    for one in union(pieces):
        if _float(low) < one.start or (closed and not one.low_closed):
            found.append(Piece(low, one.low, closed, not one.low_closed and math.isfinite(one.start)))
        low, closed = one.high, not one.high_closed
    if _float(low) < math.inf:
        found.append(Piece(low, INFINITY, closed and math.isfinite(_float(low)), False))
    return tuple(found)


def intersection(left: Sequence[Piece], right: Sequence[Piece]) -> tuple[Piece, ...]:
    return complement([*complement(left), *complement(right)])
