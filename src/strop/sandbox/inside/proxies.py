"""What a tester sees in place of the solution: a module whose functions and classes ask the solution's job.

What goes over are copies: a list that a call changes is changed here too, but `object.items.append(1)` changes a
copy. No object of the solution ever sees the other side of a comparison: `==` and `<` between such an object and
plain data are answered here (never equal, no order), and arithmetic between them may only give another object,
unless the test itself constructed the object. So a returned object that claims to equal everything equals nothing.
"""

import builtins
import sys
import types

from link import Ended, Link

_ERROR_MODULES = (
    *("builtins", "json.decoder", "decimal", "dataclasses", "queue", "struct", "re", "re._constants", "statistics"),
    "asyncio.exceptions",
)
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
_ARITHMETIC = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "pow", "lshift", "rshift"),
    *("and_", "or_", "xor"),
)
_NUMBER = ("abs", "float", "int", "round", "neg", "pos", "invert")
_ALONE = (
    *("len", "iter", "repr", "str", "bool", "hash", "next", "reversed"),
    *("getitem", "setitem", "delitem", "enter"),
)


class SolutionError(BaseException):
    """What the solution did that no test can expect of it: it tried to end or skip the test, or gave no data."""


class Handle:
    """An object of the solution. `made`: the test constructed it, and the solution has not returned it since."""

    def __init__(self, solution, number, made=False):
        object.__setattr__(self, "_strop", (solution, number, made))

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self._strop[0].request("get", self, name)

    def __setattr__(self, name, value):
        self._strop[0].request("set", self, name, value)

    def __delattr__(self, name):
        self._strop[0].request("delete", self, name)

    def __call__(self, *args, **kwargs):
        return self._strop[0].request("call", self, *args, **kwargs)

    def __contains__(self, item):
        if self._strop[2]:
            return self._strop[0].request("contains", self, item)
        return any(one is item or one == item for one in self)

    def __exit__(self, *error):
        return self._strop[0].request("exit", self)

    def __format__(self, spec):
        return format(str(self), spec)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


def _special(operation):
    return lambda self, *args: self._strop[0].request(operation, self, *args)


def _comparison(operation):
    def compare(self, other):
        return self._strop[0].request(operation, self, other) if isinstance(other, Handle) else NotImplemented

    return compare


def _arithmetic(operation, swapped):
    def compute(self, other):
        solution, _, made = self._strop
        result = solution.request(operation, *((other, self) if swapped else (self, other)))
        if not (made or isinstance(other, Handle) or isinstance(result, Handle)):
            raise SolutionError("an object of the solution cannot answer arithmetic with plain data")
        return result

    return compute


def _number(operation):
    def compute(self, *args):
        solution, _, made = self._strop
        if not made:
            raise TypeError(f"an object of the solution is no number: {operation}()")
        return solution.request(operation, self, *args)

    return compute


def _complete(kind):
    for operation in _ALONE:
        setattr(kind, f"__{operation}__", _special(operation))
    for operation in _COMPARE:
        setattr(kind, f"__{operation}__", _comparison(operation))
    for operation in _NUMBER:
        setattr(kind, f"__{operation}__", _number(operation))
    for operation in _ARITHMETIC:
        name = operation.rstrip("_")
        setattr(kind, f"__{name}__", _arithmetic(operation, False))
        setattr(kind, f"__r{name}__", _arithmetic(operation, True))


_complete(Handle)


class ClassHandle(type):
    """A class of the solution: calling it constructs there, its other attributes are asked for there."""

    def __call__(cls, *args, **kwargs):
        made = cls._strop_solution.request("call", cls, *args, **kwargs)
        if isinstance(made, Handle):
            object.__setattr__(made, "_strop", (*made._strop[:2], True))
        return made

    def __getattr__(cls, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return cls._strop_solution.request("get", cls, name)

    def __setattr__(cls, name, value):
        cls._strop_solution.request("set", cls, name, value)

    def __iter__(cls):
        return cls._strop_solution.request("iter", cls)

    def __len__(cls):
        return cls._strop_solution.request("len", cls)

    def __getitem__(cls, key):
        return cls._strop_solution.request("getitem", cls, key)


class Solution:
    """The solution as the tester's process knows it: its link, its classes and the functions it was handed."""

    def __init__(self, fd):
        self.link = Link(fd, self.refer, self.resolve)
        self.classes = {}
        self.functions = {}
        self.errors = {}
        self.handles = {}
        self.callbacks = []

    def module(self):
        """The module `solution`, once the program has loaded; raises Ended with the reason where it did not."""
        status, rows = self.link.receive()
        if status != "loaded":
            self.link.ended = True
            raise Ended(f"the solution did not load: {rows}")
        module = types.ModuleType("solution")
        for name, kind, known in rows:
            setattr(module, name, self.member(name, kind, known))
        sys.modules["solution"] = module
        return module

    def member(self, name, kind, known):
        if kind == "exception":
            bases = (self.error_class(known[1:]),)
            self.errors[known[0]] = type(name, bases, {"__module__": "solution"})
            return self.errors[known[0]]
        if kind == "class":
            return self.class_handle(name, known[1:])
        if kind == "function":
            return self.function(name)
        return known

    def class_handle(self, name, ancestors):
        base = next((self.classes[a] for a in ancestors if a in self.classes), Handle)
        body = {"__module__": "solution", "_strop_solution": self}
        self.classes[name] = ClassHandle(name, (base,), body)
        return self.classes[name]

    def function(self, name):
        def call(*args, **kwargs):
            return self.request("call", call, *args, **kwargs)

        call.__name__ = call.__qualname__ = name
        self.functions[call] = name
        return call

    def refer(self, value):
        if isinstance(value, Handle):
            return ("object", value._strop[1])
        if isinstance(value, ClassHandle):
            return ("name", value.__name__)
        if isinstance(value, types.FunctionType) and value in self.functions:
            return ("name", self.functions[value])
        if callable(value) and not isinstance(value, type):
            self.callbacks.append(value)
            return ("callback", len(self.callbacks) - 1)
        return None

    def resolve(self, payload):
        if payload[0] == "name":
            return self.classes.get(payload[1]) or self.function(payload[1])
        _, number, names = payload
        if number not in self.handles:
            known = next((self.classes[name] for name in names if name in self.classes), Handle)
            self.handles[number] = object.__new__(known)
        Handle.__init__(self.handles[number], self, number)
        return self.handles[number]

    def request(self, operation, *operands, **keywords):
        """One question, with what the solution asks back in between."""
        if self.link.ended:
            raise Ended("the solution ended before it answered")
        self.link.send([operation, list(operands), keywords])
        while True:
            answer = self.link.receive()
            if answer[0] == "callback":
                self.call_back(*answer[1:])
                continue
            sys.stdout.write(answer[-2] if answer[0] == "value" else answer[-1])
            if answer[0] == "raise":
                raise self.error(*answer[1:4])
            if answer[3] is not None:
                for old, new in zip(operands, answer[3], strict=False):
                    restore(old, new)
            return answer[1]

    def call_back(self, which, args, keywords):
        function = builtins.input if which == "input" else self.callbacks[which]
        try:
            self.link.send(["value", function(*args, **keywords)])
        except Exception as error:
            self.link.send(["raise", f"{type(error).__name__}: {error}"])

    def error(self, names, args, attributes):
        kind = self.error_class(names)
        try:
            error = kind(*args)
        except Exception:
            error = kind.__new__(kind)
            error.args = tuple(args)
        if type(error).__module__ == "solution":
            vars(error).update(attributes)
        return error

    def error_class(self, names):
        """The nearest class that both sides know. What would end or skip a test is a SolutionError."""
        for name in names:
            if name in self.errors:
                return self.errors[name]
            module, _, short = name.rpartition(".")
            if module not in _ERROR_MODULES or module not in sys.modules:
                continue
            known = vars(sys.modules[module]).get(short)
            if isinstance(known, type) and issubclass(known, Exception):
                return known
        return SolutionError


def restore(old, new):
    """Make `old` equal to `new` in place, as deep as both are the same kind of container."""
    if type(old) is not type(new):
        return
    if type(old) is list:
        for index, (one, other) in enumerate(zip(old, new, strict=False)):
            if type(one) in (list, dict, set) and type(one) is type(other):
                restore(one, other)
                new[index] = one
        old[:] = new
    elif type(old) is dict:
        for key, value in new.items():
            if key in old and type(value) in (list, dict, set) and type(old[key]) is type(value):
                restore(old[key], value)
                new[key] = old[key]
        old.clear()
        old.update(new)
    elif type(old) is set:
        old.clear()
        old.update(new)
