"""Turns tests that only assert things of one function into cases, whose expected values never enter a job.

`lift` reads `assert f(args) == literal` and its kin. What the assert says of the value is then decided in the
supervisor on plain data, with the meaning Python gives it: `==` of 1 and 1.0 holds, of a list and a tuple does not.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strop.core.programs import Call
from strop.sandbox.inside.plain import PlainError, encode, refuse_equal_hashes

MAX_LITERAL_ITEMS = 100_000
MAX_LITERAL_BITS = 1 << 16

_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    f.__name__: f for f in (abs, bool, float, int, len, list, max, min, round, sorted, str, sum, tuple)
} | {"isclose": math.isclose, "fabs": math.fabs}
_MODULE_FUNCTIONS = {("math", "isclose"), ("math", "fabs")}


class NotLifted(Exception):
    """A test that says more than can be decided on plain data here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LiftedCase:
    """One assert: the call it makes, and whether what it says holds of the value that the call gave."""

    call: Call
    source: str
    says: Callable[[Any], Any]

    def holds(self, value: Any) -> bool:
        try:
            return bool(self.says(value))
        except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError):
            return False


@dataclass(frozen=True, kw_only=True, slots=True)
class Lifted:
    entry_point: str
    cases: tuple[LiftedCase, ...]


def lift(tests: str, entry_point: str | None) -> Lifted | None:
    """The cases in test source, or None where any statement says something else than asserts of one function.

    Without `entry_point` it is the one function that all asserts call. Within `def check(candidate)` it is `candidate`.
    """
    try:
        lifter = _Lifter(entry_point)
        lifter.body(ast.parse(tests).body, {})
    except (NotLifted, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if lifter.entry_point is None or not lifter.cases:
        return None
    return Lifted(entry_point=lifter.entry_point, cases=tuple(lifter.cases))


class _Lifter:
    def __init__(self, entry_point: str | None) -> None:
        self.entry_point = entry_point
        self.cases: list[LiftedCase] = []

    def body(self, statements: Sequence[ast.stmt], aliases: Mapping[str, str | None]) -> None:
        for statement in statements:
            self.statement(statement, aliases)

    def statement(self, node: ast.stmt, aliases: Mapping[str, str | None]) -> None:
        match node:
            case ast.Assert():
                self.assertion(node, aliases)
            case ast.FunctionDef(name=name) if name == "check" or name.startswith("test"):
                self.function(node)
            case ast.Import() | ast.Pass() | ast.Expr(value=ast.Constant()):
                _check_imports(node)
            case ast.ImportFrom(module="solution" | "typing" | "math", level=0):
                _check_imports(node)
            case ast.Assign(targets=[ast.Name(id="METADATA")]):
                pass
            case ast.Expr(value=ast.Call(func=ast.Name(id="check"), args=[ast.Name(id=name)], keywords=[])):
                self.called(name)
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__")), orelse=[]):
                pass  # tests never run as the main program
            case _:
                raise NotLifted

    def function(self, node: ast.FunctionDef) -> None:
        arguments = node.args
        names = [argument.arg for argument in arguments.args]
        others = arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg
        if node.decorator_list or others or arguments.defaults or len(names) != (node.name == "check"):
            raise NotLifted
        self.body(node.body, dict.fromkeys(names, self.entry_point))

    def called(self, name: str) -> None:
        if self.entry_point is None or name != self.entry_point:
            raise NotLifted

    def assertion(self, node: ast.Assert, aliases: Mapping[str, str | None]) -> None:
        calls = [call for call in ast.walk(node.test) if self.is_asked(call, aliases)]
        if not calls and literal(node.test):
            return  # `assert True` says nothing
        if len(calls) != 1:
            raise NotLifted
        [call] = calls
        assert isinstance(call, ast.Call)
        if any(keyword.arg is None for keyword in call.keywords):
            raise NotLifted
        args = tuple(literal(argument) for argument in call.args)
        kwargs = {str(keyword.arg): literal(keyword.value) for keyword in call.keywords}
        try:
            encode([list(args), kwargs], max_bytes=None)
        except PlainError:
            raise NotLifted from None
        says = _meaning(node.test, call)
        self.cases.append(LiftedCase(call=Call(args=args, kwargs=kwargs), source=ast.unparse(node.test), says=says))

    def is_asked(self, node: ast.AST, aliases: Mapping[str, str | None]) -> bool:
        """Whether this is the call of the function under test; any other unknown call makes the tests opaque."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return False
        name = node.func.id
        if name in aliases:
            if aliases[name] is None:
                raise NotLifted
            return True
        if (
            self.entry_point is None
            and name not in _FUNCTIONS
            and name not in ("set", "frozenset", "dict", "any", "all")
        ):
            self.entry_point = name
        return name == self.entry_point


def _check_imports(node: ast.stmt) -> None:
    """A plain import binds a module or a known name, never a new meaning for a function used here."""
    if isinstance(node, ast.Import | ast.ImportFrom) and any(alias.asname for alias in node.names):
        raise NotLifted


def _meaning(node: ast.expr, call: ast.Call) -> Callable[[Any], Any]:
    """What an expression gives once the value of the call in it is known."""
    if node is call:
        return lambda value: value
    if not any(inner is call for inner in ast.walk(node)):
        constant = literal(node)
        return lambda value: constant
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _meaning(operand, call)
            return lambda value: not inner(value)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            first, second = _meaning(left, call), _meaning(right, call)
            return lambda value: _number(first(value)) - _number(second(value))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return _comparison(_COMPARE[type(op)], op, left, right, call)
        case ast.Call(func=func, args=args, keywords=keywords):
            return _application(_known_function(func), args, keywords, call)
    raise NotLifted


def _comparison(
    compare: Callable[[Any, Any], bool], op: ast.cmpop, left: ast.expr, right: ast.expr, call: ast.Call
) -> Callable[[Any], Any]:
    if isinstance(op, ast.Is | ast.IsNot) and not all(
        isinstance(side, ast.Constant) and (side.value is None or isinstance(side.value, bool))
        for side in (left, right)
        if not any(inner is call for inner in ast.walk(side))
    ):
        raise NotLifted  # identity of anything else is chance
    first, second = _meaning(left, call), _meaning(right, call)
    return lambda value: compare(first(value), second(value))


def _application(
    function: Callable[..., Any], args: Sequence[ast.expr], keywords: Sequence[ast.keyword], call: ast.Call
) -> Callable[[Any], Any]:
    given = [_meaning(argument, call) for argument in args]
    if any(keyword.arg not in ("rel_tol", "abs_tol", "ndigits", "reverse", "start") for keyword in keywords):
        raise NotLifted
    named = {str(keyword.arg): literal(keyword.value) for keyword in keywords}
    return lambda value: function(*(part(value) for part in given), **named)


def _known_function(func: ast.expr) -> Callable[..., Any]:
    match func:
        case ast.Name(id="set" | "frozenset"):
            return _set
        case ast.Name(id=name) if name in _FUNCTIONS:
            return _FUNCTIONS[name]
        case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in _MODULE_FUNCTIONS:
            return _FUNCTIONS[name]
    raise NotLifted


def _set(values: Any) -> set[Any]:
    items = list(values)
    refuse_equal_hashes(items)
    return set(items)


def _number(value: Any) -> Any:
    if type(value) not in (bool, int, float, complex):
        raise TypeError("not a number")
    return value


def literal(node: ast.expr) -> Any:
    """The value of an expression of literals: containers, signs, small arithmetic, set(), tuple() and the like."""
    match node:
        case ast.Constant(value=value) if value is not ...:
            return value
        case ast.List(elts=elements):
            return [literal(element) for element in elements]
        case ast.Tuple(elts=elements):
            return tuple(literal(element) for element in elements)
        case ast.Set(elts=elements):
            return _checked(set, [literal(element) for element in elements])
        case ast.Dict(keys=keys, values=values) if None not in keys:
            pairs = [(literal(k), literal(v)) for k, v in zip(keys, values, strict=True) if k is not None]
            return _checked(dict, pairs)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not() as op, operand=operand):
            return _signed(op, literal(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(op, literal(left), literal(right))
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)], keywords=[]):
            return _checked(float, text)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _BUILDERS and len(args) < 2:
            return _checked(_BUILDERS[name], *map(literal, args))
        case ast.Attribute(value=ast.Name(id="math"), attr="inf" | "nan" | "pi" | "e" as name):
            return getattr(math, name)
    raise NotLifted


_BUILDERS: Mapping[str, Callable[..., Any]] = {
    f.__name__: f for f in (set, frozenset, tuple, list, dict, complex, bytes, sorted)
}


def _checked(function: Callable[..., Any], *args: Any) -> Any:
    if function is bytes and args and not isinstance(args[0], list | tuple):
        raise NotLifted  # bytes(n) is n zeros
    try:
        return function(*args)
    except (TypeError, ValueError):
        raise NotLifted from None


def _signed(op: ast.unaryop, value: Any) -> Any:
    if isinstance(op, ast.Not):
        return not value
    if type(value) not in (int, float, complex):
        raise NotLifted
    return -value if isinstance(op, ast.USub) else value


def _computed(op: ast.operator, left: Any, right: Any) -> Any:
    """Arithmetic of a size that costs nothing: numbers, and text or lists that are joined or repeated."""
    numbers = type(left) in (int, float, complex) and type(right) in (int, float, complex)
    try:
        match op:
            case ast.Pow() if numbers and _bits(left) * abs(right) < MAX_LITERAL_BITS:
                return left**right
            case ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.FloorDiv() | ast.Mod() if numbers:
                if _bits(left) + _bits(right) < MAX_LITERAL_BITS:
                    return _ARITHMETIC[type(op)](left, right)
            case ast.Add() if type(left) is type(right) and isinstance(left, list | str | tuple | bytes):
                return left + right
            case ast.Mult() if isinstance(left, int) and isinstance(right, list | str | tuple | bytes):
                return _repeated(right, left)
            case ast.Mult() if isinstance(right, int) and isinstance(left, list | str | tuple | bytes):
                return _repeated(left, right)
    except (ArithmeticError, TypeError):
        raise NotLifted from None
    raise NotLifted


_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _bits(value: Any) -> int:
    return value.bit_length() + 1 if isinstance(value, int) else 64


def _repeated(items: Any, times: int) -> Any:
    if len(items) * times > MAX_LITERAL_ITEMS:
        raise NotLifted
    return items * times
