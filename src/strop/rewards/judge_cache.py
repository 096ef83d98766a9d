"""Verdicts by the hash of all that decided them, in memory and, where asked for, in a file that later runs read."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class VerdictCache:
    """The `size` verdicts used last. The file gets a line for each new verdict and is shortened when it is read.

    A line that cannot be read (torn by a crash, or another's) is left out.
    """

    def __init__(self, size: int, file: str | None = None) -> None:
        self._size = size
        self._file = Path(file) if file is not None else None
        self._held: OrderedDict[str, Mapping[str, Any]] | None = None  # read at the first use
        self._lock = threading.Lock()

    def get(self, key: str) -> Mapping[str, Any] | None:
        with self._lock:
            held = self._open()
            if key in held:
                held.move_to_end(key)
            return held.get(key)

    def put(self, key: str, verdict: Mapping[str, Any]) -> None:
        with self._lock:
            self._keep(self._open(), key, verdict)
            if self._file is not None:
                line = json.dumps({"key": key, "verdict": verdict}) + "\n"
                with self._file.open("a", encoding="utf-8") as stream:  # one write: lines of several runs do not mix
                    stream.write(line)

    def _keep(self, held: OrderedDict[str, Mapping[str, Any]], key: str, verdict: Mapping[str, Any]) -> None:
        held[key] = verdict
        held.move_to_end(key)
        while len(held) > self._size:
            held.popitem(last=False)

    def _open(self) -> OrderedDict[str, Mapping[str, Any]]:
        if self._held is None:
            self._held = OrderedDict()
            if self._file is not None and self._file.is_file():
                self._read(self._file, self._held)
        return self._held

    def _read(self, file: Path, held: OrderedDict[str, Mapping[str, Any]]) -> None:
        text = file.read_bytes().decode("utf-8", "replace")
        lines = text.splitlines()
        for line in lines:
            try:
                row = json.loads(line)
                key, verdict = row["key"], row["verdict"]
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            if isinstance(key, str) and isinstance(verdict, dict):
                self._keep(held, key, verdict)
        if len(lines) > 2 * self._size or not text.endswith("\n"):
            short = file.with_name(f"{file.name}.{os.getpid()}")
            rows = (json.dumps({"key": key, "verdict": verdict}) + "\n" for key, verdict in held.items())
            short.write_text("".join(rows), encoding="utf-8")
            short.replace(file)
