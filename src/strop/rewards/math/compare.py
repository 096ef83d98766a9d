"""Whether two shapes say the same. Three answers: True, False, and None where exact arithmetic cannot tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial

from strop.rewards.math.approximate import NoFloatError, approximate, magnitude, real
from strop.rewards.math.exact import UndecidedError, UndefinedError, evaluate, same
from strop.rewards.math.parse import Expr, negated
from strop.rewards.math.read import as_pieces
from strop.rewards.math.relations import holds_matrix, matrix_rows, same_relation
from strop.rewards.math.shapes import (
    Group,
    Named,
    Region,
    Relation,
    Shape,
    Single,
    Words,
    substituted,
    symbols,
)
from strop.rewards.math.units import ratio

Oracle = Callable[[Expr, Expr], bool | None]
SIGNIFICANT = 10  # digits that a decimal must have to stand for a number that no decimal equals
MAX_PARTS = 200
POINTS = (0.7310585786, 1.6180339887, 2.2360679775, 3.3166247904, 0.4142135624, 1.2599210499)
MORE = ("add", "mul", "pow", "inv", "fn")


def exact_equal(left: Expr, right: Expr) -> bool | None:
    """Equality of two expressions by exact arithmetic; clearly different floats settle a No."""
    if left == right:
        return True
    if _infinite(left) or _infinite(right):
        return _infinite(left) == _infinite(right)
    try:
        found = same(evaluate(left), evaluate(right))
    except UndefinedError:
        return False
    except UndecidedError:
        return False if _differ_in_size(left, right) else _floats(left, right)
    if found is None and _differ_in_size(left, right):
        return False
    return _floats(left, right) if found is None else found


def _infinite(expr: Expr) -> int:
    value = real(expr) if ("sym", "oo") in (expr, *expr[1:]) else None
    return 0 if value is None or math.isfinite(value) else (1 if value > 0 else -1)


def _differ_in_size(left: Expr, right: Expr) -> bool:
    if symbols(left) or symbols(right):
        return False
    a, b = magnitude(left), magnitude(right)
    if a is None or b is None or (math.isinf(a) and math.isinf(b)):
        return False
    return abs(a - b) > 1 + 1e-3 * min(abs(a), abs(b))


def _floats(left: Expr, right: Expr) -> bool | None:
    """False where both are real and differ plainly at a point; what floats say is never a Yes."""
    names = sorted(symbols(left) | symbols(right))
    if len(names) > 4:
        return None
    for shift in range(2):
        values = {name: POINTS[(place + shift) % len(POINTS)] for place, name in enumerate(names)}
        try:
            a, b = approximate(left, values), approximate(right, values)
        except NoFloatError:
            continue
        if abs(a - b) > 1e-5 * max(1e-3, abs(a), abs(b)):
            return False
    return None


def equivalent(gold: Shape, given: Shape, oracle: Oracle = exact_equal) -> bool | None:
    """Whether `given` answers as `gold` does."""
    gold, given = _spread(gold), _spread(given)
    if isinstance(gold, Words) or isinstance(given, Words):
        return isinstance(gold, Words) and isinstance(given, Words) and bool(gold.text) and gold.text == given.text
    if isinstance(gold, Named) or isinstance(given, Named):
        return _named(gold, given, oracle)
    if isinstance(gold, Relation) or isinstance(given, Relation):
        return isinstance(gold, Relation) and isinstance(given, Relation) and same_relation(gold, given)
    if isinstance(gold, Region) or isinstance(given, Region):
        return _regions(gold, given, oracle)
    if isinstance(gold, Group) and isinstance(given, Group):
        return _groups(gold, given, oracle)
    if isinstance(gold, Single) and isinstance(given, Single):
        return _singles(gold, given, oracle)
    return _mixed_kinds(gold, given, oracle)


def _spread(shape: Shape) -> Shape:
    """`±` written out; a list or set of one is what it holds."""
    if isinstance(shape, Single) and _has_sign(shape.expr):
        signs = [_with_sign(shape.expr, sign) for sign in (1, -1)]
        return Group("list", tuple(Single(e, shape.unit, shape.percent) for e in signs))
    if isinstance(shape, Named):
        return Named({name: _spread(value) for name, value in shape.values.items()}, shape.arguments)
    if isinstance(shape, Group) and shape.kind in ("list", "set"):
        parts = [
            p
            for s in map(_spread, shape.parts)
            for p in (s.parts if isinstance(s, Group) and s.kind == "list" else (s,))
        ]
        return parts[0] if shape.kind == "list" and len(parts) == 1 else Group(shape.kind, tuple(parts))
    return shape


def _has_sign(expr: Expr) -> bool:
    return expr[0] in ("pm", "mp") or any(_has_sign(p) for p in expr[1:] if isinstance(p, tuple) and expr[0] in MORE)


def _with_sign(expr: Expr, sign: int) -> Expr:
    if expr[0] in ("pm", "mp"):
        inner = _with_sign(expr[1], sign)
        return inner if (sign > 0) == (expr[0] == "pm") else negated(inner)
    if expr[0] not in MORE:
        return expr
    return tuple(_with_sign(p, sign) if isinstance(p, tuple) else p for p in expr)


def _all(answers: Iterable[bool | None]) -> bool | None:
    unsure = False
    for answer in answers:
        if answer is False:
            return False
        unsure = unsure or answer is None
    return None if unsure else True


def _any(answers: Iterable[bool | None]) -> bool | None:
    unsure = False
    for answer in answers:
        if answer:
            return True
        unsure = unsure or answer is None
    return None if unsure else False


def _singles(gold: Single, given: Single, oracle: Oracle) -> bool | None:
    left, right = gold.expr, given.expr
    if gold.unit is not None and given.unit is not None:
        scale = ratio(given.unit, gold.unit)
        if scale is None:
            return False
        right = right if scale == 1 else ("mul", right, ("num", scale))
    if gold.percent != given.percent:
        whole = (gold if given.percent else given).unit
        shares = (left, right) if whole is None else (right, left)
        if whole is not None:
            return False
        hundredth = ("num", Fraction(1, 100))
        parts = (("mul", left, hundredth), right) if gold.percent else (left, ("mul", right, hundredth))
        return _any((_values(*parts, gold, given, oracle), _values(*shares, gold, given, oracle)))
    return _values(left, right, gold, given, oracle)


def _values(left: Expr, right: Expr, gold: Single, given: Single, oracle: Oracle) -> bool | None:
    if left[0] == "matrix" or right[0] == "matrix" or holds_matrix(left) or holds_matrix(right):
        return _matrices(left, right, oracle)
    for shape, other in ((gold, right), (given, left)):
        if (
            shape.places is not None
            and (gold.places is None or given.places is None)
            and shape.places[0] >= SIGNIFICANT
        ):
            value = left if shape is gold else right
            if _rounds(value, other, shape.places):
                return True
    return oracle(left, right)


def _rounds(value: Expr, other: Expr, places: tuple[int, int]) -> bool:
    """Whether a long decimal is `other` rounded or cut, where `other` is a number that no decimal equals."""
    try:
        exact, wanted = evaluate(value).rational, evaluate(other)
    except (UndecidedError, UndefinedError):
        return False
    if exact is None or symbols(other):
        return False
    rational = wanted.rational
    if rational is not None:
        rest = rational.denominator
        for prime in (2, 5):
            while rest % prime == 0:
                rest //= prime
        return rest != 1 and abs(exact - rational) < max(Fraction(1, 10 ** places[1]), abs(rational) / 2**52)
    number = real(other)
    if number is None or not math.isfinite(number) or not number:
        return False
    unit = max(10.0 ** -places[1], abs(number) * 2**-51)
    return abs(float(exact) - number) < unit


def _matrices(left: Expr, right: Expr, oracle: Oracle) -> bool | None:
    a, b = matrix_rows(left), matrix_rows(right)
    if a is None or b is None or [len(r) for r in a] != [len(r) for r in b]:
        return False
    return _all(oracle(x, y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True))


def _groups(gold: Group, given: Group, oracle: Oracle) -> bool | None:
    if len(gold.parts) > MAX_PARTS or len(given.parts) > MAX_PARTS:
        return False
    if gold.kind == "ratio" or given.kind == "ratio":
        return gold.kind == given.kind and _ratios(gold, given, oracle)
    ordered = [g.kind not in ("list", "set") for g in (gold, given)]
    if all(ordered):
        if gold.kind != given.kind and not (len(gold.parts) > 2 and {gold.kind, given.kind} <= {"()", "[]"}):
            return False
        return len(gold.parts) == len(given.parts) and _all(
            equivalent(a, b, oracle) for a, b in zip(gold.parts, given.parts, strict=True)
        )
    if any(ordered):
        return False
    both_sets = gold.kind == given.kind == "set"
    return _unordered(gold.parts, given.parts, oracle, distinct=both_sets)


def _unordered(left: Sequence[Shape], right: Sequence[Shape], oracle: Oracle, *, distinct: bool) -> bool | None:
    """The same values in any order; with `distinct`, as often as each side likes."""
    if not distinct and len(left) != len(right):
        return False
    found = [[equivalent(a, b, oracle) for b in right] for a in left]
    if distinct:
        if not left or not right:
            return not left and not right
        return _all(_any(row) for row in [*found, *map(list, zip(*found, strict=True))])
    free = set(range(len(right)))
    unsure = False
    for row in found:
        place = next((k for k in sorted(free) if row[k]), None)
        if place is None:
            place = next((k for k in sorted(free) if row[k] is None), None)
            unsure = True
        if place is None:
            return None if any(answer is None for other in found for answer in other) else False
        free.discard(place)
    return None if unsure else True


def _ratios(gold: Group, given: Group, oracle: Oracle) -> bool | None:
    """Equal parts, or in proportion; a clock time (3:45) is no proportion."""
    if len(gold.parts) != len(given.parts):
        return False
    equal = _all(equivalent(a, b, oracle) for a, b in zip(gold.parts, given.parts, strict=True))
    if equal or _is_clock(gold):
        return equal
    values = [[part.expr for part in group.parts if isinstance(part, Single)] for group in (gold, given)]
    return _all(oracle(("mul", values[0][0], y), ("mul", x, values[1][0])) for x, y in zip(*values, strict=True))


def _is_clock(group: Group) -> bool:
    last = group.parts[-1]
    return (
        len(group.parts) == 2
        and isinstance(last, Single)
        and last.expr[0] == "num"
        and (10 <= last.expr[1] < 60 or last.expr[1] == 0)
    )


def _regions(gold: Shape, given: Shape, oracle: Oracle) -> bool | None:
    left, right = as_pieces(gold), as_pieces(given)
    if left is None or right is None or len(left) != len(right):
        return False
    names = [shape.name for shape in (gold, given) if isinstance(shape, Region) and shape.name]
    if len(set(names)) > 1:
        return False
    for a, b in zip(left, right, strict=True):
        if (a.low_closed, a.high_closed) != (b.low_closed, b.high_closed):
            return False
    return _all(oracle(x, y) for a, b in zip(left, right, strict=True) for x, y in ((a.low, b.low), (a.high, b.high)))


def _named(gold: Shape, given: Shape, oracle: Oracle) -> bool | None:
    if isinstance(gold, Named) and isinstance(given, Named):
        return _both_named(gold, given, oracle)
    named, other = (gold, given) if isinstance(gold, Named) else (given, gold)
    assert isinstance(named, Named)
    if isinstance(other, Relation):
        relation = _as_relation(named)
        return relation is not None and same_relation(relation, other)
    if len(named.values) == 1:
        value = next(iter(named.values.values()))
        if isinstance(other, Region) and other.name and other.name not in named.values:
            return False
        return equivalent(value, other, oracle) if named is gold else equivalent(other, value, oracle)
    if isinstance(other, Group) and other.kind == "()" and len(other.parts) == len(named.values):
        ordered = [named.values[name] for name in sorted(named.values)]
        return _all(equivalent(b, a, oracle) for a, b in zip(ordered, other.parts, strict=True))
    return False


def _both_named(gold: Named, given: Named, oracle: Oracle) -> bool | None:
    if set(gold.values) == set(given.values) and len(gold.arguments) == len(given.arguments):
        pairs = [(gold.values[name], given.values[name]) for name in gold.values]
        if gold.arguments != given.arguments:
            names = {b: ("sym", a) for a, b in zip(gold.arguments, given.arguments, strict=True)}
            pairs = [(a, _renamed(b, names)) for a, b in pairs]
        found = _all(equivalent(a, b, oracle) for a, b in pairs)
        if found is not False or gold.arguments:
            return found
    functions = [named for named in (gold, given) if named.arguments == ("x",)]
    others = [named for named in (gold, given) if not named.arguments and set(named.values) == {"y"}]
    if len(functions) == 1 and len(others) == 1:  # y = 2x for f(x) = 2x
        return _all(equivalent(a, b, oracle) for a, b in zip(gold.values.values(), given.values.values(), strict=True))
    relations = [_as_relation(named) for named in (gold, given)]
    if relations[0] is None or relations[1] is None:
        return False
    if not all(_speaks_of_others(named) for named in (gold, given)):
        return False
    return same_relation(relations[0], relations[1])


def _speaks_of_others(named: Named) -> bool:
    """Whether the value has variables, so that the equation is one of several variables and not an assignment."""
    return any(isinstance(value, Single) and symbols(value.expr) for value in named.values.values())


def _renamed(shape: Shape, names: dict[str, Expr]) -> Shape:
    return Single(substituted(shape.expr, names), shape.unit, shape.percent) if isinstance(shape, Single) else shape


def _as_relation(named: Named) -> Relation | None:
    if len(named.values) != 1 or named.arguments:
        return None
    name, value = next(iter(named.values.items()))
    if not isinstance(value, Single) or _has_sign(value.expr) or value.expr[0] == "matrix":
        return None
    return Relation(("add", ("sym", name), negated(value.expr)), "=")


def _mixed_kinds(gold: Shape, given: Shape, oracle: Oracle) -> bool | None:
    """A value against a group: a set of one, a ratio as a fraction, a vector as a tuple."""
    single, group = (gold, given) if isinstance(gold, Single) else (given, gold)
    if not (isinstance(single, Single) and isinstance(group, Group)):
        return False
    pair = partial(equivalent, oracle=oracle)
    if group.kind == "set" and len(group.parts) == 1:
        return pair(single, group.parts[0]) if single is gold else pair(group.parts[0], single)
    if group.kind == "ratio" and len(group.parts) == 2 and not _is_clock(group) and single.unit is None:
        over, under = (part.expr for part in group.parts if isinstance(part, Single))
        return oracle(single.expr, ("mul", over, ("inv", under)))
    rows = matrix_rows(single.expr)
    if rows is None or group.kind not in ("()", "[]"):
        return False
    if 1 in (len(rows), len(rows[0])):
        cells = [Single(cell) for row in rows for cell in row]
        return len(cells) == len(group.parts) and _all(pair(a, b) for a, b in zip(cells, group.parts, strict=True))
    lists = [part.parts for part in group.parts if isinstance(part, Group)]
    if [len(row) for row in rows] != [len(parts) for parts in lists] or len(lists) != len(group.parts):
        return False
    return _all(
        pair(Single(x), y) for row, parts in zip(rows, lists, strict=True) for x, y in zip(row, parts, strict=True)
    )
