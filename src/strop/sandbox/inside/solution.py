"""Mode `solution`: the program under test in a job of its own, serving what a tester asks of it.

The channel is a stream socket to the tester. Requests are (operation, operands, keywords); answers are ("value",
value, printed, operands as they are now or None) or ("raise", class names, args, attributes, printed). While it
answers, the program may ask the tester to call a function that the tester handed it, or for a line of input.
"""

import builtins
import contextlib
import io
import operator
import sys
import types

import plain
from link import Ended, Link
from loading import describe, load, show

_MAX_PRINTED = 1 << 20
_MAX_VALUE = 1 << 16
_OPERATIONS = {
    "call": lambda function, *args, **kwargs: function(*args, **kwargs),
    "get": getattr,
    "set": setattr,
    "delete": delattr,
    "next": next,
    **{f.__name__: f for f in (len, iter, repr, str, bool, hash, abs, float, int, round, reversed)},
    **{
        f.__name__: f
        for f in (
            *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
            *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod),
            *(operator.matmul, operator.pow, operator.and_, operator.or_, operator.xor, operator.lshift),
            *(operator.rshift, operator.neg, operator.pos, operator.invert, operator.contains),
            *(operator.getitem, operator.setitem, operator.delitem, operator.iadd),
        )
    },
    "enter": lambda context: type(context).__enter__(context),
    "exit": lambda context: type(context).__exit__(context, None, None, None),
}


def run(job, code, fds):
    """Load the program, say what it defines, then serve until the tester hangs up; returns the exit status."""
    server = _Server(fds["channel"])
    try:
        server.module = load(code)
    except BaseException as error:
        show(error)
        server.tell(["failed", describe(error)])
        return 1
    builtins.input = lambda prompt="": server.ask("input", [str(prompt)], {})
    server.tell(["loaded", server.announce()])
    try:
        while True:
            server.serve(server.link.receive())
    except Ended:
        return 0


class _Server:
    def __init__(self, fd):
        self.link = Link(fd, self.refer, self.resolve)
        self.module = None
        self.objects = []  # every object the tester knows of, by its number; never let go, so ids stay taken
        self.numbers = {}

    def tell(self, message):
        with contextlib.suppress(Ended):
            self.link.send(message)

    def announce(self):
        """Rows of (name, kind, what is known of it) for what the program defines."""
        rows = []
        for name, value in list(vars(self.module).items()):
            if name.startswith("__") or isinstance(value, types.ModuleType):
                continue
            if getattr(value, "__module__", None) == "typing":
                continue
            if isinstance(value, type) and issubclass(value, BaseException):
                rows.append([name, "exception", _class_names(value)])
            elif isinstance(value, type):
                rows.append([name, "class", [c.__name__ for c in value.__mro__]])
            elif isinstance(value, types.FunctionType | types.BuiltinFunctionType):
                rows.append([name, "function", None])
            else:
                try:
                    small = len(self.link.pack(value)) < _MAX_VALUE
                except BaseException:
                    continue
                if small:
                    rows.append([name, "value", value])
        return rows

    def refer(self, value):
        if isinstance(value, type) and vars(self.module).get(value.__name__) is value:
            return ("name", value.__name__)
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return ("object", number, [c.__name__ for c in type(value).__mro__])

    def resolve(self, payload):
        kind, which = payload[:2]
        if kind == "object":
            return self.objects[which]
        if kind == "name":
            return getattr(self.module, which)
        return lambda *args, **kwargs: self.ask(which, args, kwargs)

    def ask(self, which, args, kwargs):
        """Have the tester call one of its functions; meanwhile it may call the program again."""
        self.link.send(["callback", which, list(args), kwargs])
        while True:
            answer = self.link.receive()
            if answer[0] == "value":
                return answer[1]
            if answer[0] == "raise":
                raise RuntimeError(answer[1])
            self.serve(answer)

    def serve(self, request):
        operation, operands, keywords = request
        before = self.link.pack(operands) if any(type(x) in (list, dict, set) for x in operands) else None
        printed, real = io.StringIO(), sys.stdout
        sys.stdout = printed
        try:
            value = _OPERATIONS[operation](*operands, **keywords)
            answer = ["value", value, printed.getvalue()[:_MAX_PRINTED], self.changed(operands, before)]
            data = self.link.pack(answer)
        except Ended:
            raise
        except BaseException as error:
            data = self.error_bytes(error, printed)
        finally:
            sys.stdout = real
        self.link.send_bytes(data)

    def changed(self, operands, before):
        """The operands again where the program changed one in place, as a sort would."""
        return operands if before is not None and self.link.pack(operands) != before else None

    def error_bytes(self, error, printed):
        args = [a if _packs(a) else repr(a) for a in error.args] if isinstance(error.args, tuple) else []
        attributes = {k: v for k, v in vars(error).items() if _packs(v)}
        text = printed.getvalue()[:_MAX_PRINTED]
        return self.link.pack(["raise", _class_names(type(error)), args, attributes, text])


def _class_names(kind):
    return [f"{c.__module__}.{c.__qualname__}" for c in kind.__mro__]


def _packs(value):
    try:
        plain.encode(value)
    except plain.PlainError:
        return False
    return True
