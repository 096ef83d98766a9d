"""One cgroup per slot for memory, number of processes and CPU time, under version 1 or 2, where root may make them."""

import os
import time

import meters

FILES = {
    1: {
        "memory": {
            "memory_max": "memory.limit_in_bytes",
            "memory_usage": "memory.usage_in_bytes",
            "memory_peak": "memory.max_usage_in_bytes",
            "memory_events": "memory.oom_control",
        },
        "pids": {"pids_max": "pids.max", "pids_current": "pids.current", "pids_events": "pids.events"},
        "cpuacct": {"cpu": "cpuacct.usage"},
    },
    2: {
        "": {
            "memory_max": "memory.max",
            "memory_usage": "memory.current",
            "memory_peak": "memory.peak",
            "memory_events": "memory.events",
            "pids_max": "pids.max",
            "pids_current": "pids.current",
            "pids_events": "pids.events",
            "cpu": "cpu.stat",
        }
    },
}
WRITTEN = ("memory_max", "memory_peak", "pids_max")


class Groups:
    """The groups of one sandbox; `version` is 0 where none can be made, and then nothing else may be asked of it."""

    def __init__(self, name, slots):
        self.name = name
        self.roots = {}
        self.version = 0
        for version, roots in ((1, _mounts_of_version_1()), (2, _mount_of_version_2())):
            if roots:
                try:
                    self._make(version, roots, slots)
                    return
                except OSError:
                    self.remove()

    def _make(self, version, roots, slots):
        self.roots, self.version = roots, version
        for root in roots.values():
            _sweep(root, self.name)
            os.mkdir(f"{root}/{self.name}")
            if version == 2:
                _write(f"{root}/{self.name}/cgroup.subtree_control", "+memory +pids +cpu")
            for index in range(slots):
                os.mkdir(f"{root}/{self.name}/{index}")
        for descriptor in self.open(0).files.values():
            os.close(descriptor)

    def open(self, index):
        """The control files of one slot, as a meter; None without cgroups."""
        if not self.version:
            return None
        files = {}
        for controller, names in FILES[self.version].items():
            folder = f"{self.roots[controller]}/{self.name}/{index}"
            files[f"join {controller}"] = os.open(f"{folder}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
            for role, name in names.items():
                mode = os.O_RDWR if role in WRITTEN else os.O_RDONLY
                files[role] = os.open(f"{folder}/{name}", mode | os.O_CLOEXEC)
        return meters.Cgroup(files, self.version)

    def remove(self):
        for root in self.roots.values():
            _remove(f"{root}/{self.name}")
        self.version = 0


def _mounts_of_version_1():
    mounts = {}
    for line in open("/proc/self/mounts"):
        _, place, kind, options = line.split()[:4]
        if kind == "cgroup":
            for controller in FILES[1]:
                if controller in options.split(","):
                    mounts[controller] = place + _own_path(controller)
    return mounts if len(mounts) == len(FILES[1]) else {}


def _own_path(controller):
    """Where this process stands below a mount: a container may see only its own part of the tree."""
    for line in open("/proc/self/cgroup"):
        _, controllers, path = line.strip().split(":", 2)
        if controller in controllers.split(","):
            return "" if path == "/" or ".." in path else path
    return ""


def _mount_of_version_2():
    for line in open("/proc/self/mounts"):
        _, place, kind = line.split()[:3]
        if kind == "cgroup2":
            with open(f"{place}/cgroup.controllers") as file:
                if {"memory", "pids", "cpu"} <= set(file.read().split()):
                    return {"": place}
    return {}


def _sweep(root, own):
    """Remove the groups of sandboxes whose launcher is gone; their names say which process that was."""
    kind = own.rpartition(".")[0].rpartition(".")[0]
    for name in os.listdir(root):
        if name.startswith(kind + ".") and name != own:
            _, pid, started = name.rsplit(".", 2)
            if _start_time(pid) != started:
                _remove(f"{root}/{name}")


def _start_time(pid):
    """None for a process that has ended, reaped or not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def unique_name(kind="strop"):
    """A name that a later start can tell dead from alive."""
    return f"{kind}.{os.getpid()}.{_start_time(os.getpid())}"


def _remove(folder):
    """Kill what is left in a group, then remove it; one that the kernel still empties is left to a later sweep."""
    if not os.path.isdir(folder):
        return
    for name in os.listdir(folder):
        if os.path.isdir(f"{folder}/{name}"):
            _remove(f"{folder}/{name}")
    for _ in range(100):
        try:
            os.rmdir(folder)
            return
        except OSError:
            for pid in open(f"{folder}/cgroup.procs").read().split():
                os.kill(int(pid), 9)
            time.sleep(0.01)


def _write(path, text):
    with open(path, "w") as file:
        file.write(text)
