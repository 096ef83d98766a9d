"""Equations and inequalities that say the same, and matrices written out."""

from __future__ import annotations

from fractions import Fraction

from strop.rewards.math.exact import UndecidedError, UndefinedError, Value, evaluate, mul, same
from strop.rewards.math.notation import NotMathError
from strop.rewards.math.parse import Expr
from strop.rewards.math.shapes import Relation, symbols


def same_relation(gold: Relation, given: Relation) -> bool | None:
    """Differences in a constant proportion: positive, where the sign is not `=`."""
    if gold.sign != given.sign:
        return False
    if symbols(gold.difference) != symbols(given.difference):
        return False
    try:
        left, right = evaluate(gold.difference), evaluate(given.difference)
        factor = _proportion(left, right)
    except (UndecidedError, NotMathError):
        return None
    except UndefinedError:
        return False
    if factor is None:
        return None if left.opaque or right.opaque else False
    return gold.sign == "=" or factor > 0


def _proportion(left: Value, right: Value) -> Fraction | None:
    """The rational q with left = q · right, of the numerators where quotients are set to 0."""
    a, b = Value(left.num), Value(right.num)
    if not a.num or not b.num:
        return Fraction(1) if not a.num and not b.num else None
    if set(a.num) != set(b.num):
        return None
    monomial = next(iter(a.num))
    factor = a.num[monomial] / b.num[monomial]
    return factor if same(a, mul(b, Value({(): factor}))) else None


def holds_matrix(expr: Expr) -> bool:
    return expr[0] in ("add", "mul") and any(p[0] == "matrix" or holds_matrix(p) for p in expr[1:])


def matrix_rows(expr: Expr) -> list[list[Expr]] | None:
    """The cells of a matrix, a number times one, or a sum of them."""
    if expr[0] == "matrix":
        return [list(row) for row in expr[1:]]
    if expr[0] == "mul":
        inner = [(place, rows) for place, part in enumerate(expr[1:]) if (rows := matrix_rows(part)) is not None]
        if len(inner) != 1:
            return None
        place, rows = inner[0]
        others = [part for k, part in enumerate(expr[1:]) if k != place]
        return [[("mul", *others, cell) for cell in row] for row in rows]
    if expr[0] == "add":
        terms = [matrix_rows(part) for part in expr[1:]]
        if any(t is None or [len(r) for r in t] != [len(r) for r in terms[0] or []] for t in terms):
            return None
        return [
            [("add", *cells) for cells in zip(*rows, strict=True)]
            for rows in zip(*[t for t in terms if t is not None], strict=True)
        ]
    return None
