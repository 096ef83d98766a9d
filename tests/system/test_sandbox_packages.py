"""`packages` shows the distributions that are named, with the programs they bring, and nothing else, at every tier."""

import asyncio
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from strop.core.errors import ConfigError
from strop.core.programs import Limits, Program
from strop.sandbox.gvisor import GvisorSandbox
from strop.sandbox.jail import LocalSandbox, SandboxSettings
from strop.sandbox.packages import package_mounts

SHOWN = ("regex", "typing_extensions", "ruff")  # a package with compiled parts, a single module, a program
SITE = sysconfig.get_path("purelib")


@pytest.fixture(scope="module", params=["full", "rootless", "landlock", "gvisor"])
def sandbox(request):
    if request.param == "gvisor":
        if shutil.which("runsc") is None:
            pytest.skip("runsc is not installed")
        made = GvisorSandbox(SandboxSettings(packages=SHOWN))
    else:
        made = LocalSandbox(SandboxSettings(tier=request.param, packages=SHOWN))
    try:
        asyncio.run(made.start())
    except ConfigError as error:
        pytest.skip(str(error))
    yield made
    made.close()


async def ran(sandbox, source):
    await sandbox.start()
    return await sandbox.run(Program(language="python", source=source), Limits())


async def test_what_is_named_can_be_imported_without_preloading(sandbox):
    source = """
import regex, typing_extensions, ruff, regex._regex_core
print(regex.search("b+", "abbc")[0], typing_extensions.Self is not None, ruff.__name__)
import importlib
importlib.invalidate_caches()
import typing_extensions as again
try:
    import regex.nothing_of_this_name
except ModuleNotFoundError:
    print("absent")
"""
    done = await ran(sandbox, source)
    assert done.stdout.decode().splitlines() == ["bb True ruff", "absent"], done


@pytest.mark.parametrize("name", ["numpy", "pydantic", "strop", "pytest"])
async def test_what_is_not_named_cannot(sandbox, name):
    done = await ran(sandbox, f"import {name}")
    assert done.status == "runtime_error" and f"No module named '{name}'" in done.stderr.decode()


async def test_the_program_of_a_package_runs_and_the_scripts_beside_it_are_not_there(sandbox):
    scripts = sysconfig.get_path("scripts")
    assert Path(scripts, "pytest").exists()
    source = f"""
import os, subprocess
print(subprocess.run([{str(Path(scripts, "ruff"))!r}, "--version"], capture_output=True, text=True).stdout)
try:
    print(open({str(Path(scripts, "pytest"))!r}).read())
except OSError as error:
    print(type(error).__name__)
"""
    done = await ran(sandbox, source)
    version, _, refused = done.stdout.decode().splitlines()
    assert version.startswith("ruff ") and refused in ("PermissionError", "FileNotFoundError"), done


def test_mounts_are_the_entries_and_compiled_programs_of_the_named():
    shown, folders = package_mounts(("ruff",), ("ruff",))
    assert str(Path(sysconfig.get_path("scripts"), "ruff")) in shown
    [(folder, preloaded, entries)] = folders
    assert folder == SITE and preloaded == ("ruff",) and "ruff" in entries
    assert {Path(path).name for path in shown} - {"ruff"} == {entry for entry in entries if entry != "ruff"}
    shown, _ = package_mounts(("pytest",))
    assert not [path for path in shown if Path(path).parent == Path(sys.prefix, "bin")]
    with pytest.raises(ConfigError, match="pip install nowhere-to-be-found"):
        package_mounts(("nowhere-to-be-found",))
