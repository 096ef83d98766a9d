"""Checkpoint folders that are whole or not there: written beside, checked, then renamed."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from strop.core.errors import CheckpointError
from strop.core.types import JSON

MANIFEST = "manifest.json"  # sizes and hashes of all other files; written last, so its presence ends a checkpoint
STATE = "state.json"
BEST = "best.json"

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint: the files its writer made under `path`, and the run's `state` after `step`."""

    step: int
    path: Path
    state: Mapping[str, JSON]


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of one stage. Keeps the newest `keep` and, where saves carry a score, the best.

    A save never touches an earlier checkpoint until the new one is whole on disk.
    """

    root: Path
    keep: int = 2

    def save(
        self,
        step: int,
        writer: Callable[[Path], None],
        state: Mapping[str, JSON],
        score: float | None = None,
        pinned: Collection[int] = (),
    ) -> Checkpoint:
        """Let `writer` fill a folder and make it checkpoint `step`; a higher `score` is better.

        Checkpoints of the steps in `pinned` are kept beside the newest.
        CheckpointError when it cannot be written, a full disk included; earlier checkpoints stay as they were.
        """
        target, partial = self.root / f"step-{step}", self.root / f".step-{step}.partial"
        try:
            for left in self.root.glob(".step-*.partial"):
                shutil.rmtree(left)
            partial.mkdir(parents=True)
            writer(partial)
            _write_json(partial / STATE, state)
            _seal(partial)
            shutil.rmtree(target, ignore_errors=True)
            os.replace(partial, target)
            _sync(self.root)
            if score is not None:
                self._note_best(step, score)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
            shutil.rmtree(partial, ignore_errors=True)
            reason = str(error).splitlines()[0]
            raise CheckpointError(
                f"{target} cannot be written ({reason}); free disk space, then go on with --resume"
            ) from error
        self._rotate(step, pinned)
        return Checkpoint(step=step, path=target, state=state)

    def latest(self) -> Checkpoint | None:
        """The newest complete checkpoint, by number; the log says why newer ones are passed over."""
        for step, folder in sorted(self._folders(), reverse=True):
            reason = _flaw(folder)
            if reason is None:
                return Checkpoint(step=step, path=folder, state=json.loads((folder / STATE).read_text()))
            log.warning("checkpoint %s is passed over: %s", folder, reason)
        return None

    def newest_up_to(self, last: int) -> Checkpoint | None:
        """The newest complete checkpoint of a step that is not after `last`."""
        for step, folder in sorted(self._folders(), reverse=True):
            if step <= last and _flaw(folder) is None:
                return Checkpoint(step=step, path=folder, state=json.loads((folder / STATE).read_text()))
        return None

    def best(self) -> int | None:
        """The step with the highest score so far, None when no save carried one."""
        file = self.root / BEST
        return int(json.loads(file.read_text())["step"]) if file.exists() else None

    def _folders(self) -> list[tuple[int, Path]]:
        names = self.root.glob("step-*")
        return [(int(p.name.removeprefix("step-")), p) for p in names if p.name.removeprefix("step-").isdigit()]

    def _note_best(self, step: int, score: float) -> None:
        file = self.root / BEST
        best = json.loads(file.read_text()) if file.exists() else None
        if best is None or best["step"] > step or score > best["score"]:
            partial = self.root / f".{BEST}"
            _write_json(partial, {"step": step, "score": score})
            os.replace(partial, file)

    def _rotate(self, newest: int, pinned: Collection[int]) -> None:
        """Delete what is too old, and what claims to be later than `newest`: steps only rise, so no resume needs it."""
        folders = sorted(self._folders())
        later = [folder for step, folder in folders if step > newest]
        earlier = [(step, folder) for step, folder in folders if step < newest]
        best = self.best()
        surplus = earlier[: max(0, len(earlier) - (self.keep - 1))]
        for folder in later:
            log.warning("checkpoint %s is deleted: step %d was saved after it", folder, newest)
        for folder in [*later, *(folder for step, folder in surplus if step != best and step not in pinned)]:
            (folder / MANIFEST).unlink(missing_ok=True)  # so that a half-deleted folder never counts as whole
            shutil.rmtree(folder)


def _seal(folder: Path) -> None:
    """Flush every file and write the manifest, the end mark."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    for file in files:
        _sync(file)
    _write_json(folder / MANIFEST, {str(p.relative_to(folder)): _measure(p) for p in files})
    _sync(folder)


def _flaw(folder: Path) -> str | None:
    """Why `folder` is no complete checkpoint; None when it is one."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        return f"it has no {MANIFEST}, so its save was not finished"
    except ValueError:
        return f"its {MANIFEST} cannot be read"
    for name, (size, digest) in manifest.items():
        file = folder / name
        if not file.is_file():
            return f"{name} is missing"
        if file.stat().st_size != size:
            return f"{name} has {file.stat().st_size} bytes, not {size}"
        if _measure(file)[1] != digest:
            return f"{name} has changed since it was saved"
    return None


def _measure(file: Path) -> list[int | str]:
    """Size in bytes and hash."""
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "blake2b").hexdigest()[:32]
    return [file.stat().st_size, digest]


def _write_json(file: Path, content: Mapping[str, JSON]) -> None:
    with file.open("w") as opened:
        json.dump(content, opened)
        opened.flush()
        os.fsync(opened.fileno())


def _sync(path: Path) -> None:
    """Flush a file or a folder's list of names to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
