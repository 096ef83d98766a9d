"""The JSON forms of the sandbox's values, as its server and client exchange them.

Strict: a key that is unknown, a key that is missing and a value of a wrong type are a `WireError` that names the key.
Bytes are base64; arguments and answers are the base64 of `inside.plain`, which keeps exact types.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Generic, TypeVar, get_args

from strop.core.programs import (
    Answer,
    Call,
    CallExecution,
    Execution,
    ExecutionStatus,
    Limit,
    Limits,
    Program,
    Tier,
    UnitExecution,
    UnitRecord,
)
from strop.sandbox.inside import plain  # untyped, since it also runs where nothing of strop is

MAX_PLAIN_BYTES = 64 << 20
MAX_PLAIN_DEPTH = plain.MAX_DEPTH + 2  # arguments come in a tuple or dict of their own
MAX_INT = 2**63 - 1
KEY_CHARS = 200

T = TypeVar("T")


class WireError(ValueError):
    """A body that is not of its form. The message is one line that names the key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunJob:
    """The body of `/run`. `key` names the job: one key is one job, however often it is sent."""

    key: str
    program: Program
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, kw_only=True, slots=True)
class CallJob:
    """The body of `/call`."""

    key: str
    program: Program
    entry_point: str
    calls: tuple[Call, ...]
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitJob:
    """The body of `/test`."""

    key: str
    program: Program
    tests: str
    names: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    same_process: bool = False


Job = RunJob | CallJob | UnitJob
Result = Execution | CallExecution | UnitExecution


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """What `/health` tells: jobs in flight (`running`, and `waiting` for a core) and how many of each there may be."""

    tier: Tier
    running: int
    waiting: int
    capacity: int
    max_queue: int
    version: str


@dataclass(frozen=True, slots=True)
class Kind:
    """How one sort of field is written and read. `read` takes the JSON value and the name to blame."""

    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """The form of one dataclass: its fields by name, each with its kind. A field with a default may be left out."""

    make: type[T]
    kinds: Mapping[str, Kind]

    def to_json(self, value: T) -> dict[str, Any]:
        """A tree that `json.dumps` takes."""
        return {name: kind.write(getattr(value, name)) for name, kind in self.kinds.items()}

    def from_json(self, data: Any, name: str = "") -> T:
        """The value that `data` stands for; WireError where it is not of this form."""
        if type(data) is not dict:
            raise WireError(f"{name or 'the body'} must be an object, got {_brief(data)}")
        given = {}
        for key, value in data.items():
            if key not in self.kinds:
                raise WireError(f"unknown key {_brief(_below(name, key))}; known are {', '.join(self.kinds)}")
            given[key] = self.kinds[key].read(value, _below(name, key))
        for known in fields(self.make):  # type: ignore[arg-type]
            if known.name not in given and known.default is MISSING and known.default_factory is MISSING:
                raise WireError(f"key {_below(name, known.name)!r} is missing")
        try:
            return self.make(**given)
        except ValueError as error:  # an invariant of the value itself
            raise WireError(f"{name or 'the body'}: {error}") from None

    def kind(self) -> Kind:
        return Kind(self.to_json, self.from_json)

    def dump(self, value: T) -> bytes:
        return json.dumps(self.to_json(value), separators=(",", ":"), allow_nan=False).encode()

    def load(self, body: bytes) -> T:
        """The value in a body; WireError where it is not JSON or not of this form."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise WireError(f"the body is not JSON: {_brief(str(error))}") from None
        return self.from_json(data)


def _below(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _brief(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = ascii(value[:90] if isinstance(value, str) else value)
    return text if len(text) <= 100 else text[:97] + "..."


def _exactly(expected: type, what: str) -> Callable[[Any, str], Any]:
    def read(value: Any, name: str) -> Any:
        if type(value) is not expected:
            raise WireError(f"{name} must be {what}, got {_brief(value)}")
        return value

    return read


def _same(value: Any) -> Any:
    return value


def _read_int(value: Any, name: str) -> int:
    if type(value) is not int or abs(value) > MAX_INT:
        raise WireError(f"{name} must be an integer of at most 63 bits, got {_brief(value)}")
    return value


def _read_float(value: Any, name: str) -> float:
    if type(value) not in (int, float) or abs(value) > MAX_INT or not math.isfinite(value):
        raise WireError(f"{name} must be a finite number, got {_brief(value)}")
    return float(value)


def _read_key(value: Any, name: str) -> str:
    if type(value) is not str or not 0 < len(value) <= KEY_CHARS:
        raise WireError(f"{name} must be a string of 1 to {KEY_CHARS} characters, got {_brief(value)}")
    return value


def _write_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _read_bytes(value: Any, name: str) -> bytes:
    if type(value) is not str:
        raise WireError(f"{name} must be a base64 string, got {_brief(value)}")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise WireError(f"{name} is not base64: {error}") from None


def _write_plain(value: Any) -> str:
    return _write_bytes(plain.encode(value, max_bytes=MAX_PLAIN_BYTES, max_depth=MAX_PLAIN_DEPTH))


def _read_plain(value: Any, name: str) -> Any:
    try:
        return plain.decode(_read_bytes(value, name), max_bytes=MAX_PLAIN_BYTES, max_depth=MAX_PLAIN_DEPTH)
    except plain.PlainError as error:
        raise WireError(f"{name} is not plain data: {_brief(str(error))}") from None


def _read_args(value: Any, name: str) -> tuple[Any, ...]:
    args = _read_plain(value, name)
    if type(args) is not tuple:
        raise WireError(f"{name} must be a tuple")
    return args


def _read_kwargs(value: Any, name: str) -> dict[str, Any]:
    kwargs = _read_plain(value, name)
    if type(kwargs) is not dict or any(type(key) is not str for key in kwargs):
        raise WireError(f"{name} must be a dict with strings for keys")
    return kwargs


def _one_of(choices: tuple[Any, ...]) -> Kind:
    def read(value: Any, name: str) -> Any:
        if type(value) is not str or value not in choices:
            raise WireError(f"{name} must be one of {', '.join(choices)}, got {_brief(value)}")
        return value

    return Kind(_same, read)


def _optional(kind: Kind) -> Kind:
    return Kind(
        lambda value: None if value is None else kind.write(value),
        lambda value, name: None if value is None else kind.read(value, name),
    )


def _many(kind: Kind) -> Kind:
    def read(value: Any, name: str) -> Any:
        if type(value) is not list:
            raise WireError(f"{name} must be a list, got {_brief(value)}")
        return tuple(kind.read(item, f"{name}[{i}]") for i, item in enumerate(value))

    return Kind(lambda values: [kind.write(value) for value in values], read)


def _named(kind: Kind) -> Kind:
    def read(value: Any, name: str) -> Any:
        if type(value) is not dict:
            raise WireError(f"{name} must be an object, got {_brief(value)}")
        return {key: kind.read(item, f"{name}.{key[:80]!a}") for key, item in value.items()}

    return Kind(lambda values: {key: kind.write(value) for key, value in values.items()}, read)


TEXT = Kind(_same, _exactly(str, "a string"))
FLAG = Kind(_same, _exactly(bool, "true or false"))
INT = Kind(_same, _read_int)
FLOAT = Kind(_same, _read_float)
BYTES = Kind(_write_bytes, _read_bytes)
PLAIN = Kind(_write_plain, _read_plain)
KEY = Kind(_same, _read_key)

PROGRAM = Form(
    Program,
    {
        "language": TEXT,
        "source": TEXT,
        "stdin": BYTES,
        "args": _many(TEXT),
        "files": _named(BYTES),
        "fetch": _many(TEXT),
    },
)
LIMITS = Form(
    Limits,
    {
        "cpu_s": FLOAT,
        "wall_s": _optional(FLOAT),
        "memory_bytes": INT,
        "processes": INT,
        "output_bytes": INT,
        "disk_bytes": INT,
    },
)
EXECUTION = Form(
    Execution,
    {
        "status": _one_of(get_args(ExecutionStatus)),
        "tier": _one_of(get_args(Tier)),
        "exit_code": _optional(INT),
        "signal": _optional(INT),
        "stdout": BYTES,
        "stderr": BYTES,
        "cpu_s": FLOAT,
        "wall_s": FLOAT,
        "queue_s": FLOAT,
        "peak_memory_bytes": INT,
        "limit": _optional(_one_of(get_args(Limit))),
        "detail": TEXT,
        "files": _named(BYTES),
    },
)
CALL = Form(Call, {"args": Kind(_write_plain, _read_args), "kwargs": Kind(_write_plain, _read_kwargs)})
_ANSWER = Form(Answer, {"kind": _one_of(("value", "error", "none")), "value": PLAIN, "detail": TEXT})


def _write_answer(answer: Answer) -> dict[str, Any]:
    """An answer that cannot be written is one that could not be read: a program makes it, so it is no infra_error."""
    try:
        return _ANSWER.to_json(answer)
    except plain.PlainError as error:
        return _ANSWER.to_json(Answer(kind="none", detail=str(error)))


ANSWER = Kind(_write_answer, _ANSWER.from_json)
CALL_EXECUTION = Form(CallExecution, {"execution": EXECUTION.kind(), "answers": _many(ANSWER)})
UNIT_RECORD = Form(
    UnitRecord, {"name": TEXT, "outcome": _one_of(("passed", "failed", "error", "skipped")), "detail": TEXT}
)
UNIT_EXECUTION = Form(
    UnitExecution,
    {
        "tester": EXECUTION.kind(),
        "solution": EXECUTION.kind(),
        "records": _many(UNIT_RECORD.kind()),
        "finished": FLAG,
    },
)
HEALTH = Form(
    Health,
    {
        "tier": _one_of(get_args(Tier)),
        "running": INT,
        "waiting": INT,
        "capacity": INT,
        "max_queue": INT,
        "version": TEXT,
    },
)

_JOB = {"key": KEY, "program": PROGRAM.kind(), "limits": LIMITS.kind()}
RUN_JOB = Form(RunJob, _JOB)
CALL_JOB = Form(CallJob, {**_JOB, "entry_point": TEXT, "calls": _many(CALL.kind())})
UNIT_JOB = Form(UnitJob, {**_JOB, "tests": TEXT, "names": _many(TEXT), "same_process": FLAG})


def status_of(result: Result) -> ExecutionStatus:
    """The one status of a result: of a test run, that of the solution unless the tester or the machinery failed."""
    match result:
        case Execution():
            return result.status
        case CallExecution():
            return result.execution.status
        case UnitExecution(tester=tester, solution=solution):
            return "infra_error" if "infra_error" in (tester.status, solution.status) else solution.status
