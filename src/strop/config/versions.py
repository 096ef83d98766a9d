"""The version of a reward: a hash of its code and configuration, so that scores say what made them."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

from strop.config.schema import Component

FILES = ("rules", "config")  # parameters of these names that name a file count by what the file holds
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def version_of(component: Component, target: Any) -> str:
    """Sixteen hex digits over the source of the module that `target` lives in and over the component's parameters.

    The whole module counts, since a function's helpers decide its value as much as the function does. Code without a
    source file (built in, or typed into a session) counts by its name and its own source if there is any. So do the
    functions and values that a partial or a dataclass holds, and the content of the files that FILES speaks of.
    """
    params = {name: _content(value) if name in FILES else value for name, value in component.params.items()}
    return hashlib.sha256(f"{_text_of(target)}\0{_text_of(params)}".encode()).hexdigest()[:16]


def source_of(target: Any) -> str:
    named = target if inspect.isroutine(target) or inspect.isclass(target) else type(target)
    for place in (sys.modules.get(named.__module__), named):
        try:
            return inspect.getsource(place)  # type: ignore[arg-type]  # None is one of the errors
        except (OSError, TypeError):
            continue
    return f"{named.__module__}:{named.__qualname__}"


def _text_of(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=_stands_for)


def _stands_for(value: Any) -> Any:
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [source_of(value), {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.compare}]
    return source_of(value) if callable(value) else ADDRESS.sub("", repr(value))


def _content(value: Any) -> Any:
    """What the file of that name holds; the value itself where there is none."""
    if isinstance(value, str | Path) and os.path.isfile(value):  # unlike Path, it takes any text
        return Path(value).read_bytes().decode(errors="replace")
    return value
