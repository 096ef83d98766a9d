"""From tokens to an expression: nested tuples whose first item says what they are.

("num", Fraction), ("sym", name), ("add", *terms), ("mul", *factors), ("inv", x), ("pow", a, b), ("pm", x), ("mp", x),
("fn", name, *arguments), ("matrix", *rows of tuples). Numbers next to each other are a mixed number or an error,
never a product.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from strop.rewards.math.notation import CHUNK, NotMathError, Token, num, whole_number

MAX_DEPTH = 48
Expr = tuple[Any, ...]
ONE: Expr = ("num", Fraction(1))
PARTNER = {"(": ")", "[": "]", "{": "}", "⌊": "⌋", "⌈": "⌉"}
TRIG = frozenset("sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan".split())
INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot"}
SAME = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "lg": "log10"}
MATRICES = frozenset("pmatrix bmatrix matrix vmatrix Bmatrix smallmatrix array".split())
UNKNOWN_FUNCTIONS = frozenset("fghFGHP")


def negated(value: Expr) -> Expr:
    if value[0] == "num":
        return ("num", -value[1])
    return ("mul", ("num", Fraction(-1)), value)


def divided(over: Expr, under: Expr) -> Expr:
    return ("mul", over, ("inv", under))


def parse(tokens: Sequence[Token]) -> Expr:
    """The expression that all of `tokens` spell. NotMathError where they do not."""
    parser = Parser(tokens)
    value = parser.sum()
    if parser.take("over"):
        value = divided(value, parser.sum())
    if parser.at < len(tokens):
        raise NotMathError(f"cannot read on from {tokens[parser.at].value!r}")
    return value


class Parser:
    """Precedence from loose to tight: + and -, then products (written or not) and /, then signs, powers, postfixes."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0
        self.bars = 0

    def peek(self, *values: str) -> bool:
        if self.at >= len(self.tokens):
            return False
        token = self.tokens[self.at]
        return token.value in values and token.kind not in ("num", "text")

    def take(self, *values: str) -> bool:
        if self.peek(*values):
            self.at += 1
            return True
        return False

    def need(self, value: str) -> None:
        if not self.take(value):
            raise NotMathError(f"{value!r} is missing")

    def next(self) -> Token:
        if self.at >= len(self.tokens):
            raise NotMathError("it ends too soon")
        self.at += 1
        return self.tokens[self.at - 1]

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotMathError("too deeply nested")

    def sum(self) -> Expr:
        self.deeper()
        terms = [self.term()]
        while self.peek("+", "-", "±", "∓"):
            sign = self.next().value
            term = self.term()
            terms.append({"+": term, "-": negated(term), "±": ("pm", term), "∓": ("mp", term)}[str(sign)])
        self.depth -= 1
        if self.peek("mod"):
            self.at += 1
            return ("fn", "mod", terms[0] if len(terms) == 1 else ("add", *terms), self.sum())
        return terms[0] if len(terms) == 1 else ("add", *terms)

    def term(self) -> Expr:
        sign = 1
        mark = ""
        while self.peek("+", "-", "±", "∓"):
            value = self.next().value
            sign = -sign if value == "-" else sign
            mark = str(value) if value in "±∓" else mark
        factors = [self.power()]
        while True:
            if self.take("*"):
                factors.append(self.signed())
            elif self.peek("/", ":") and self.tokens[self.at].value == "/":
                self.at += 1
                factors.append(("inv", self.signed()))
            elif self.starts_factor():
                factors.append(self.implied(factors[-1]))
            else:
                break
        value = factors[0] if len(factors) == 1 else ("mul", *factors)
        value = negated(value) if sign < 0 else value
        return (("pm" if mark == "±" else "mp"), value) if mark else value

    def signed(self) -> Expr:
        sign = 1
        while self.peek("+", "-"):
            sign = -sign if self.next().value == "-" else sign
        value = self.power()
        return negated(value) if sign < 0 else value

    def implied(self, before: Expr) -> Expr:
        token = self.tokens[self.at]
        if token.kind == "num" and before[0] == "num":
            raise NotMathError("two numbers in a row")
        if token.kind == "num" and self.tokens[self.at - 1].kind == "num":
            raise NotMathError("two numbers in a row")
        return self.power()

    def starts_factor(self) -> bool:
        if self.at >= len(self.tokens):
            return False
        token = self.tokens[self.at]
        if token.kind in ("num", "name", "fn"):
            return True
        if token.kind == "open":
            return token.value in "([{⌊⌈"
        return token.kind == "begin" or (token.value == "|" and not self.bars)

    def power(self) -> Expr:
        value = self.postfix(self.atom())
        if self.take("^"):
            if self.peek("'"):
                raise NotMathError("a derivative")
            self.deeper()
            exponent = self.exponent()
            self.depth -= 1
            if exponent == ("sym", "T") and value[0] == "matrix":
                return ("matrix", *zip(*value[1:], strict=True))
            value = self.postfix(("pow", value, exponent))
        return value

    def exponent(self) -> Expr:
        """`^` binds one digit in LaTeX (bare `2^10` is the calculator's 10), a group, or a sign and either."""
        sign = 1
        while self.peek("+", "-"):
            sign = -sign if self.next().value == "-" else sign
        value = self.power()
        return negated(value) if sign < 0 else value

    def postfix(self, value: Expr) -> Expr:
        depth = 0
        while True:
            if self.take("!"):
                depth += 1
                if depth > MAX_DEPTH or self.peek("!"):
                    raise NotMathError("a double factorial")
                value = ("fn", "factorial", value)
            elif self.take("%"):
                value = ("mul", value, ("num", Fraction(1, 100)))
            elif self.take("°"):
                value = ("fn", "degree", value)
            else:
                return value

    def atom(self) -> Expr:
        token = self.next()
        if token.kind == "num":
            return self.number(token)
        if token.kind == "name":
            return self.name(token)
        if token.kind == "fn":
            return self.function(token.value)
        if token.kind == "open" and token.value in PARTNER:
            return self.group(token.value)
        if token.value == "|":
            self.bars += 1
            inner = self.sum()
            self.need("|")
            self.bars -= 1
            return ("fn", "abs", inner)
        if token.kind == "begin":
            return self.matrix(token.value)
        raise NotMathError(f"{token.value!r} begins no expression")

    def group(self, bracket: str) -> Expr:
        bars, self.bars = self.bars, 0
        value = self.sum()
        if bracket == "{" and self.take("over"):
            value = divided(value, self.sum())
        self.need(PARTNER[bracket])
        self.bars = bars
        if bracket in "⌊⌈":
            return ("fn", "floor" if bracket == "⌊" else "ceil", value)
        return value

    def number(self, token: Token) -> Expr:
        value = token.number
        if self.peek("_"):
            self.at += 1
            return ("fn", "based", ("num", value), self.subscript())
        if token.whole and self.peek("frac") and self.tokens[self.at].kind == "fn":
            parsed = Parser(self.tokens[self.at :])
            part = parsed.atom()
            if part[0] == "mul" and len(part) == 3 and part[1][0] == "num" and part[2][1][0] == "num" and part[2][1][1]:
                fraction = part[1][1] / part[2][1][1]
                if fraction >= 0 and part[1][1].denominator == part[2][1][1].denominator == 1:
                    self.at += parsed.at
                    return ("num", value + fraction)
        return ("num", value)

    def name(self, token: Token) -> Expr:
        name = token.value
        if self.take("_"):
            return ("sym", f"{name}_{_key(self.subscript())}")
        while self.take("'"):
            name += "'"
        if name in UNKNOWN_FUNCTIONS and self.peek("("):
            self.at += 1
            arguments = self.arguments()
            return ("fn", "of " + name, *arguments)
        if name in ("∅", "ℝ") or name.startswith("math"):
            raise NotMathError("a set inside an expression")
        return ("sym", name)

    def arguments(self) -> list[Expr]:
        found = [self.sum()]
        while self.take(","):
            found.append(self.sum())
        self.need(")")
        return found

    def subscript(self) -> Expr:
        token = self.next()
        if token.kind == "open" and token.value == "{":
            inner = self.tokens[self.at]
            if inner.kind == "text" and self.tokens[self.at + 1 : self.at + 2]:
                self.at += 1
                self.need("}")
                return ("sym", inner.value)
            return self.group("{")
        if token.kind == "num":
            return ("num", token.number)
        if token.kind in ("name", "text"):
            return ("sym", token.value)
        raise NotMathError("a subscript that cannot be read")

    def argument(self, *, digits: bool = True) -> Expr:
        """A group, or one token; of a row of digits LaTeX takes the first alone."""
        token = self.next()
        if token.kind == "open":
            if token.value == "(":
                return self.arguments()[0]
            return self.group(token.value)
        if token.kind == "num" and token.whole and digits:
            said = str(token.number) if token.number < 10**CHUNK else ""
            if len(said) > 1:
                rest = num(Fraction(whole_number(said[1:])), True)
                self.tokens = [*self.tokens[: self.at], rest, *self.tokens[self.at :]]
                return ("num", Fraction(int(said[0])))
        if token.kind == "num":
            return ("num", token.number)
        if token.kind == "name":
            return self.name(token)
        if token.kind == "fn":
            return self.function(token.value)
        raise NotMathError("an argument is missing")

    def function(self, name: str) -> Expr:
        self.deeper()
        value = self._function(SAME.get(name, name))
        self.depth -= 1
        return value

    def _function(self, name: str) -> Expr:
        if name in ("frac", "binom"):
            over = self.argument()
            under = self.argument()
            return divided(over, under) if name == "frac" else ("fn", "binom", over, under)
        if name == "sqrt":
            degree = None
            if self.take("["):
                degree = self.sum()
                self.need("]")
            inner = self.argument(digits=False)
            return ("pow", inner, ("inv", degree if degree is not None else ("num", Fraction(2))))
        if name == "cbrt":
            return ("pow", self.argument(digits=False), ("num", Fraction(1, 3)))
        return self._applied(name)

    def _applied(self, name: str) -> Expr:
        base = raised = None
        if self.take("_"):
            base = self.subscript()
        if self.take("^"):
            raised = self.argument(digits=False)
            if raised == ("num", Fraction(-1)) and name in INVERSES:
                name, raised = INVERSES[name], None
        if name == "log" and base is None and self.at < len(self.tokens) and self.tokens[self.at].kind == "op":
            raise NotMathError("log of nothing")
        if self.take("("):
            arguments = self.arguments()
        elif self.peek("{"):
            arguments = [self.argument()]
        else:
            arguments = [self.plain_argument()]
        if name == "exp":
            value: Expr = ("pow", ("sym", "e"), arguments[0])
        elif name == "log" and base is not None:
            value = ("fn", "logb", arguments[0], base)
        elif name == "log10":
            value = ("fn", "logb", arguments[0], ("num", Fraction(10)))
        else:
            value = ("fn", name, *arguments)
        return ("pow", value, raised) if raised is not None else value

    def plain_argument(self) -> Expr:
        """`sin 2x` is of 2x: the factors up to a sign, a division or another function."""
        sign = 1
        while self.peek("+", "-"):
            sign = -sign if self.next().value == "-" else sign
        factors = [self.power()]
        while self.starts_factor():
            token = self.tokens[self.at]
            if (token.kind == "fn" and token.value not in ("frac", "sqrt")) or token.value in ("|", "(", "["):
                break
            factors.append(self.implied(factors[-1]))
        if self.peek("/") and factors[-1][0] in ("num", "sym") and self._slash_of_pi(factors):
            self.at += 1
            factors.append(("inv", self.power()))
        value = factors[0] if len(factors) == 1 else ("mul", *factors)
        return negated(value) if sign < 0 else value

    def _slash_of_pi(self, factors: list[Expr]) -> bool:
        return (
            factors[-1] == ("sym", "pi") and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1].kind == "num"
        )

    def matrix(self, kind: str) -> Expr:
        if kind not in MATRICES:
            raise NotMathError(f"the environment {kind}")
        if self.peek("{"):  # the columns of an array
            while not self.take("}"):
                self.next()
        rows: list[tuple[Expr, ...]] = []
        row: list[Expr] = []
        while self.at < len(self.tokens) and self.tokens[self.at].kind != "end":
            row.append(self.sum())
            if self.take("&"):
                continue
            rows.append(tuple(row))
            row = []
            if not self.take("↵"):
                break
        if self.next().kind != "end" or not rows or len({len(r) for r in rows}) != 1:
            raise NotMathError("rows of different lengths")
        return ("fn", "det", ("matrix", *rows)) if kind == "vmatrix" else ("matrix", *rows)


def _key(value: Expr) -> str:
    if value[0] == "num":
        return str(value[1])
    return str(value[1]) if value[0] == "sym" else repr(value)
