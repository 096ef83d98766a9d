"""Functions of one line whose code, words and values are all known here, without running what a policy wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Arguments = tuple[Any, ...]
MAX_REDRAWS = 60


@dataclass(frozen=True, slots=True)
class Function:
    """`return` `expression` over `parameters`, what that does in words, and its value for given arguments."""

    parameters: tuple[str, ...]
    expression: str
    words: str
    value: Callable[..., Any]

    def code(self, name: str) -> str:
        return f"def {name}({', '.join(self.parameters)}): return {self.expression}"


@dataclass(frozen=True, slots=True)
class Step:
    """One operation with a number: `{e}` is the inner expression, `{p}` the same in parentheses where it needs them."""

    code: str
    words: tuple[str, ...]
    numbers: range
    value: Callable[[Any, int], Any]


STEPS = (
    Step("{e} + {k}", ("adds {k} to {it}", "increases {it} by {k}"), range(2, 100), lambda v, k: v + k),
    Step("{e} - {k}", ("subtracts {k} from {it}", "decreases {it} by {k}"), range(2, 100), lambda v, k: v - k),
    Step("{k} - {p}", ("subtracts {it} from {k}", "takes {k} minus {it}"), range(2, 100), lambda v, k: k - v),
    Step("{p} * {k}", ("multiplies {it} by {k}", "takes {k} times {it}"), range(2, 30), lambda v, k: v * k),
    Step("{p} // {k}", ("divides {it} by {k}, rounding down",), range(2, 20), lambda v, k: v // k),
    Step("{p} % {k}", ("takes {it} modulo {k}", "takes the rest of {it} by {k}"), range(5, 50), lambda v, k: v % k),
)

ONE = Function(("x",), "x", "", lambda x: x)
PAIRS = (
    Function(("x", "y"), "x + y", "adds x and y", lambda x, y: x + y),
    Function(("x", "y"), "x - y", "subtracts y from x", lambda x, y: x - y),
    Function(("x", "y"), "x * y", "multiplies x and y", lambda x, y: x * y),
    Function(("x", "y"), "max(x, y)", "takes the larger of x and y", lambda x, y: max(x, y)),
    Function(("x", "y"), "min(x, y)", "takes the smaller of x and y", lambda x, y: min(x, y)),
    Function(("x", "y"), "abs(x - y)", "takes the distance between x and y", lambda x, y: abs(x - y)),
)


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps one after another on a first value: the form that faults are put into."""

    base: Function
    steps: tuple[tuple[Step, int], ...]

    def function(self, draw: Random) -> Function:
        expression, said = self.base.expression, [self.base.words] if self.base.words else []
        for step, k in self.steps:
            words = draw.choice(step.words).format(k=k, it="it" if said else "x")
            expression, said = step.code.format(e=expression, p=_grouped(expression), k=k), [*said, words]
        return Function(self.base.parameters, expression, " and then ".join(said), self.value)

    def value(self, *arguments: Any) -> Any:
        value = self.base.value(*arguments)
        for step, k in self.steps:
            value = step.value(value, k)
        return value

    def edits(self) -> list[Chain]:
        """Every chain with one other operation or one other number."""
        found = [Chain(other, self.steps) for other in PAIRS if len(self.base.parameters) == 2 and other != self.base]
        for place, (step, k) in enumerate(self.steps):
            others = [(other, k) for other in STEPS if other is not step and k in other.numbers]
            others += [(step, number) for number in step.numbers if number != k]
            found += [Chain(self.base, (*self.steps[:place], o, *self.steps[place + 1 :])) for o in others]
        return found


def draw_chain(draw: Random, base: Function, count: int) -> Chain:
    """A chain of `count` different steps; with several, of small numbers."""
    steps = draw.sample(STEPS, count)
    return Chain(base, tuple((step, draw.choice(step.numbers[: 100 if count == 1 else 18])) for step in steps))


def _grouped(expression: str) -> str:
    is_call = expression.endswith(")") and expression[:3] in ("max", "min", "abs")
    return expression if expression.isidentifier() or is_call else f"({expression})"


@dataclass(frozen=True, slots=True)
class Choice:
    """Pieces of conditional functions: code, words and value, each with a number `k`."""

    code: str
    words: str
    value: Callable[[int, int], Any]


CONDITIONS = (
    Choice("x > {k}", "x is greater than {k}", lambda x, k: x > k),
    Choice("x < {k}", "x is less than {k}", lambda x, k: x < k),
    Choice("x % {k} == 0", "x is divisible by {k}", lambda x, k: x % k == 0),
    Choice("x % {k} != 0", "x is not divisible by {k}", lambda x, k: x % k != 0),
)
BRANCHES = (
    Choice("x + {k}", "x plus {k}", lambda x, k: x + k),
    Choice("x - {k}", "x minus {k}", lambda x, k: x - k),
    Choice("x * {k}", "x times {k}", lambda x, k: x * k),
)


def draw_conditional(draw: Random) -> tuple[Function, list[Callable[..., Any]]]:
    """A function with two branches, and each branch alone."""
    condition = draw.choice(CONDITIONS)
    k = draw.randrange(2, 8) if "%" in condition.code else draw.randrange(20, 80)
    first, second = draw.sample(BRANCHES, 2)
    a, b = draw.randrange(2, 20), draw.randrange(2, 20)
    code = f"{first.code.format(k=a)} if {condition.code.format(k=k)} else {second.code.format(k=b)}"
    words = f"gives {first.words.format(k=a)} if {condition.words.format(k=k)}, else {second.words.format(k=b)}"
    branches: list[Callable[..., Any]] = [lambda x: first.value(x, a), lambda x: second.value(x, b)]
    function = Function(
        ("x",), code, words, lambda x: first.value(x, a) if condition.value(x, k) else second.value(x, b)
    )
    return function, branches


Piece = tuple[str, str, Callable[[Any, int], Any]]
TEXTS: tuple[Piece, ...] = (
    ("s * {k}", "repeats the text s {k} times", lambda s, k: s * k),
    ("s[:{k}]", "takes the first {k} letters of the text s", lambda s, k: s[:k]),
    ("s[-{k}:]", "takes the last {k} letters of the text s", lambda s, k: s[-k:]),
    ("s[{k}:]", "drops the first {k} letters of the text s", lambda s, k: s[k:]),
    ("s[::-1] * {k}", "reverses the text s and repeats that {k} times", lambda s, k: s[::-1] * k),
    ("s[:{k}].upper()", "puts the first {k} letters of the text s in capitals", lambda s, k: s[:k].upper()),
)
LISTS: tuple[Piece, ...] = (
    ("[v + {k} for v in a]", "adds {k} to each number of the list a", lambda a, k: [v + k for v in a]),
    ("[v * {k} for v in a]", "multiplies each number of the list a by {k}", lambda a, k: [v * k for v in a]),
    ("[v for v in a if v > {k}]", "keeps the numbers above {k} of the list a", lambda a, k: [v for v in a if v > k]),
    ("[v for v in a if v < {k}]", "keeps the numbers below {k} of the list a", lambda a, k: [v for v in a if v < k]),
    ("sum(a) + {k}", "adds {k} to the sum of the list a", lambda a, k: sum(a) + k),
    ("max(a) - {k}", "subtracts {k} from the largest number of the list a", lambda a, k: max(a) - k),
    ("min(a) * {k}", "multiplies the smallest number of the list a by {k}", lambda a, k: min(a) * k),
)


def draw_container(draw: Random) -> Function:
    """A function of a text or of a list of numbers."""
    on_text = draw.random() < 0.3
    code, words, value = draw.choice(TEXTS if on_text else LISTS)
    k = draw.randrange(2, 6) if on_text else draw.randrange(2, 31)
    name = "s" if on_text else "a"
    return Function((name,), code.format(k=k), words.format(k=k), lambda given: value(given, k))


def draw_arguments(draw: Random, parameters: Sequence[str]) -> Arguments:
    """Random arguments by the parameters' names: `s` a text, `a` a list, others numbers."""
    if parameters == ("s",):
        return ("".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(draw.randrange(6, 10))),)
    if parameters == ("a",):
        return ([draw.randrange(1, 40) for _ in range(draw.randrange(4, 7))],)
    return tuple(draw.randrange(1, 100) for _ in parameters)


def draw_cases(
    draw: Random, function: Function, count: int, rivals: Sequence[Callable[..., Any]]
) -> list[tuple[Arguments, Any]] | None:
    """`count` cases that no constant, no parameter alone and none of `rivals` passes; None where none were found."""
    for _ in range(MAX_REDRAWS):
        inputs: list[Arguments] = []
        while len(inputs) < count:
            given = draw_arguments(draw, function.parameters)
            inputs += [given] if given not in inputs else []
        cases = [(given, function.value(*given)) for given in inputs]
        constant = all(value == cases[0][1] for _, value in cases)
        echo = any(all(value == given[i] for given, value in cases) for i in range(len(function.parameters)))
        if not constant and not echo and not any(passes(rival, cases) for rival in rivals):
            return cases
    return None


def passes(function: Callable[..., Any], cases: Sequence[tuple[Arguments, Any]]) -> bool:
    return all(function(*given) == value for given, value in cases)
