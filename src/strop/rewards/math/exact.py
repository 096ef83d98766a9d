"""The exact value of an expression: a quotient of polynomials in variables, roots of primes, pi, e and i.

Roots of primes, i, pi and variables are independent over the rationals, so two values with the same normal form are
equal and with other ones are not. Anything else (sin, a root of a sum, a variable exponent) becomes an unknown of its
own: then equal forms are still equal, and other ones are undecided.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb, factorial, gcd, isqrt

from strop.rewards.math.parse import Expr

MAX_BITS = 200_000
MAX_TERMS = 400
MAX_POWER = 40
MAX_FACTORIAL = 5000
TRIAL = 1000

Monomial = tuple[tuple[str, Fraction], ...]
Poly = dict[Monomial, Fraction]
Matrix = tuple[tuple["Value", ...], ...]


class UndecidedError(Exception):
    """The value is beyond what exact arithmetic does here."""


class UndefinedError(Exception):
    """The expression has no value: a division by zero."""


class Value:
    """`num / den`; `opaque` says that an unknown stands in it whose relations to others are not known."""

    __slots__ = ("den", "num", "opaque")

    def __init__(self, num: Poly, den: Poly | None = None, opaque: bool = False) -> None:
        self.num, self.den, self.opaque = num, den, opaque

    def key(self) -> str:
        parts = [self.num] if self.den is None else [self.num, self.den]
        return "/".join(
            repr(sorted((repr(m), f"{c.numerator:x}/{c.denominator:x}") for m, c in part.items())) for part in parts
        )

    @property
    def rational(self) -> Fraction | None:
        """The value, where it is a rational number."""
        if self.den is not None or self.opaque:
            return None
        if not self.num:
            return Fraction(0)
        return self.num.get(()) if len(self.num) == 1 else None


def number(value: Fraction | int) -> Value:
    return Value({(): Fraction(value)} if value else {})


def symbol(name: str, opaque: bool = False) -> Value:
    return Value({((name, Fraction(1)),): Fraction(1)}, None, opaque)


def add(left: Value, right: Value) -> Value:
    opaque = left.opaque or right.opaque
    if left.den is None and right.den is None:
        return Value(_add(left.num, right.num), None, opaque)
    a, b = left.den or {(): Fraction(1)}, right.den or {(): Fraction(1)}
    if a == b:
        return _value(_add(left.num, right.num), a, opaque)
    return _value(_add(_mul(left.num, b), _mul(right.num, a)), _mul(a, b), opaque)


def mul(left: Value, right: Value) -> Value:
    opaque = left.opaque or right.opaque
    num = _mul(left.num, right.num)
    if left.den is None and right.den is None:
        return Value(num, None, opaque)
    return _value(num, _mul(left.den or {(): Fraction(1)}, right.den or {(): Fraction(1)}), opaque)


def invert(value: Value) -> Value:
    if not value.num:
        raise UndefinedError("division by zero")
    return _value(value.den or {(): Fraction(1)}, value.num, value.opaque)


def same(left: Value, right: Value) -> bool | None:
    """True where the forms are equal, False where they are not and that says something, else None."""
    a, b = left.den or {(): Fraction(1)}, right.den or {(): Fraction(1)}
    if left.num == right.num and a == b:
        return True
    if _mul(left.num, b) == _mul(right.num, a):
        return True
    return None if left.opaque or right.opaque else False


def _value(num: Poly, den: Poly, opaque: bool) -> Value:
    if not den:
        raise UndefinedError("division by zero")
    if len(den) == 1:
        (monomial, coefficient), *_ = den.items()
        inverse: Monomial = tuple((name, -power) for name, power in monomial)
        return Value(_mul(num, _normal(inverse, 1 / coefficient)), None, opaque)
    return Value(num, den, opaque)


def _add(left: Poly, right: Poly) -> Poly:
    total = dict(left)
    for monomial, coefficient in right.items():
        value = total.get(monomial, 0) + coefficient
        if value:
            total[monomial] = Fraction(value)
        else:
            total.pop(monomial, None)
    if len(total) > MAX_TERMS:
        raise UndecidedError("too many terms")
    return total


def _mul(left: Poly, right: Poly) -> Poly:
    if len(left) * len(right) > MAX_TERMS * 20:
        raise UndecidedError("too many terms")
    if len(right) == 1 and () in right:
        factor = right[()]
        return left if factor == 1 else {m: _bounded(c, factor) for m, c in left.items()}
    total: Poly = {}
    for a, x in left.items():
        for b, y in right.items():
            for monomial, coefficient in _normal(_joined(a, b), _bounded(x, y)).items():
                value = total.get(monomial, 0) + coefficient
                if value:
                    total[monomial] = Fraction(value)
                else:
                    total.pop(monomial, None)
    if len(total) > MAX_TERMS:
        raise UndecidedError("too many terms")
    return total


def _bounded(left: Fraction, right: Fraction) -> Fraction:
    product = left * right
    if product.numerator.bit_length() > MAX_BITS or product.denominator.bit_length() > MAX_BITS:
        raise UndecidedError("too large")
    return product


def _joined(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    powers = dict(left)
    for name, power in right:
        powers[name] = powers.get(name, Fraction(0)) + power
    return tuple(sorted(powers.items()))


def _normal(monomial: Monomial, coefficient: Fraction) -> Poly:
    """Whole powers of primes and of i move into the coefficient; powers of 0 vanish."""
    kept: list[tuple[str, Fraction]] = []
    for name, power in monomial:
        if not power:
            continue
        if name[0].isdigit():
            whole = power.numerator // power.denominator
            coefficient = _bounded(coefficient, _power_of(Fraction(int(name)), whole))
            power -= whole
            if not power:
                continue
        elif name == "i":
            turns = int(power) % 4
            coefficient = -coefficient if turns >= 2 else coefficient
            if turns % 2 == 0:
                continue
            power = Fraction(1)
        kept.append((name, power))
    return {tuple(kept): coefficient}


def _power_of(base: Fraction, exponent: int) -> Fraction:
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits > 1 and bits * abs(exponent) > MAX_BITS:
        raise UndecidedError("too large")
    if not base and exponent < 0:
        raise UndefinedError("division by zero")
    return base**exponent if abs(exponent) <= MAX_BITS or abs(base) != 1 else base ** (2 + exponent % 2)


def power(base: Value, exponent: Value) -> Value:
    """Integer powers, roots of rational numbers, and powers of single terms; others are an unknown of their own."""
    q = exponent.rational
    if q is None:
        if base.num == {(("e", Fraction(1)),): Fraction(1)} and base.den is None:
            return _exponential(exponent)
        return symbol(f"({base.key()})^({exponent.key()})", opaque=True)
    if q.denominator == 1:
        return _whole_power(base, int(q))
    r = base.rational
    if r is not None and r > 0:
        return _root(r, q)
    if r is not None and r < 0 and q.denominator == 2:
        return mul(_root(-r, q), _whole_power(symbol("i"), int(q * 2)))
    if r is not None and r < 0 and q.denominator % 2:  # the real root: that of -8 is -2
        return mul(_root(-r, q), number((-1) ** q.numerator))
    if r == 0 and q > 0:
        return number(0)
    if base.den is None and len(base.num) == 1 and not base.opaque:
        (monomial, coefficient), *_ = base.num.items()
        if coefficient > 0 and all(name[0].isdigit() or name in ("pi", "e") for name, _ in monomial):
            rest = _normal(tuple((name, p * q) for name, p in monomial), Fraction(1))
            return mul(_root(coefficient, q), Value(rest))
    return symbol(f"({base.key()})^{q}", opaque=True)


def _exponential(exponent: Value) -> Value:
    return symbol(f"exp({exponent.key()})", opaque=True)


def _whole_power(base: Value, exponent: int) -> Value:
    if exponent < 0:
        return _whole_power(invert(base), -exponent)
    if base.den is None and len(base.num) == 1:
        (monomial, coefficient), *_ = base.num.items()
        raised: Monomial = tuple((name, p * exponent) for name, p in monomial)
        return Value(_normal(raised, _power_of(coefficient, exponent)), None, base.opaque)
    if exponent > MAX_POWER:
        raise UndecidedError("too high a power")
    result = number(1)
    for _ in range(exponent):
        result = mul(result, base)
    return result


def _root(value: Fraction, exponent: Fraction) -> Value:
    """value ** exponent of a positive rational, as a rational times roots of primes."""
    powers: dict[str, Fraction] = {}
    coefficient = Fraction(1)
    for whole, sign in ((value.numerator, 1), (value.denominator, -1)):
        for prime, times in factors(whole).items():
            powers[str(prime)] = powers.get(str(prime), Fraction(0)) + sign * times * exponent
    return Value(_normal(tuple(sorted(powers.items())), coefficient))


def factors(whole: int) -> dict[int, int]:
    """The prime factors of a positive integer; UndecidedError where they are large."""
    found: dict[int, int] = {}
    if whole.bit_length() > 2000:
        raise UndecidedError("too large to factor")
    divisor = 2
    while divisor * divisor <= whole and divisor <= TRIAL:
        while whole % divisor == 0:
            found[divisor] = found.get(divisor, 0) + 1
            whole //= divisor
        divisor += 1 if divisor == 2 else 2
    if whole > 1:
        if whole > TRIAL * TRIAL:
            root = isqrt(whole)
            if root * root == whole and root <= TRIAL * TRIAL:
                found[root] = found.get(root, 0) + 2
                return found
            raise UndecidedError("too large to factor")
        found[whole] = found.get(whole, 0) + 1
    return found


def evaluate(expr: Expr) -> Value:
    """UndefinedError for a division by zero, UndecidedError where exact arithmetic ends."""
    kind = expr[0]
    if kind == "num":
        return number(expr[1])
    if kind == "sym":
        return symbol(expr[1], opaque=expr[1] == "oo")
    if kind == "add":
        total = evaluate(expr[1])
        for term in expr[2:]:
            total = add(total, evaluate(term))
        return total
    if kind == "mul":
        return _product(expr[1:])
    if kind == "inv":
        return invert(evaluate(expr[1]))
    if kind == "pow":
        return power(evaluate(expr[1]), evaluate(expr[2]))
    if kind == "fn":
        return _function(expr[1], expr[2:])
    raise UndecidedError(f"{kind} has no one value")


def _product(factors: tuple[Expr, ...]) -> Value:
    """Numbers are gathered first: a chain of a thousand divisions is one quotient."""
    coefficient = Fraction(1)
    product = None
    for factor in factors:
        inverse = factor[0] == "inv"
        inner = factor[1] if inverse else factor
        if inner[0] == "num":
            if inverse and not inner[1]:
                raise UndefinedError("division by zero")
            coefficient = _bounded(coefficient, 1 / inner[1] if inverse else inner[1])
            continue
        value = invert(evaluate(inner)) if inverse else evaluate(inner)
        product = value if product is None else mul(product, value)
    return number(coefficient) if product is None else mul(product, number(coefficient))


def _function(name: str, arguments: tuple[Expr, ...]) -> Value:
    if name == "degree":
        return evaluate(arguments[0])
    if name == "det":
        return _determinant(arguments[0])
    values = [evaluate(argument) for argument in arguments]
    rationals = [value.rational for value in values]
    known = _of_rationals(name, rationals) if all(r is not None for r in rationals) else None  # type: ignore[arg-type]
    if known is not None:
        return known
    if name == "abs":
        return _modulus(values[0])
    return symbol(f"{name}({', '.join(value.key() for value in values)})", opaque=name != "based")


def _of_rationals(name: str, given: list[Fraction]) -> Value | None:
    x = given[0]
    if name == "factorial" and x.denominator == 1:
        if x < 0:
            raise UndefinedError("the factorial of a negative number")
        if x > MAX_FACTORIAL:
            raise UndecidedError("too large")
        return number(factorial(int(x)))
    if name == "binom" and all(g.denominator == 1 for g in given) and 0 <= given[1] <= x <= MAX_FACTORIAL:
        return number(comb(int(x), int(given[1])))
    if name == "abs":
        return number(abs(x))
    if name in ("floor", "ceil"):
        return number(x.numerator // x.denominator if name == "floor" else -((-x.numerator) // x.denominator))
    if name == "mod" and len(given) == 2:
        if not given[1]:
            raise UndefinedError("a remainder of a division by zero")
        return number(x - given[1] * ((x / given[1]).numerator // (x / given[1]).denominator))
    if name in ("max", "min"):
        return number(max(given) if name == "max" else min(given))
    if name in ("gcd", "lcm") and all(g.denominator == 1 and g for g in given):
        value = int(x)
        for other in given[1:]:
            shared = gcd(value, int(other))
            value = shared if name == "gcd" else abs(value * int(other)) // shared
        return number(value)
    return _logarithm(x, given[1]) if name == "logb" and len(given) == 2 else None


def _logarithm(x: Fraction, base: Fraction) -> Value | None:
    """log of x where both are powers of one number."""
    if x <= 0 or base <= 0 or base == 1:
        raise UndefinedError("a logarithm of nothing")
    if x == 1:
        return number(0)
    exponents = []
    for value in (x, base):
        over, under = factors(value.numerator), factors(value.denominator)
        exponents.append({**over, **{prime: -times for prime, times in under.items()}})
    if set(exponents[0]) != set(exponents[1]):
        return None
    quotients = {Fraction(exponents[0][prime], exponents[1][prime]) for prime in exponents[0]}
    return number(quotients.pop()) if len(quotients) == 1 else None


def _modulus(value: Value) -> Value:
    """|a + bi| of numbers a and b without variables; of anything else an unknown."""
    names = {name for monomial in value.num for name, _ in monomial}
    if value.den is None and "i" in names and not value.opaque and all(n[0].isdigit() or n == "i" for n in names):
        real = {m: c for m, c in value.num.items() if all(name != "i" for name, _ in m)}
        other = {tuple(p for p in m if p[0] != "i"): c for m, c in value.num.items() if any(n == "i" for n, _ in m)}
        square = Value(_add(_mul(real, real), _mul(other, other)))
        return power(square, number(Fraction(1, 2)))
    return symbol(f"abs({value.key()})", opaque=True)


def _determinant(matrix: Expr) -> Value:
    if matrix[0] != "matrix":
        return symbol("det " + evaluate(matrix).key(), opaque=True)
    rows = [[evaluate(cell) for cell in row] for row in matrix[1:]]
    if len(rows) != len(rows[0]) or len(rows) > 5:
        raise UndecidedError("no square matrix of a size worth it")
    return _expanded(rows)


def _expanded(rows: list[list[Value]]) -> Value:
    if len(rows) == 1:
        return rows[0][0]
    total = number(0)
    for column, cell in enumerate(rows[0]):
        minor = _expanded([[*row[:column], *row[column + 1 :]] for row in rows[1:]])
        total = add(total, mul(number((-1) ** column), mul(cell, minor)))
    return total
