"""Plain data as bytes, by exact type: what crosses between a job and the supervisor and between two jobs.

JSON where JSON is exact: None, bool, float, list, str and int of at most 63 bits. All else is an object of one key,
its tag: t tuple, s set, f frozenset, d dict (keys and values in turn), i big int in hex, b bytes in hex, u text in
hex, c complex, x whatever a pair of `foreign` functions agrees on. `decode` is total: bytes from anyone give a value
or a PlainError, within a bounded time and about twenty times their own size in memory.
"""

import json
import re
from collections import Counter, OrderedDict, defaultdict

MAX_BYTES = 4 << 20
MAX_DEPTH = 100
_MAX_BRACKETS = 1 << 18
_MAX_EQUAL_HASHES = 1000
_RAW_INT = 1 << 63
_FLAT = frozenset({type(None), bool, float})
# bound when loaded: a program that patches json afterwards changes nothing here
_dumps = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(c for c in range(256) if c not in b"[]{}")
_AS_SQUARE = bytes.maketrans(b"{}", b"[]")


class PlainError(ValueError):
    """A value that is not plain data, or bytes that do not hold any."""


def _short_int(digits):
    if len(digits) > 20:
        raise PlainError("an integer of too many digits")
    return int(digits)


_loads = json.JSONDecoder(parse_int=_short_int).decode


def encode(value, max_bytes=MAX_BYTES, max_depth=MAX_DEPTH, foreign=None):
    """Bytes of `value`. `foreign(value)` may give plain data in place of an object that is none.

    `max_bytes` None is for what comes from our own side: then neither size nor number of containers is bounded.
    """
    data = _dumps(_Writer(max_bytes, max_depth, foreign).tree(value, 0)).encode()
    if max_bytes is not None and len(data) > max_bytes:
        raise PlainError(f"more than {max_bytes} bytes")
    return data


def decode(data, max_bytes=MAX_BYTES, max_depth=MAX_DEPTH, foreign=None):
    """The value that `encode` was given. Raises PlainError, and nothing else, for any other bytes."""
    if max_bytes is not None and len(data) > max_bytes:
        raise PlainError(f"more than {max_bytes} bytes")
    _check_nesting(data, 2 * max_depth + 4, _MAX_BRACKETS if max_bytes is not None else len(data))
    try:
        return _Reader(foreign).value(_loads(data.decode()))
    except PlainError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise PlainError(f"not plain data: {type(error).__name__}") from None


def refuse_equal_hashes(items):
    """Keys made to share one hash would take quadratic time to put into a set; honest ones hardly ever do."""
    if len(items) > _MAX_EQUAL_HASHES and len(items) - len(set(map(hash, items))) > _MAX_EQUAL_HASHES:
        raise PlainError("too many keys of one hash")


def _check_nesting(data, max_levels, max_brackets):
    brackets = data.count(b"[") + data.count(b"{")
    if brackets <= max_levels:
        return
    if brackets > max_brackets:
        raise PlainError("too many containers")
    rest = _TEXT.sub(b"", data).translate(_AS_SQUARE, _NO_BRACKETS)
    for _ in range(max_levels):
        rest = rest.replace(b"[]", b"")
        if not rest:
            return
    raise PlainError("nested too deeply")


class _Writer:
    """Builds the JSON tree and counts what it will cost, so that neither size nor sharing nor cycles blow up."""

    def __init__(self, max_bytes, max_depth, foreign):
        self.bytes_left = float("inf") if max_bytes is None else max_bytes
        self.brackets_left = float("inf") if max_bytes is None else _MAX_BRACKETS
        self.max_depth = max_depth
        self.foreign = foreign

    def spend(self, num_bytes, brackets=0):
        self.bytes_left -= num_bytes
        self.brackets_left -= brackets
        if self.bytes_left < 0 or self.brackets_left < 0:
            raise PlainError("too large")

    def tree(self, value, depth):
        kind = type(value)
        if value is None or kind is bool or kind is float:
            self.spend(1)
            return value
        if kind is int:
            return self.integer(value)
        if kind is str:
            return self.text(value)
        if kind is list:
            return self.items(value, depth)
        if kind is tuple:
            return {"t": self.items(value, depth)}
        # these four are dicts in all but repr, and == says so
        if kind is dict or kind is defaultdict or kind is OrderedDict or kind is Counter:
            return {"d": self.items([part for pair in dict.items(value) for part in pair], depth)}
        if kind is set:
            return {"s": self.items(list(value), depth)}
        if kind is frozenset:
            return {"f": self.items(list(value), depth)}
        if kind is bytes:
            self.spend(2 * len(value), 1)
            return {"b": value.hex()}
        if kind is complex:
            self.spend(2, 2)
            return {"c": [value.real, value.imag]}
        payload = self.foreign(value) if self.foreign is not None else None
        if payload is None:
            raise PlainError(f"{_name(kind)} is not plain data")
        self.spend(1, 1)
        return {"x": self.tree(payload, depth + 1)}

    def items(self, values, depth):
        if depth >= self.max_depth:
            raise PlainError("nested too deeply")
        self.spend(2 * len(values), 2)
        kinds = set(map(type, values))
        if kinds <= _FLAT or (kinds == {int} and min(values) > -_RAW_INT and max(values) < _RAW_INT):
            return values
        return [self.tree(value, depth + 1) for value in values]

    def integer(self, value):
        if -_RAW_INT < value < _RAW_INT:
            self.spend(1)
            return value
        self.spend(value.bit_length() // 4, 1)
        return {"i": hex(value)}

    def text(self, value):
        self.spend(len(value))
        brackets = value.count("[") + value.count("{")
        if brackets <= 64:
            try:
                value.isascii() or value.encode()
            except UnicodeEncodeError:  # lone surrogates are no JSON text
                brackets = 65
        if brackets <= 64:
            self.spend(0, brackets)
            return value
        self.spend(len(value), 1)
        return {"u": value.encode("utf-8", "surrogatepass").hex()}


def _name(kind):
    name = type.__dict__["__name__"].__get__(kind)
    return f"an object of class {name[:60]}"


class _Reader:
    def __init__(self, foreign):
        self.foreign = foreign

    def value(self, tree):
        kind = type(tree)
        if kind is list:
            kinds = set(map(type, tree))
            return list(map(self.value, tree)) if list in kinds or dict in kinds else tree
        if kind is not dict:
            return tree
        if len(tree) != 1:
            raise PlainError("an object of one tag was expected")
        [(tag, payload)] = tree.items()
        if tag == "x" and self.foreign is not None:
            return self.foreign(self.value(payload))
        if type(payload) is not (str if tag in ("i", "b", "u") else list):
            raise PlainError("unknown tag")
        return self.tagged(tag, payload)

    def tagged(self, tag, payload):
        if tag == "i":
            return int(payload, 16)
        if tag == "b":
            return bytes.fromhex(payload)
        if tag == "u":
            return bytes.fromhex(payload).decode("utf-8", "surrogatepass")
        items = self.value(payload)
        if tag == "t":
            return tuple(items)
        if tag in ("s", "f"):
            refuse_equal_hashes(items)
            return set(items) if tag == "s" else frozenset(items)
        if tag == "d" and len(items) % 2 == 0:
            refuse_equal_hashes(items[::2])
            return dict(zip(items[::2], items[1::2], strict=True))
        if tag == "c" and len(items) == 2:
            return complex(*items)
        raise PlainError("unknown tag")
