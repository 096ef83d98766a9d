"""Checkpoints that are whole or absent: written aside, checked, then renamed; the end mark is written last."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strop.core.errors import CheckpointError

log = logging.getLogger(__name__)

MARK = "checkpoint.json"
PREFIX = "step-"
CHUNK = 1 << 22


@dataclass(frozen=True)
class Checkpoint:
    step: int
    path: Path
    state: Mapping[str, Any]


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of one stage. `keep` newest ones stay, and `best` if it is named."""

    root: Path
    keep: int = 2

    def save(self, step: int, write: Callable[[Path], None], state: Mapping[str, Any], best: int | None = None) -> Path:
        """Write a checkpoint of `step`. CheckpointError when it cannot be; what was there stays as it was."""
        target = self.root / f"{PREFIX}{step}"
        scratch = self.root / f".writing-{step}"
        try:
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            write(scratch)
            files = {f.name: _fingerprint(f) for f in sorted(scratch.iterdir())}
            mark = {"step": step, "state": dict(state), "files": files}
            _write_synced(scratch / MARK, json.dumps(mark, indent=1).encode())
            shutil.rmtree(target, ignore_errors=True)
            os.replace(scratch, target)
        except (OSError, RuntimeError) as error:
            shutil.rmtree(scratch, ignore_errors=True)
            raise CheckpointError(
                f"cannot save step {step} under {self.root}: {error}; free some space. The last checkpoint is intact"
            ) from error
        self._rotate(step, best)
        return target

    def latest(self) -> Checkpoint | None:
        """The newest complete checkpoint; the log says why newer ones were passed over."""
        for step, path in sorted(self._folders(), reverse=True):
            reason = self._fault(path)
            if reason is None:
                return Checkpoint(step, path, json.loads((path / MARK).read_text())["state"])
            log.warning("checkpoint %s passed over: %s", path, reason)
        return None

    def _folders(self) -> list[tuple[int, Path]]:
        found = self.root.glob(f"{PREFIX}*") if self.root.is_dir() else ()
        return [(int(n), p) for p in found if (n := p.name.removeprefix(PREFIX)).isdigit()]

    def _fault(self, path: Path) -> str | None:
        if not (path / MARK).is_file():
            return "no end mark: it was not written to the end"
        try:
            files = json.loads((path / MARK).read_text())["files"]
        except (ValueError, KeyError):
            return "its end mark cannot be read"
        for name, fingerprint in files.items():
            if not (path / name).is_file():
                return f"{name} is missing"
            if _fingerprint(path / name) != fingerprint:
                return f"{name} is not what was written"
        return None

    def _rotate(self, newest: int, best: int | None) -> None:
        older = sorted(step for step, _ in self._folders() if step < newest and step != best)
        for step in older[: max(0, len(older) - (self.keep - 1))]:
            shutil.rmtree(self.root / f"{PREFIX}{step}")


def _fingerprint(file: Path) -> dict[str, Any]:
    digest = hashlib.blake2b(digest_size=16)
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return {"bytes": file.stat().st_size, "blake2b": digest.hexdigest()}


def _write_synced(file: Path, content: bytes) -> None:
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
