"""A folder of samples: `samples.jsonl`, what was left out of it and why, and a manifest of the hash of each sample."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from strop.core.errors import DataError
from strop.core.types import JSON
from strop.tasks.files import read_rows
from strop.tasks.samples import Removed, Sample, content_hash

SAMPLES = "samples.jsonl"
REMOVED = "removed.jsonl"
MANIFEST = "manifest.json"
FORMAT = 1


def write_samples(
    folder: Path,
    samples: Sequence[Sample],
    removed: Sequence[Removed],
    *,
    sources: Sequence[str],
    made_by: Mapping[str, JSON],
    overwrite: bool = False,
) -> Mapping[str, Any]:
    """Write the folder whole or not at all, and return its manifest.

    DataError where the folder is there already, unless `overwrite` is given and it is one of ours.
    """
    check_target(folder, overwrite)
    beside, old = (folder.with_name(f".{folder.name}.{name}") for name in ("partial", "old"))
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    _write_lines(beside / SAMPLES, [sample.row for sample in samples])
    _write_lines(beside / REMOVED, [_removed_row(one) for one in removed])
    manifest = {
        "format": FORMAT,
        "kind": samples[0].kind if samples else None,
        "num_samples": len(samples),
        "hash": hash_of([sample.id for sample in samples]),
        "removed": dict(Counter(one.reason for one in removed)),
        "made_by": dict(made_by),
        "sources": [{"path": path, "hash": file_hash(Path(path))} for path in sources],
        "samples": [{"id": s.id, "prompt_id": s.prompt_id, "from": s.where} for s in samples],
    }
    (beside / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False))
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.replace(folder, old)
    os.replace(beside, folder)
    shutil.rmtree(old, ignore_errors=True)
    return manifest


def check_target(folder: Path, overwrite: bool) -> None:
    """DataError where writing would lose something."""
    if not folder.exists():
        return
    if not (folder / MANIFEST).is_file():
        raise DataError(f"{folder}: exists and is no folder of samples; give another --out")
    if not overwrite:
        raise DataError(f"{folder}: holds samples already; give another --out, or --overwrite to replace them")


def samples_file(path: Path) -> str:
    """The file to read samples from: of a folder of ours its `samples.jsonl`, else `path` itself."""
    if not path.is_dir():
        return str(path)
    if not (path / SAMPLES).is_file():
        raise DataError(f"{path}: holds no {SAMPLES}; give a folder that strop data made, or a file")
    return str(path / SAMPLES)


def check_samples(folder: Path) -> tuple[int, list[str]]:
    """The number of samples and what does not agree with the manifest, a line each; empty where all does."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        wanted = [entry["id"] for entry in manifest["samples"]]
        whole = manifest["hash"]
    except FileNotFoundError as error:
        raise DataError(f"{folder}: holds no {MANIFEST}; give a folder that strop data made") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder / MANIFEST}: is no manifest of strop data ({error}); import the files again"
        ) from error
    flaws, found = [], []
    for where, row in read_rows(samples_file(folder)):
        found.append(content_hash(row))
        if row.get("id") != found[-1]:
            flaws.append(f"{where}: its content is not that of its id; it was changed after the import")
    missing, extra = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    flaws += [f"{folder / SAMPLES}: sample {name} of the manifest is missing" for name in missing]
    flaws += [f"{folder / SAMPLES}: sample {name} is not in the manifest" for name in extra]
    if not flaws and hash_of(found) != whole:
        flaws.append(f"{folder / SAMPLES}: the samples stand in another order than in the manifest")
    return len(found), flaws


def hash_of(ids: Sequence[str]) -> str:
    """Of all samples, in their order."""
    return blake2b("\n".join(ids).encode(), digest_size=16).hexdigest()


def file_hash(path: Path) -> str | None:
    """Of a file's bytes; None of what is no file (a hub data set)."""
    return blake2b(path.read_bytes(), digest_size=16).hexdigest() if path.is_file() else None


def _removed_row(removed: Removed) -> dict[str, Any]:
    about = {"reason": removed.reason, "share": round(removed.share, 4), "of": removed.of, "from": removed.sample.where}
    return {**about, "row": removed.sample.row}


def _write_lines(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with file.open("w", encoding="utf-8") as opened:
        for row in rows:
            opened.write(json.dumps(row, ensure_ascii=False) + "\n")
        opened.flush()
        os.fsync(opened.fileno())
