"""What the launcher imports once, so that no job pays for it: what programs use most, and named packages."""

import builtins
import importlib
import sys
from importlib import machinery

MODULES = (
    "abc bisect collections copy dataclasses datetime decimal enum fractions functools heapq io itertools json math "
    "operator os random re statistics string struct sys threading time traceback types typing linecache"
).split()


class ShownFinder(machinery.FileFinder):
    """Finds what is shown of a folder that jobs may pass but not list, as the usual finder would have to."""

    def __init__(self, folder, entries):
        super().__init__(folder, *_LOADERS)
        self.entries = entries

    def _fill_cache(self):
        self._path_cache = set(self.entries)


_LOADERS = (
    (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
    (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
    (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
)


def load(packages):
    """`packages` are (folder, modules, entries): where importable packages lie, what of them to import now, and which
    files and folders there are shown."""
    import _sitebuiltins

    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    builtins.help = _sitebuiltins._Helper()
    for name in MODULES:
        importlib.import_module(name)
    for folder, modules, entries in packages:
        sys.path.append(folder)
        sys.path_importer_cache[folder] = ShownFinder(folder, entries)
        for name in modules:
            importlib.import_module(name)
