"""Which folders of Python packages a jail shows, so that programs may import them: only those that are named."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

from strop.core.errors import ConfigError


def package_mounts(names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Folders to show and the folders to search, for the named distributions with all they require.

    ConfigError when one is not installed where Strop runs.
    """
    shown: dict[str, None] = {}
    searched: dict[str, None] = {}
    waiting = list(names)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        key = name.lower().replace("_", "-")
        if key in seen:
            continue
        seen.add(key)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if name in names:
                raise ConfigError(f"sandbox package {name!r} is not installed; pip install {name}") from None
            continue  # required under a condition that does not hold here
        site = Path(str(distribution.locate_file("")))
        searched[str(site)] = None
        for file in distribution.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__"):
                shown[str(site / top)] = None
        waiting += [_requirement(text) for text in distribution.requires or () if "extra ==" not in text]
    return list(shown), list(searched)


def _requirement(text: str) -> str:
    for end in " ;<>=!~[(":
        text = text.split(end, 1)[0]
    return text


def interpreter_prefixes() -> list[str]:
    """Where the base interpreter and its library lie, when outside /usr."""
    prefix = str(Path(sys.base_prefix).resolve())
    return [] if prefix == "/usr" or prefix.startswith("/usr/") else [prefix]
