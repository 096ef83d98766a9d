"""The version of a reward: a hash of its code and configuration, so that scores say what made them."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib.util
import inspect
import json
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

from strop.config.component import Component

FILES = ("rules", "config", "path")  # parameters of these names that name a file or folder count by what it holds
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def version_of(component: Component, target: Any) -> str:
    """Sixteen hex digits over the source of the module that `target` lives in and over the component's parameters.

    The whole module counts, and the modules of its package that it imports, since a function's helpers decide its
    value as much as the function does. Code without a source file (built in, or typed into a session) counts by its
    name and its own source if there is any. So do the functions and values that a partial or a dataclass holds, and
    the content of the files and folders that FILES speaks of, such as a reward model's.
    """
    params = {name: _content(value) if name in FILES else value for name, value in component.params.items()}
    return hashlib.sha256(f"{_text_of(target)}\0{_text_of(params)}".encode()).hexdigest()[:16]


def source_of(target: Any) -> str:
    named = target if inspect.isroutine(target) or inspect.isclass(target) else type(target)
    for place in (sys.modules.get(named.__module__), named):
        try:
            source = inspect.getsource(place)  # type: ignore[arg-type]  # None is one of the errors
        except (OSError, TypeError):
            continue
        return source + "".join(_helpers(named.__module__, source)) if place is not named else source
    return f"{named.__module__}:{named.__qualname__}"


def _helpers(module: str, source: str) -> list[str]:
    """Sources of the modules in the same package that `module` imports, directly or through one another."""
    package = module if _is_package(module) else module.rpartition(".")[0]
    found: dict[str, str] = {}
    waiting = sorted(_imported(source, package)) if package else []
    while waiting:
        name = waiting.pop()
        if name not in found and name != module and name.startswith(f"{package}."):
            found[name] = _source_of_module(name)
            waiting += sorted(_imported(found[name], name if _is_package(name) else name.rpartition(".")[0]))
    return [found[name] for name in sorted(found)]


def _imported(source: str, package: str) -> set[str]:
    """Names that the source imports, each of which may be a module or something in one."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            start = ".".join(part for part in (above, node.module) if part)
            names |= {start, *(f"{start}.{alias.name}" for alias in node.names)}
    return names


def _is_package(module: str) -> bool:
    return hasattr(sys.modules.get(module), "__path__")


def _source_of_module(name: str) -> str:
    """Empty where the name is no module but something in one, or has no source."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return ""
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ""
    return Path(spec.origin).read_text(encoding="utf-8", errors="replace")


def _text_of(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=_stands_for)


def _stands_for(value: Any) -> Any:
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [source_of(value), {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.compare}]
    return source_of(value) if callable(value) else ADDRESS.sub("", repr(value))


def _content(value: Any) -> Any:
    """What the file of that name holds, or the files of the folder; the value itself where there is none."""
    if not isinstance(value, str | Path):
        return value
    if os.path.isfile(value):  # unlike Path, it takes any text
        return _digest(Path(value))
    if os.path.isdir(value):
        return {str(f.relative_to(value)): _digest(f) for f in sorted(Path(value).rglob("*")) if f.is_file()}
    return value


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
