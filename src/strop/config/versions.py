"""The version of a reward: a hash of its code and configuration, so that scores say what made them."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from typing import Any

from strop.config.schema import Component


def version_of(component: Component, target: Any) -> str:
    """Sixteen hex digits over the source of the module that `target` lives in and over the component's parameters.

    The whole module counts, since a function's helpers decide its value as much as the function does. Code without a
    source file (built in, or typed into a session) counts by its name and its own source if there is any.
    """
    params = json.dumps(component.params, sort_keys=True, default=_stands_for)
    return hashlib.sha256(f"{source_of(target)}\0{params}".encode()).hexdigest()[:16]


def source_of(target: Any) -> str:
    named = target if inspect.isroutine(target) or inspect.isclass(target) else type(target)
    for place in (sys.modules.get(named.__module__), named):
        try:
            return inspect.getsource(place)  # type: ignore[arg-type]  # None is one of the errors
        except (OSError, TypeError):
            continue
    return f"{named.__module__}:{named.__qualname__}"


def _stands_for(value: Any) -> str:
    return source_of(value) if callable(value) else repr(value)
