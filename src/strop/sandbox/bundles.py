"""What a gVisor container is made of: one read-only root for all of a sandbox, and a configuration for each job."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strop.sandbox.inside import places
from strop.sandbox.zygotes import ENVIRONMENT, base_interpreter

INSIDE = Path(__file__).parent / "inside"
SHOWN_INSIDE = "/own/inside"  # below a folder that only the first process may enter
TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# the driver's own, to make the job's place, become the job's user and end its processes; the job has none
CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_OVERRIDE")
RLIMITS = (
    ("RLIMIT_STACK", 64 << 20, 1 << 30),
    ("RLIMIT_NOFILE", 256, 256),
    ("RLIMIT_CORE", 0, 0),
)


def make_root(folder: Path, mounts: Sequence[str]) -> list[str]:
    """Fill `folder` with links, mount points and a few files of /etc; returns what is to be mounted of the host."""
    shown = ["/usr", *(path for path in mounts if os.path.exists(path))]
    for name in TOP:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), folder / name)
        elif os.path.isdir(f"/{name}"):
            shown.append(f"/{name}")
    for place in ("/proc", "/dev", "/var/tmp", places.BOX, SHOWN_INSIDE, *shown):
        target = folder / place[1:]
        if os.path.isfile(place):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        else:
            target.mkdir(parents=True, exist_ok=True)
        _close_parents(folder, target)
    (folder / "own").chmod(0o700)
    if not (folder / "tmp").exists():  # it does where packages are shown that lie below it; TMPDIR names the other
        os.symlink(f"{places.BOX}/tmp", folder / "tmp")
    _fill_etc(folder / "etc")
    return shown


def _close_parents(folder: Path, target: Path) -> None:
    """What lies above a mount point, such as a home, can be passed but not listed."""
    for parent in target.parents:
        if parent == folder:
            return
        parent.chmod(0o711)


def _fill_etc(etc: Path) -> None:
    etc.mkdir()
    for name in (*places.ETC, *(name for name in os.listdir("/etc") if name.startswith("java"))):
        source = Path("/etc", name)
        if source.is_dir():
            shutil.copytree(source, etc / name, symlinks=True, ignore=_closed)
        elif source.exists():
            shutil.copyfile(source, etc / name)
    (etc / "passwd").write_text(places.PASSWD)
    (etc / "group").write_text(places.GROUP)
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")


def _closed(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not os.access(os.path.join(folder, name), os.R_OK)]


def config_of(root: Path, shown: Sequence[str], disk_bytes: int) -> str:
    """The OCI configuration of a container that runs one job."""
    place = {"destination": places.BOX, "type": "tmpfs", "source": "tmpfs"}
    mounts: list[dict[str, Any]] = [{"destination": "/proc", "type": "proc", "source": "proc"}]
    mounts += [_bind(path, path) for path in shown]
    mounts += [_bind(str(INSIDE), SHOWN_INSIDE), {**place, "options": [f"size={disk_bytes}", "mode=0755", "nosuid"]}]
    capabilities = dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES)
    process = {
        "user": {"uid": 0, "gid": 0},
        "args": [base_interpreter(), "-I", "-S", f"{SHOWN_INSIDE}/contained.py"],
        "env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
        "cwd": "/",
        "capabilities": capabilities,
        "rlimits": [{"type": kind, "soft": soft, "hard": hard} for kind, soft, hard in RLIMITS],
        "noNewPrivileges": True,
    }
    namespaces = [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]
    return json.dumps(
        {
            "ociVersion": "1.0.0",
            "process": process,
            "root": {"path": str(root), "readonly": True},
            "hostname": "job",
            "mounts": mounts,
            "linux": {"namespaces": namespaces},
        }
    )


def _bind(source: str, destination: str) -> dict[str, Any]:
    return {"destination": destination, "type": "bind", "source": source, "options": ["ro", "rbind", "nosuid"]}
