"""What a jail shows of Python packages: the folders of those that are named, and the programs they bring."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path

from strop.core.errors import ConfigError

ELF = b"\x7fELF"  # how a compiled program begins


SearchFolder = tuple[str, tuple[str, ...], tuple[str, ...]]  # where it is, what of it to preload, what it may show


def package_mounts(names: tuple[str, ...], preload: tuple[str, ...] = ()) -> tuple[list[str], list[SearchFolder]]:
    """Files and folders to show and the folders to search, for the named distributions with all they require. What is
    preloaded stands with the last folder, since it may need all of them.

    Scripts that an interpreter runs are not shown: they name one that is not in the jail. ConfigError when a
    distribution is not installed where Strop runs.
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
            if top == "..":
                outside = os.path.normpath(site / file)
                if _is_program(outside):
                    shown[outside] = None
            elif top != "__pycache__":
                shown[str(site / top)] = None
        waiting += [_requirement(text) for text in distribution.requires or () if "extra ==" not in text]
    entries = {
        folder: tuple(Path(path).name for path in shown if str(Path(path).parent) == folder) for folder in searched
    }
    last = next(reversed(searched), None)
    return list(shown), [(folder, preload if folder == last else (), entries[folder]) for folder in searched]


def _is_program(path: str) -> bool:
    if not os.access(path, os.X_OK) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(ELF)) == ELF


def _requirement(text: str) -> str:
    for end in " ;<>=!~[(":
        text = text.split(end, 1)[0]
    return text


def interpreter_prefixes() -> list[str]:
    """Where the base interpreter and its library lie, when outside /usr."""
    prefix = str(Path(sys.base_prefix).resolve())
    return [] if prefix == "/usr" or prefix.startswith("/usr/") else [prefix]
