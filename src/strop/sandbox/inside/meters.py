"""How much a job uses, and whether that is too much: by cgroup where one is given, else by sampling /proc.

The zygote of a slot shares its cgroup with the job it runs, so baselines are taken when a job begins.
"""

import os
import resource

PAGE = os.sysconf("SC_PAGESIZE")
FILL_BYTES_PER_S = 4 << 30
ROOM_BYTES = 32 << 20
TICKS = os.sysconf("SC_CLK_TCK")


class Cgroup:
    """Open control files of one slot's groups, by role; they work without any privilege, since they are open."""

    def __init__(self, files, version):
        self.files = files
        self.version = version
        self.memory_limit = self.process_limit = 0

    def join(self):
        """Move this process into the slot's groups."""
        for role, descriptor in self.files.items():
            if role.startswith("join"):
                os.pwrite(descriptor, b"0", 0)

    def _number(self, role):
        return int(os.pread(self.files[role], 64, 0))

    def _count(self, role, word):
        for line in os.pread(self.files[role], 4096, 0).decode().splitlines():
            name, _, value = line.partition(" ")
            if name == word:
                return int(value)
        return 0

    def begin(self, memory_bytes, processes):
        self.usage = self._number("memory_usage")
        wanted = (memory_bytes + self.usage) // PAGE * PAGE
        if abs(wanted - self.memory_limit) > memory_bytes // 64:
            os.pwrite(self.files["memory_max"], b"%d" % wanted, 0)
            self.memory_limit = wanted
        wanted = processes + self._number("pids_current") - 1  # the waiting child is already counted
        if wanted != self.process_limit:
            os.pwrite(self.files["pids_max"], b"%d" % wanted, 0)
            self.process_limit = wanted
        os.pwrite(self.files["memory_peak"], b"0", 0)
        self.kills = self._count("memory_events", "oom_kill")
        self.refusals = self._count("pids_events", "max")
        self.cpu_start = self._cpu()

    def _cpu(self):
        if self.version == 1:
            return self._number("cpu") / 1e9
        return self._count("cpu", "usage_usec") / 1e6

    def cpu_s(self):
        return self._cpu() - self.cpu_start

    def peak_bytes(self):
        return max(0, self._number("memory_peak") - self.usage)

    def memory_exceeded(self):
        return self._count("memory_events", "oom_kill") > self.kills

    def memory_time_s(self):
        return float("inf")  # the kernel watches

    def make_room(self):
        """Where the job filled its group, raise the limit: the zygote must not go short while it cleans up."""
        if self._number("memory_usage") + ROOM_BYTES > self.memory_limit:
            self.memory_limit += 2 * ROOM_BYTES
            os.pwrite(self.files["memory_max"], b"%d" % self.memory_limit, 0)

    def processes_exceeded(self):
        return self._count("pids_events", "max") > self.refusals


class Sampler:
    """The same without a cgroup. `find` gives the pids of the job's live processes."""

    def __init__(self, find):
        self.find = find

    def begin(self, memory_bytes, processes):
        self.memory_bytes, self.processes = memory_bytes, processes
        self.peak = self.last = self.most = 0
        self.too_much = False
        self.reaped = children_cpu()
        self.start = sum(_cpu_of(pid) for pid in self.find())

    def cpu_s(self):
        """CPU of live processes and reaped ones; also takes a sample of memory and of the number of threads."""
        live = rss = threads = 0
        pids = self.find()
        for pid in pids:
            live += _cpu_of(pid)
            rss += _rss_of(pid)
            threads += _threads_of(pid)
        if rss > self.memory_bytes:  # shared pages were counted once per process: look closer
            rss = sum(_pss_of(pid) for pid in pids)
        self.last = rss
        self.peak = max(self.peak, rss)
        self.too_much = self.too_much or rss > self.memory_bytes
        self.most = max(self.most, threads)
        return live + children_cpu() - self.reaped - self.start

    def peak_bytes(self):
        return self.peak

    def memory_exceeded(self):
        return self.too_much

    def memory_time_s(self):
        """How soon one core could fill what is left."""
        return max(0.002, (self.memory_bytes - self.last) / FILL_BYTES_PER_S)

    def make_room(self):
        pass

    def processes_exceeded(self):
        return self.most >= self.processes


class Reaped:
    """Where neither a cgroup nor /proc can be had: CPU of ended processes only; other limits are rlimits of the job."""

    def begin(self, memory_bytes, processes):
        self.start = children_cpu()

    def cpu_s(self):
        return children_cpu() - self.start

    def peak_bytes(self):
        return 0

    def memory_exceeded(self):
        return False

    def memory_time_s(self):
        return float("inf")

    def make_room(self):
        pass

    def processes_exceeded(self):
        return False


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _read(path):
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(4096)
    except OSError:
        return b""  # it ended


def _cpu_of(pid):
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICKS if fields else 0.0


def _threads_of(pid):
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[17]) if fields else 0


def _rss_of(pid):
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE if fields else 0


def _pss_of(pid):
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def namespace_pids():
    """All processes of this pid namespace but its init, who asks."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def descendants(root=None):
    """All processes below this one (their parents may have ended: a subreaper inherits them)."""
    found = []
    unseen = [root or os.getpid()]
    while unseen:
        pid = unseen.pop()
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            children = [int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split()]
            found += children
            unseen += children
    return found
