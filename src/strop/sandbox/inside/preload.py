"""What the launcher imports once, so that no job pays for it: what programs use most, and named packages."""

import builtins
import importlib
import sys

MODULES = (
    "abc bisect collections copy dataclasses datetime decimal enum fractions functools heapq io itertools json math "
    "operator os random re statistics string struct sys threading time traceback types typing linecache"
).split()


def load(packages):
    """`packages` are (folder, modules) pairs: where importable packages lie, and what of them to import now."""
    import _sitebuiltins

    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    builtins.help = _sitebuiltins._Helper()
    for name in MODULES:
        importlib.import_module(name)
    for folder, modules in packages:
        sys.path.append(folder)
        for name in modules:
            importlib.import_module(name)
