"""Values of `core.types` as bytes and back: what a checkpoint, a queue or another process holds of them.

The form is JSON: a value is a list of its type's name and its fields, an array its dtype and base64, a tuple a list. It
holds no code, so that bytes from elsewhere can do no more than fail.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from strop.core import types
from strop.core.errors import DataError

KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        types.Completion,
        types.Message,
        types.Reward,
        types.Rollout,
        types.RolloutGroup,
        types.Score,
        types.Task,
        types.Tool,
        types.ToolCall,
        types.Turn,
    )
}
ARRAY, TUPLE, MAP = "array", "tuple", "map"


def pack(value: Any) -> bytes:
    """TypeError where `value` holds something that is neither JSON, an array, nor one of KINDS."""
    return json.dumps(_encode(value)).encode()


def unpack(content: bytes) -> Any:
    """The value that `pack` was given, its lists and tuples as they were. DataError when `content` is no such bytes."""
    try:
        return _decode(json.loads(content))
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise DataError(f"these bytes hold no value of Strop: {error}") from error


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {ARRAY: [value.dtype.str, base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()]}
    if isinstance(value, list):
        return [_encode(item) for item in value]
    if isinstance(value, tuple):
        return {TUPLE: [_encode(item) for item in value]}
    if isinstance(value, Mapping):
        return {MAP: [[_encode(key), _encode(item)] for key, item in value.items()]}
    name = type(value).__name__
    if KINDS.get(name) is not type(value):
        raise TypeError(f"a {name} cannot be stored")
    return {name: {field.name: _encode(getattr(value, field.name)) for field in dataclasses.fields(value)}}


def _decode(content: Any) -> Any:
    if isinstance(content, list):
        return [_decode(item) for item in content]
    if not isinstance(content, dict):
        return content
    ((name, held),) = content.items()
    if name == ARRAY:
        array = np.frombuffer(base64.b64decode(held[1], validate=True), np.dtype(held[0]))
        array.flags.writeable = False
        return array
    if name == TUPLE:
        return tuple(_decode(item) for item in held)
    if name == MAP:
        return {_decode(key): _decode(item) for key, item in held}
    return KINDS[name](**{field: _decode(item) for field, item in held.items()})
