"""What an answer can be: a value, words, a group of answers, a set of numbers, a relation, or named values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from strop.rewards.math.notation import GREEK, NotMathError, Token, plain_signs
from strop.rewards.math.parse import Expr
from strop.rewards.math.regions import WHOLE, Piece
from strop.rewards.math.units import Unit


@dataclass(frozen=True, slots=True)
class Words:
    text: str


@dataclass(frozen=True, slots=True)
class Single:
    """`places` counts the digits that a plain decimal number was written with (significant, after the point)."""

    expr: Expr
    unit: Unit | None = None
    percent: bool = False
    places: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """`kind` is "list" (bare commas), "set", "ratio", or a pair of brackets such as "()" and "[)"."""

    kind: str
    parts: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Region:
    pieces: tuple[Piece, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """`difference` compared with 0 by `sign`, which is "=", "<" or "<="."""

    difference: Expr
    sign: str


@dataclass(frozen=True, slots=True)
class Named:
    """Values by name; `arguments` are those of the one name that is a function."""

    values: Mapping[str, Shape]
    arguments: tuple[str, ...] = ()


Shape = Words | Single | Group | Region | Relation | Named
NOTHING = frozenset(
    "no solution|no solutions|no real solution|no real solutions|empty set|no such value|no such values|∅".split("|")
)
EVERYTHING = frozenset(
    "all real numbers|all reals|all real|any real number|real numbers|all real x|all real values|every real number".split(
        "|"
    )
)


def words(text: str) -> Shape:
    """Words as they are compared: without fonts, case, marks and articles; or the set they speak of."""
    plain = re.sub(r"\\(?:text\w*|math\w+|mbox|operatorname|left|right|quad)\b", " ", plain_signs(text))
    plain = re.sub(r"[⟪⟫{}$\"`*~]|\\[,;:! ]", " ", plain.replace("\\'", "'"))
    said = " ".join(plain.split()).strip(" .,;:!?()'")
    if len(said) > 1:
        said = re.sub(r"^(?:the|a|an) ", "", said.casefold())
    if said in NOTHING:
        return Group("set", ())
    if said in EVERYTHING:
        return Region(WHOLE)
    return Words(said)


def variable(tokens: list[Token]) -> tuple[str, tuple[str, ...]] | None:
    """The name that `x`, `x_1`, `f(x)` or `y'` is, with the arguments of a function."""
    values = [t.value if t.kind != "num" else str(t.number) for t in tokens[:12]]
    if not tokens or len(tokens) > 12 or tokens[0].kind != "name" or not (values[0].isalpha() or values[0] in GREEK):
        return None
    if values[0] in ("pi", "e", "i", "oo", "∅", "ℝ") and not (values[0] == "e" and len(values) > 1):
        return None
    joined = "".join(values)
    if match := re.fullmatch(r"([A-Za-z]+'*)\(([a-z](?:,[a-z])*)\)", joined):
        return match[1], tuple(match[2].split(","))
    if len(tokens) == 1 or re.fullmatch(r"[A-Za-z]+(?:_\{?\w+\}?)?'*", joined):
        return re.sub("[{}]", "", joined), ()
    return None


def substituted(expr: Expr, names: Mapping[str, Expr]) -> Expr:
    """`expr` with symbols replaced."""
    if expr[0] == "sym":
        return names.get(expr[1], expr)
    return tuple(substituted(p, names) if isinstance(p, tuple) and p and isinstance(p[0], str) else p for p in expr)


def symbols(expr: Expr) -> set[str]:
    """The variables of an expression, constants left out."""
    if expr[0] == "sym":
        return {expr[1]} - {"pi", "e", "i", "oo"}
    if expr[0] == "matrix":
        return {name for row in expr[1:] for cell in row for name in symbols(cell)}
    return {name for part in expr[1:] if isinstance(part, tuple) for name in symbols(part)}


def linear(expr: Expr, name: str) -> tuple[Fraction, Expr] | None:
    """(a, b) where `expr` is a·name + b with a rational a other than 0 and b free of variables."""
    from strop.rewards.math.exact import UndecidedError, UndefinedError, evaluate

    if symbols(expr) != {name}:
        return None
    at = [substituted(expr, {name: ("num", Fraction(k))}) for k in (0, 1, 2)]
    try:
        values = [evaluate(e) for e in at]
        steps = [evaluate(("add", at[k + 1], ("mul", ("num", Fraction(-1)), at[k]))).rational for k in (0, 1)]
        whole = evaluate(expr)
    except (UndecidedError, UndefinedError, NotMathError):
        return None
    if whole.opaque or any(v.opaque for v in values) or whole.den is not None:
        return None
    if steps[0] is None or not steps[0] or steps[0] != steps[1]:
        return None
    if any(power != 1 for monomial in whole.num for atom, power in monomial if atom == name):
        return None
    return steps[0], at[0]
