"""From the text of an answer to its shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from strop.rewards.math.notation import SCALES, NotMathError, Token, clean
from strop.rewards.math.parse import Expr, divided, negated, parse
from strop.rewards.math.regions import (
    INFINITY,
    MINUS_INFINITY,
    WHOLE,
    Piece,
    complement,
    intersection,
    piece,
    point,
    union,
)
from strop.rewards.math.shapes import (
    Group,
    Named,
    Region,
    Relation,
    Shape,
    Single,
    linear,
    symbols,
    variable,
    words,
)
from strop.rewards.math.tokens import tokenize
from strop.rewards.math.units import read_unit

MAX_PARTS = 500
SIGNS = ("=", "<", ">", "<=", ">=", "!=", "in", "≡", "≈")
FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
OPENERS = re.compile(
    r"(?i)(?:^|\b)(?:is|are|equals|be|answer|answer:|approximately|about|exactly|total|area|value|length)[:,]?$"
)
REFUSALS = re.compile(r"(?i)\b(?:not|no|never|isn't|wrong|incorrect|or|than|least|most|except|between|undefined|if)\b")
PLAIN_DECIMAL = re.compile(r"[+-]?(\d*)\.(\d+)")


def read(text: str) -> Shape:
    """The shape of `text`; what is no mathematics is words."""
    try:
        cleaned = clean(text)
        if not cleaned:
            return words(text)
        shape = _read(tokenize(cleaned))
    except NotMathError:
        return words(text)
    except RecursionError:
        return words("")
    if isinstance(shape, Single) and (match := PLAIN_DECIMAL.fullmatch(cleaned)):
        digits = (match[1] + match[2]).lstrip("0")
        return Single(shape.expr, shape.unit, shape.percent, (len(digits), len(match[2])))
    return shape


def _read(tokens: list[Token]) -> Shape:
    if not tokens:
        raise NotMathError("nothing is there")
    tokens = _french_brackets(tokens)
    alternatives, _ = _split(tokens, ("or",))
    if len(alternatives) > 1:
        return _either([_read(part) for part in alternatives])
    parts, joints = _split(tokens, (",", ";", "and"))
    if len(parts) > 1:
        return _listed(parts, joints)
    return _one(tokens)


def _french_brackets(tokens: list[Token]) -> list[Token]:
    """]2, 5[ is (2, 5)."""
    if len(tokens) > 2 and (tokens[0].value == "]" or (tokens[-1].value == "[" and tokens[0].value in "[](")):
        first = Token("open", "(") if tokens[0].value == "]" else tokens[0]
        last = Token("close", ")") if tokens[-1].value == "[" else tokens[-1]
        return [first, *tokens[1:-1], last]
    return tokens


def _split(tokens: Sequence[Token], at: tuple[str, ...]) -> tuple[list[list[Token]], list[str]]:
    """The parts between the signs of `at` outside all brackets, and those signs. Empty parts (`, and`) are left out."""
    parts: list[list[Token]] = [[]]
    joints: list[str] = []
    depth = 0
    if not any(token.value in at for token in tokens):
        return [list(tokens)], []
    for token in tokens:
        if token.kind in ("open", "begin"):
            depth += 1
        elif token.kind in ("close", "end"):
            depth -= 1
        if depth == 0 and token.kind == "op" and token.value in at:
            parts.append([])
            joints.append(token.value)
        else:
            parts[-1].append(token)
    if depth or len(parts) > MAX_PARTS:
        raise NotMathError("brackets that do not close" if depth else "too many parts")
    kept = [part for part in parts if part]
    return kept, [j for j, part in zip(joints, parts[1:], strict=False) if part]


def _either(parts: list[Shape]) -> Shape:
    if all(isinstance(part, Region) for part in parts):
        return Region(union([p for part in parts if isinstance(part, Region) for p in part.pieces]), _name_of(parts))
    return _listed_shapes(parts)


def _name_of(parts: Sequence[Shape]) -> str:
    names = {part.name for part in parts if isinstance(part, Region)}
    if len(names) > 1:
        raise NotMathError("ranges of different variables")
    return names.pop()


def _listed(parts: list[list[Token]], joints: list[str]) -> Shape:
    shapes = [_read(part) for part in parts]
    if all(isinstance(shape, Region) for shape in shapes):
        pieces = [shape.pieces for shape in shapes if isinstance(shape, Region)]
        both = pieces[0]
        for other in pieces[1:]:
            both = intersection(both, other)
        if "and" in joints and both:
            return Region(both, _name_of(shapes))
        return Region(both or union([p for part in pieces for p in part]), _name_of(shapes))
    return _listed_shapes(shapes)


def _listed_shapes(shapes: list[Shape]) -> Shape:
    """`x = 1, 2`, `x = 1, x = 2` and `x = 1, y = 2` are values by name; anything else is a list."""
    first = shapes[0]
    if isinstance(first, Named) and not first.arguments:
        named = [shape for shape in shapes if isinstance(shape, Named)]
        names = [name for shape in named for name in shape.values]
        if len(set(names)) == 1 and not any(isinstance(shape, Relation) for shape in shapes):
            values = [shape.values[names[0]] if isinstance(shape, Named) else shape for shape in shapes]
            return Named({names[0]: Group("list", _flat(values))})
        if len(named) == len(shapes) and len(set(names)) == len(names):
            return Named({name: value for shape in named for name, value in shape.values.items()})
    if any(not isinstance(shape, Single) or shape.unit for shape in shapes):
        return Group("list", tuple(shapes))
    return Group("list", _flat(shapes))


def _flat(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    return tuple(p for s in shapes for p in (s.parts if isinstance(s, Group) and s.kind in ("list", "set") else (s,)))


def _one(tokens: list[Token]) -> Shape:
    parts, signs = _split(tokens, SIGNS)
    if signs and len(parts) == len(signs) + 1:
        return _related(parts, signs)
    if signs and signs == ["="] and len(parts) == 1:
        return _one(parts[0])
    for sign, combine in (("∪", _union), ("∩", _intersection), ("∖", _difference)):
        operands, found = _split(tokens, (sign,))
        if found:
            return combine([_one(operand) for operand in operands])
    ratio, colons = _split(tokens, (":",))
    if colons and len(ratio) == len(colons) + 1:
        return Group("ratio", tuple(_single(part) for part in ratio))
    return _bracketed(tokens) or _single(tokens)


def _bracketed(tokens: list[Token]) -> Shape | None:
    """Sets, tuples and intervals: one pair of brackets around everything, with a comma in it unless it is a set."""
    first, last = tokens[0], tokens[-1]
    if len(tokens) == 1 and first.value in ("∅", "ℝ"):
        return Group("set", ()) if first.value == "∅" else Region(WHOLE)
    if first.kind != "open" or last.kind != "close" or first.value not in "([⦃" or not _encloses(tokens):
        return None
    inner = tokens[1:-1]
    if first.value == "⦃":
        if not inner:
            return Group("set", ())
        _, bars = _split(inner, ("|",))
        _, colons = _split(inner, (":",))
        if len(bars) == 1 or len(colons) == 1:
            return _read(_split(inner, ("|",) if bars else (":",))[0][1])
        shape = _read(inner)
        return Group("set", shape.parts if isinstance(shape, Group) and shape.kind == "list" else (shape,))
    parts, commas = _split(inner, (",", ";"))
    if not commas:
        return None
    return Group(f"{first.value}{last.value}", tuple(_read(part) for part in parts))


def _encloses(tokens: Sequence[Token]) -> bool:
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.kind == "open") - (token.kind == "close")
        if depth == 0:
            return place == len(tokens) - 1
    return False


def as_pieces(shape: Shape) -> tuple[Piece, ...] | None:
    """The real numbers a shape stands for, where it can be read as a set of them."""
    if isinstance(shape, Region):
        return shape.pieces
    if isinstance(shape, Group) and shape.kind in ("()", "[]", "(]", "[)") and len(shape.parts) == 2:
        low, high = shape.parts
        if not (isinstance(low, Single) and isinstance(high, Single)):
            return None
        try:
            return (piece(low.expr, high.expr, shape.kind[0] == "[", shape.kind[1] == "]"),)
        except NotMathError:
            return None
    if isinstance(shape, Group) and shape.kind == "set" and all(isinstance(part, Single) for part in shape.parts):
        try:
            return union([point(part.expr) for part in shape.parts if isinstance(part, Single)])
        except NotMathError:
            return None
    return None


def _all_pieces(shapes: list[Shape]) -> list[tuple[Piece, ...]]:
    found = [as_pieces(shape) for shape in shapes]
    if any(pieces is None for pieces in found):
        raise NotMathError("a set that is none of real numbers")
    return [pieces for pieces in found if pieces is not None]


def _union(shapes: list[Shape]) -> Shape:
    if all(isinstance(shape, Group) and shape.kind == "set" for shape in shapes):
        return Group("set", tuple(p for shape in shapes if isinstance(shape, Group) for p in shape.parts))
    return Region(union([p for pieces in _all_pieces(shapes) for p in pieces]))


def _intersection(shapes: list[Shape]) -> Shape:
    first, *rest = _all_pieces(shapes)
    for other in rest:
        first = intersection(first, other)
    return Region(first)


def _difference(shapes: list[Shape]) -> Shape:
    first, *rest = _all_pieces(shapes)
    for other in rest:
        first = intersection(first, complement(other))
    return Region(first)


def _related(parts: list[list[Token]], signs: list[str]) -> Shape:
    if signs[0] in ("in",) and len(signs) == 1:
        inner = _one(parts[1])
        name = variable(parts[0])
        if name is None:
            raise NotMathError("membership of what is no variable")
        pieces = as_pieces(inner)
        if isinstance(inner, Group) and inner.kind == "set":
            return Named({name[0]: Group("list", inner.parts)})
        if pieces is None:
            raise NotMathError("membership in what is no set")
        return Region(pieces, name[0])
    if set(signs) <= {"=", "≈"}:
        return _equated(parts)
    if signs == ["!="]:
        return _excluded(parts)
    if set(signs) <= {"<", "<="} or set(signs) <= {">", ">="}:
        return _ordered(parts, signs)
    raise NotMathError("signs that do not go together")


def _equated(parts: list[list[Token]]) -> Shape:
    name = variable(parts[0])
    if name is not None:
        return Named({name[0]: _one(parts[-1])}, name[1])
    if all(token.kind == "text" for token in parts[0]):  # \text{Area} = 5
        return _one(parts[-1])
    other = variable(parts[-1])
    left, right = parse(parts[0]), _one(parts[-1])
    if other is not None and not symbols(left):
        return Named({other[0]: Single(left)}, other[1])
    if not symbols(left) and left[0] != "matrix":  # 12 * 7 = 84
        return right
    if not isinstance(right, Single):
        raise NotMathError("an equation of what is no number")
    return Relation(("add", left, negated(right.expr)), "=")


def _excluded(parts: list[list[Token]]) -> Shape:
    name = variable(parts[0])
    if name is None:
        raise NotMathError("an exclusion from what is no variable")
    value = _single(parts[1])
    return Region(complement((point(value.expr),)), name[0])


def _ordered(parts: list[list[Token]], signs: list[str]) -> Shape:
    if signs[0][0] == ">":
        parts, signs = parts[::-1], [FLIPPED[sign] for sign in reversed(signs)]
    exprs = [_single(part).expr for part in parts]
    if len(exprs) == 2 and exprs[0][:2] == ("fn", "abs"):  # |x| < 3
        exprs, signs = [negated(exprs[1]), exprs[0][2], exprs[1]], signs * 2
    pieces: tuple[Piece, ...] = WHOLE
    names = sorted({name for expr in exprs for name in symbols(expr)})
    if len(names) != 1:
        if len(exprs) == 2:
            return Relation(("add", exprs[0], negated(exprs[1])), signs[0])
        raise NotMathError("a chain of several variables")
    for low, sign, high in zip(exprs, signs, exprs[1:], strict=False):
        solved = _solved(low, sign, high, names[0])
        if solved is None:
            if len(exprs) == 2:
                return Relation(("add", low, negated(high)), sign)
            raise NotMathError("a chain that is not linear")
        pieces = intersection(pieces, solved)
    return Region(pieces, names[0])


def _solved(low: Expr, sign: str, high: Expr, name: str) -> tuple[Piece, ...] | None:
    """The numbers for which low < high (or <=), where that is linear in the variable."""
    closed = sign == "<="
    if low == ("sym", name) and name not in symbols(high):
        return (piece(MINUS_INFINITY, high, False, closed),)
    if high == ("sym", name) and name not in symbols(low):
        return (piece(low, INFINITY, closed, False),)
    form = linear(("add", low, negated(high)), name)
    if form is None:
        return None
    slope, start = form
    bound = divided(negated(start), ("num", slope))
    return (piece(MINUS_INFINITY, bound, False, closed) if slope > 0 else piece(bound, INFINITY, closed, False),)


def _single(tokens: list[Token]) -> Single:
    """An expression with what stands around it: a currency sign before, a unit, percent sign or words behind."""
    unit_words = ""
    tokens = list(tokens)
    for place in (0, 1):
        if len(tokens) > place + 1 and tokens[place].kind == "unit":
            unit_words = tokens.pop(place).value
            break
    if tokens and tokens[0].kind == "text":
        if not OPENERS.search(tokens[0].value) or REFUSALS.search(tokens[0].value):
            raise NotMathError("words")
        tokens = tokens[1:]
    place = next((k for k, token in enumerate(tokens) if token.kind in ("text", "unit")), len(tokens))
    place = _degrees_of_heat(tokens, place)
    tokens, tail = tokens[:place], tokens[place:]
    scale = Fraction(1)
    if tail and tail[0].value.lower() in SCALES:
        scale = Fraction(SCALES[tail[0].value.lower()])
        tail = tail[1:]
    said = " ".join(_spelled(token) for token in tail)
    if REFUSALS.search(said) or len(said) > 60:
        raise NotMathError("words")
    unit = read_unit(unit_words + " " + said)
    percent = unit == (("%", 1),)
    if tokens and tokens[-1].value == "%":
        tokens, percent = tokens[:-1], True
    expr = parse(tokens)
    if expr[:2] == ("fn", "degree") and unit is None:
        expr, unit = expr[2], (("°", 1),)
    expr = ("mul", expr, ("num", scale)) if scale != 1 else expr
    return Single(expr, None if percent else unit, percent)


def _degrees_of_heat(tokens: list[Token], place: int) -> int:
    if len(tokens) > 2 and place == len(tokens) and tokens[-2].value == "°" and tokens[-1].value in ("C", "F"):
        return place - 2
    return place


def _spelled(token: Token) -> str:
    if token.kind != "num":
        return token.value
    if token.number.denominator != 1 or abs(token.number) > 10**6:
        raise NotMathError("a number in a unit")
    return str(token.number)


Oracle = Callable[[Expr, Expr], bool | None]
