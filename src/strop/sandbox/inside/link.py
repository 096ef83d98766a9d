"""The line between a tester and a solution: one message each way, plain data plus references to what is not.

A message is a length (`<I`) and plain bytes. Some classes of the standard library travel by value; any other object
stays where it is and travels as a reference that only its own side can resolve.
"""

import os
import struct

import plain

MAX_MESSAGE = 16 << 20
_LENGTH = struct.Struct("<I")
_BY_VALUE = {
    ("decimal", "Decimal"): lambda value: ("decimal", "Decimal", str(value)),
    ("fractions", "Fraction"): lambda value: ("fractions", "Fraction", value.numerator, value.denominator),
    ("datetime", "datetime"): lambda value: ("datetime", "datetime.fromisoformat", value.isoformat()),
    ("datetime", "date"): lambda value: ("datetime", "date.fromisoformat", value.isoformat()),
    ("datetime", "time"): lambda value: ("datetime", "time.fromisoformat", value.isoformat()),
    ("datetime", "timedelta"): lambda value: (
        "datetime",
        "timedelta",
        value.days,
        value.seconds,
        value.microseconds,
    ),
    ("collections", "deque"): lambda value: ("collections", "deque", list(value)),
    ("builtins", "range"): lambda value: ("builtins", "range", value.start, value.stop, value.step),
    ("builtins", "bytearray"): lambda value: ("builtins", "bytearray", bytes(value)),
}
_MAKERS = frozenset(
    [("decimal", "Decimal"), ("fractions", "Fraction"), ("datetime", "timedelta"), ("collections", "deque")]
    + [("datetime", f"{name}.fromisoformat") for name in ("datetime", "date", "time")]
    + [("builtins", "range"), ("builtins", "bytearray")]
)


class Ended(BaseException):
    """The other side is gone. No `except Exception` of a test may take it for an error that it expected."""


class Link:
    """`refer(object)` gives a tuple that stands for an object, or None; `resolve(tuple)` is the way back."""

    def __init__(self, fd, refer, resolve):
        self.fd = fd
        self.refer = refer
        self.resolve = resolve
        self.ended = False

    def pack(self, message):
        return plain.encode(message, MAX_MESSAGE, foreign=self._out)

    def send(self, message):
        self.send_bytes(self.pack(message))

    def send_bytes(self, data):
        data = _LENGTH.pack(len(data)) + data
        done = 0
        try:
            while done < len(data):
                done += os.write(self.fd, data[done:])
        except OSError:
            self._end()

    def receive(self):
        [length] = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length > MAX_MESSAGE:
            self._end()
        try:
            return plain.decode(self._exactly(length), MAX_MESSAGE, foreign=self._in)
        except plain.PlainError:
            self._end()

    def _exactly(self, size):
        parts = []
        while size:
            try:
                part = os.read(self.fd, min(size, 1 << 20))
            except OSError:
                part = b""
            if not part:
                self._end()
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _end(self):
        self.ended = True
        raise Ended("the solution ended before it answered")

    def _out(self, value):
        kind = type(value)
        by_value = _BY_VALUE.get((kind.__module__, kind.__qualname__))
        return by_value(value) if by_value is not None else self.refer(value)

    def _in(self, payload):
        if type(payload) is not tuple or len(payload) < 2:
            raise plain.PlainError("a reference that stands for nothing")
        if payload[:2] not in _MAKERS:
            return self.resolve(payload)
        module, path = payload[:2]
        maker = __import__(module)
        for name in path.split("."):
            maker = getattr(maker, name)
        try:
            return maker(*payload[2:])
        except (ArithmeticError, MemoryError) as error:
            raise plain.PlainError(f"{path}: {type(error).__name__}") from None
