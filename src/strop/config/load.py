"""From a recipe on disk, and overrides, to a RunConfig. Every mistake is one line that says what to change."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from strop.config.schema import RunConfig
from strop.core.errors import ConfigError


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The recipe at `path` (a TOML file, or a folder with run.toml) with `overrides` such as `learner.eps=1e-8`.

    List items are addressed by name or number: `stages.rl.steps=5`, `domains.0.weight=2`.
    """
    file = path / "run.toml" if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(f"no recipe at {path}: give a TOML file, or a folder that holds run.toml")
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from error
    for override in overrides:
        apply_override(content, override)
    return parse_config(content, str(file))


def parse_config(content: Mapping[str, Any], source: str) -> RunConfig:
    """`content` as a RunConfig; ConfigError names the key path and, for an unknown key, the nearest valid one."""
    try:
        return RunConfig.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{source}: {_explain(error, content)}") from error


def apply_override(content: dict[str, Any], override: str) -> None:
    """Set one `key.path=value` in place. The value is TOML; a bare word is taken as text."""
    path, sign, text = override.partition("=")
    keys = path.split(".")
    if not sign or not text.strip() or not all(key.strip() for key in keys):
        raise ConfigError(f"override {override!r}: write it as key.path=value, for example learner.learning_rate=1e-6")
    place: Any = content
    for key in keys[:-1]:
        place = _enter(place, key, override)
    if not isinstance(place, dict):
        raise ConfigError(f"override {override!r}: {keys[-2]} holds no keys")
    place[keys[-1]] = _value(text)


def _enter(place: Any, key: str, override: str) -> Any:
    if isinstance(place, dict):
        return place.setdefault(key, {})
    if isinstance(place, list) and all(isinstance(item, dict) for item in place):
        for number, item in enumerate(place):
            if key in (str(number), item.get("name"), item.get("stage")):
                return item
        names = [item.get("name") or item.get("stage") for item in place]
        raise ConfigError(f"override {override!r}: no item {key!r}; there are {names}")
    raise ConfigError(f"override {override!r}: {key!r} is below a plain value")


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def _explain(error: ValidationError, content: Mapping[str, Any]) -> str:
    first = error.errors()[0]
    path = ".".join(str(part) for part in first["loc"] if not str(part).startswith("function-"))
    if first["type"] == "extra_forbidden":
        known = _known_keys(first["loc"][:-1])
        near = get_close_matches(str(first["loc"][-1]).replace("-", "_"), known, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
        return f"unknown key {path!r}; {hint}"
    if first["type"] == "missing":
        return f"{path!r} is missing"
    if first["type"] == "value_error":
        return f"{path + ': ' if path else ''}{first['ctx']['error']}"
    message = first["msg"][0].lower() + first["msg"][1:]
    return f"{path!r}: {message}, got {first['input']!r}"


def _known_keys(location: Sequence[int | str]) -> list[str]:
    model: type[BaseModel] = RunConfig
    for part in location:
        if isinstance(part, int) or part not in model.model_fields:
            continue
        inner = _model_in(model.model_fields[part].annotation)
        if inner is not None:
            model = inner
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
