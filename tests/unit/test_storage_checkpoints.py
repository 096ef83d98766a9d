"""Checkpoints are whole or not there, whatever happens while they are written."""

import json
import logging
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strop.core.errors import CheckpointError
from strop.storage.checkpoints import MANIFEST, CheckpointFolder


def write_weights(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(b"w" * 1000)


def steps_in(root: Path) -> list[int]:
    return sorted(int(p.name.removeprefix("step-")) for p in root.glob("step-*"))


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoints", keep=2)
    assert folder.latest() is None
    folder.save(3, write_weights, {"next_ticket": 24, "curriculum": {"a": [1, 2]}})
    found = folder.latest()
    assert found is not None
    assert (found.step, found.state) == (3, {"next_ticket": 24, "curriculum": {"a": [1, 2]}})
    assert (found.path / "weights.bin").read_bytes() == b"w" * 1000


def test_newest_complete_by_number(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = CheckpointFolder(tmp_path, keep=10)
    for step in (9, 10, 11, 12, 13):
        folder.save(step, write_weights, {})
    (tmp_path / "step-11" / MANIFEST).unlink()
    (tmp_path / "step-12" / "weights.bin").write_bytes(b"w" * 500)
    (tmp_path / "step-13" / "weights.bin").write_bytes(b"x" * 1000)
    with caplog.at_level(logging.WARNING):
        found = folder.latest()
    assert found is not None and found.step == 10
    assert ["step-13" in m and "changed" in m for m in caplog.messages] == [True, False, False]
    assert "500 bytes, not 1000" in caplog.messages[1]
    assert "not finished" in caplog.messages[2]


def test_rotation_keeps_best_and_newest(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=1)
    for step, score in ((1, 0.2), (2, 0.9), (3, 0.5), (4, 0.6)):
        folder.save(step, write_weights, {}, score=score)
    assert steps_in(tmp_path) == [2, 4]
    assert folder.best() == 2


@pytest.mark.parametrize("keep", [1, 3])
def test_leftovers_of_an_older_run_are_not_newer(tmp_path: Path, keep: int) -> None:
    CheckpointFolder(tmp_path, keep=keep).save(1000, write_weights, {}, score=9.0)
    folder = CheckpointFolder(tmp_path, keep=keep)
    folder.save(10, write_weights, {}, score=0.1)
    assert steps_in(tmp_path) == [10]
    assert folder.best() == 10
    found = folder.latest()
    assert found is not None and found.step == 10


FULL_DISK = """
import resource, sys
from pathlib import Path
from strop.core.errors import CheckpointError
from strop.storage.checkpoints import CheckpointFolder
folder = CheckpointFolder(Path(sys.argv[1]), keep=1)
folder.save(1, lambda f: (f / "weights").write_bytes(b"w" * 1000), {"ok": True})
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    folder.save(2, lambda f: (f / "weights").write_bytes(b"w" * 100_000), {})
except CheckpointError as error:
    print(error)
"""


def test_full_disk_is_one_line_and_the_last_checkpoint_stays(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True)
    assert len(done.stdout.strip().splitlines()) == 1
    assert "step-2 cannot be written" in done.stdout and "free disk space" in done.stdout
    found = CheckpointFolder(tmp_path, keep=1).latest()
    assert found is not None and found.state == {"ok": True}
    assert [p.name for p in tmp_path.iterdir()] == ["step-1"]


SAVING = """
import sys
from pathlib import Path
from strop.storage.checkpoints import CheckpointFolder
folder = CheckpointFolder(Path(sys.argv[1]), keep=2)
found = folder.latest()
step = found.step if found else 0
def write(target):
    for part in range(4):
        (target / str(part)).write_bytes(bytes([step % 256]) * 500_000)
while True:
    step += 1
    folder.save(step, write, {"n": step})
    print(step, flush=True)
"""


def test_killed_at_any_moment_resumes_from_the_newest_complete(tmp_path: Path) -> None:
    moments = random.Random(0)
    newest = 0
    for _ in range(8):
        with subprocess.Popen([sys.executable, "-c", SAVING, str(tmp_path)], stdout=subprocess.PIPE) as saving:
            assert saving.stdout is not None
            first = saving.stdout.readline()
            time.sleep(moments.uniform(0.0, 0.1))
            saving.send_signal(signal.SIGKILL)
            said = [int(line) for line in (first + saving.stdout.read()).split()]
        found = CheckpointFolder(tmp_path, keep=2).latest()
        assert found is not None and found.step in (said[-1], said[-1] + 1)  # the last print may have come too late
        assert said[0] == newest + 1
        assert found.state == {"n": found.step}
        assert (found.path / "3").read_bytes() == bytes([found.step % 256]) * 500_000
        newest = found.step


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        raise RuntimeError("file write failed\nlong C++ trace")

    folder = CheckpointFolder(tmp_path, keep=1)
    folder.save(1, write_weights, {})
    with pytest.raises(CheckpointError, match="file write failed") as caught:
        folder.save(2, fail, {})
    assert "\n" not in str(caught.value)
    assert steps_in(tmp_path) == [1]
    assert json.loads((tmp_path / "step-1" / "state.json").read_text()) == {}
