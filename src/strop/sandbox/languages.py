"""The languages a sandbox runs: how a source is compiled, if at all, and how it is started.

A language is an entry of this table, or one of the user's own in the same form. In `compile` and `run`, `{artifact}` is
the compiled file. Paths are those of the jail, which shows the host's /usr and, beside it, `mounts`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field

from strop.core.errors import DataError
from strop.core.programs import Limits

COMPILE_LIMITS = Limits(cpu_s=30.0, memory_bytes=2 << 30, processes=128, output_bytes=1 << 20, disk_bytes=256 << 20)


@dataclass(frozen=True, kw_only=True)
class Language:
    """`source` is the file name the text gets. `address_space` False is for runtimes that reserve far more memory than
    they use (node, the JVM), where only a memory cgroup or sampling can hold the limit.
    """

    name: str
    source: str
    run: tuple[str, ...] = ()
    compile: tuple[str, ...] = ()
    artifact: str | None = None
    address_space: bool = True
    mounts: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    compile_limits: Limits = COMPILE_LIMITS

    @property
    def in_zygote(self) -> bool:
        """Python, and only it, runs in a fork of the preloaded interpreter."""
        return not self.run


CXX = ("-O2", "-w", "-pipe", "-o", "program")
LANGUAGES: tuple[Language, ...] = (
    Language(name="python", source="solution.py"),
    Language(name="bash", source="solution.sh", run=("bash", "solution.sh")),
    Language(
        name="c",
        source="solution.c",
        compile=("gcc", "-std=gnu17", *CXX, "solution.c", "-lm", "-pthread"),
        artifact="program",
        run=("{artifact}",),
    ),
    Language(
        name="cpp",
        source="solution.cpp",
        compile=("g++", "-std=gnu++17", *CXX, "solution.cpp", "-pthread"),
        artifact="program",
        run=("{artifact}",),
    ),
    Language(
        name="javascript",
        source="solution.js",
        run=("node", "--stack-size=3900", "solution.js"),
        address_space=False,
        environment={"NODE_OPTIONS": "", "UV_THREADPOOL_SIZE": "2"},
    ),
    Language(
        name="java",
        source="Main.java",
        compile=(
            "sh",
            "-c",
            "mkdir classes && javac -J-XX:+UseSerialGC -d classes Main.java"
            " && jar --create --file program.jar -C classes .",
        ),
        artifact="program.jar",
        run=("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss64m", "-cp", "{artifact}", "Main"),
        address_space=False,
    ),
    Language(
        name="rust",
        source="solution.rs",
        compile=("rustc", "-O", "--edition", "2021", "-o", "program", "solution.rs"),
        artifact="program",
        run=("{artifact}",),
    ),
)
ALIASES = {"py": "python", "python3": "python", "sh": "bash", "shell": "bash", "c++": "cpp", "cc": "cpp", "cxx": "cpp"}
ALIASES |= {"js": "javascript", "node": "javascript", "rs": "rust"}
SUFFIXES = {".py": "python", ".sh": "bash", ".c": "c", ".cpp": "cpp", ".cc": "cpp", ".js": "javascript"}
SUFFIXES |= {".java": "java", ".rs": "rust"}


class Languages:
    """The table in use, by name and alias, with entries of the user's own before the built-in ones."""

    def __init__(self, own: tuple[Language, ...] = ()):
        self.by_name = {language.name: with_toolchain(language) for language in (*LANGUAGES, *own)}

    def find(self, name: str) -> Language:
        """DataError names what there is, or the program that is not installed."""
        language = self.by_name.get(ALIASES.get(name.lower(), name.lower()))
        if language is None:
            raise DataError(f"no language is called {name!r}; there are {', '.join(self.by_name)}")
        missing = self.missing(language)
        if missing:
            raise DataError(f"language {language.name} needs {missing!r}, which is not installed here")
        return language

    def missing(self, language: Language) -> str | None:
        """The first program of its commands that is not on this machine."""
        for command in (language.compile, language.run):
            if command and not command[0].startswith("{") and located(command[0], language) is None:
                return command[0]
        return None

    def available(self) -> list[str]:
        return [name for name, language in self.by_name.items() if self.missing(language) is None]

    def mounts(self) -> list[str]:
        """Folders beside /usr that some language needs."""
        return sorted({mount for language in self.by_name.values() for mount in language.mounts})


def located(program: str, language: Language) -> str | None:
    paths = [*(f"{mount}/bin" for mount in language.mounts), "/usr/local/bin", "/usr/bin", "/bin"]
    return shutil.which(program, path=os.pathsep.join(paths))


def with_toolchain(language: Language) -> Language:
    """Where a language's program lies outside /usr (a version manager's folder), show that folder too."""
    command = language.compile or language.run
    if not command or located(command[0], language) is not None:
        return language
    found = shutil.which(command[0])
    prefix = toolchain_prefix(found) if found else None
    if prefix is None:
        return language
    path = f"{prefix}/bin:/usr/local/bin:/usr/bin:/bin"
    changed = {"mounts": (*language.mounts, prefix), "environment": {**language.environment, "PATH": path}}
    return Language(**{name: changed.get(name, getattr(language, name)) for name in language.__dataclass_fields__})


def toolchain_prefix(program: str) -> str | None:
    """The installation a program belongs to; for rustup's proxies, the toolchain they would choose."""
    real = os.path.realpath(program)
    if os.path.basename(real) == "rustup":
        home = os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup"))
        folder = f"{home}/toolchains"
        chosen = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return f"{folder}/{chosen[-1]}" if chosen else None
    prefix = os.path.dirname(os.path.dirname(real))
    return prefix if prefix not in ("", "/", "/usr", "/usr/local") else None
