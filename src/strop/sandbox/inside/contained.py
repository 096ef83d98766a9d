"""The first process of a gVisor container: it gets one job on its stdin, runs it, and tells of it on its stdout.

It stays root of the container, so that the job, of another user, can neither signal it nor reach its descriptors. In
and out go frames: `<II` kind and length, then bytes. The first frame in is the job, the second all its contents; what
follows is for the job's channel. That its stdin ends takes the job back.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import stat
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import filters
import job as job_process
import kernel
import meters
import preload
import rootfs
import slot

sys.path.pop(0)

JOB, CONTENTS, CHANNEL, HANG_UP, ALIVE, OUTPUT, RESULT = range(7)
FRAME = struct.Struct("<II")
MAX_PART = 256 << 10
ALIVE_S = 1.0
USER = 1000
STREAMS = slot.STREAMS
KEPT = (*STREAMS, "files")
KILL_WAIT_S = 5.0
SETTINGS = {
    "box": rootfs.BOX,
    "tmp": "/tmp",
    "limit_processes": True,
    "limit_address_space": True,
    "processes_before": 0,
}


def main():
    os.dup2(2, 3)  # the child's report is to be descriptor 3, so that nothing else may lie there
    line = Line(os.dup(0), os.dup(1))
    job, content = json.loads(line.read(JOB)), line.read(CONTENTS)
    preload.load(job["packages"])
    place = rootfs.fill_box(rootfs.BOX, USER)
    _leave_only_known_devices()
    os.symlink(f"{rootfs.BOX}/shm", "/dev/shm")
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    memory = {name: os.memfd_create(name, os.MFD_CLOEXEC) for name in KEPT}
    child = Child(job, _files_of(job, content), place)
    meter = Meter(child)
    meter.begin(job["limits"]["memory"], job["limits"]["processes"])
    before, started = meters.children_cpu(), time.monotonic()
    child.start()
    watch = meter.watch = slot.Watch(child, job, memory, meter, started, os.cpu_count() or 1, copy)
    line.serve(child.channel)
    watch.until_end(line.control)
    wall = time.monotonic() - started
    status, peak = _end_all(child)
    watch.drain(last=True)
    watch.hear()
    result = watch.result(status, meters.children_cpu() - before, wall)
    result |= {"peak_memory_bytes": meter.peak_bytes() or peak, "counted": False}
    result["files"] = _fetch(place, job["fetch"], memory["files"], job["limits"]["disk"])
    line.finish(result, memory)


def _leave_only_known_devices():
    for name in os.listdir("/dev"):
        if name not in (*rootfs.DEVICES, "fd", "stdin", "stdout", "stderr", "tty", "ptmx", "pts"):
            path = f"/dev/{name}"
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def copy(source, target, size, offset):
    """As `slot.splice`, which some gVisor takes for ended while the pipe is empty."""
    return os.pwrite(target, os.read(source, size), offset)


def _files_of(job, content):
    """A memory file for each part of the contents, as the job expects them."""
    view, files = memoryview(content), {}
    for name, size in job["contents"]:
        files[name] = os.memfd_create(name, os.MFD_CLOEXEC)
        part, view = view[:size], view[size:]
        while part:
            part = part[os.write(files[name], part) :]
        os.lseek(files[name], 0, os.SEEK_SET)
        os.fchmod(files[name], 0o755)
    return files


class Child:
    """The job's process, with what `slot.Watch` asks of one."""

    def __init__(self, job, files, work):
        self.job = job
        self.files = files
        self.work = work
        self.setup_cpu_s = 0.0
        self.channel = None
        self.filter = filters.build(kernel.MACHINE, unix_sockets=True, memory_files=True)
        self.pid = 0
        self.outputs = []
        self.report = None
        self.pidfd, self.ended = os.pipe()  # stands for a pidfd, which not every gVisor has

    def start(self):
        self.report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        writes = []
        os.seteuid(USER)  # the pipes are to be its own, so that it can open /dev/stdout
        for _ in STREAMS if self.job["answers"] else STREAMS[:2]:
            read, write = os.pipe()
            self.outputs.append(read)
            writes.append(write)
        os.seteuid(0)
        if self.job["answers"]:
            self.files["answers"] = writes[2]
        if self.job["channel"]:
            self.channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            self.files["channel"] = other.detach()
        self.pid = os.fork()
        if self.pid == 0:
            self._become(theirs, writes)
        theirs.close()
        for descriptor in {*writes, *self.files.values()}:
            os.close(descriptor)
        threading.Thread(target=self._wait, daemon=True).start()

    def _become(self, report, writes):
        status = job_process.FAILED
        try:
            os.setsid()
            os.dup2(writes[0], 1)
            os.dup2(writes[1], 2)
            os.dup2(report.fileno(), 3, inheritable=False)
            report.detach()
            report = socket.socket(fileno=3)
            os.setgroups([])
            os.setresgid(USER, USER, USER)
            os.setresuid(USER, USER, USER)
            kernel.drop_capabilities()
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
            job_process.enter(SETTINGS | {"filter": self.filter})
            status = job_process.start(report, self.job, self.files, SETTINGS)
        except BaseException as error:
            status = job_process.failed(report, error)
        os._exit(status)

    def _wait(self):
        with contextlib.suppress(OSError):  # reaped already
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        os.write(self.ended, b"x")


class Meter:
    """CPU and threads by sampling; memory is what the container's kernel says is in use, files in memory included."""

    def __init__(self, child):
        self.sampler = meters.Sampler(meters.namespace_pids)
        self.child = child
        self.watch = None

    def begin(self, memory_bytes, processes):
        self.processes = processes
        self.sampler.begin(float("inf"), processes)
        self.limit = memory_bytes
        self.start = self.last = self.peak = _used_bytes()

    def cpu_s(self):
        self.last = _used_bytes()
        self.peak = max(self.peak, self.last)
        used = self.sampler.cpu_s()
        if self.sampler.most > self.processes:  # some versions of gVisor let any number be made
            self.watch.limit = self.watch.limit or "processes"
        return used

    def peak_bytes(self):
        return self.peak - self.start

    def memory_exceeded(self):
        return self.peak - self.start > self.limit

    def memory_time_s(self):
        return max(0.002, (self.limit - self.last + self.start) / meters.FILL_BYTES_PER_S)

    def processes_exceeded(self):
        return self.sampler.processes_exceeded()


def _used_bytes():
    """Memory of processes and of files in memory, without what is only kept of files of the host."""
    with open("/proc/meminfo", "rb", buffering=0) as file:
        fields = file.read(2048).split()
    return int(fields[fields.index(b"AnonPages:") + 1]) * 1024


class Line:
    """The frames to and from the supervisor. Two threads carry the channel; `control` is readable once stdin ended."""

    def __init__(self, given, told):
        self.given = given
        self.told = told
        self.lock = threading.Lock()
        self.relay = None
        self.over, self.drained = threading.Event(), threading.Event()
        self.control, self.gone = socket.socketpair()

    def read(self, kind):
        found, length = FRAME.unpack(self._exactly(FRAME.size))
        if found != kind:
            raise SystemExit("the supervisor does not speak this protocol")
        return self._exactly(length)

    def _exactly(self, size):
        data = bytearray()
        while len(data) < size:
            part = os.read(self.given, min(size - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def tell(self, kind, payload=b""):
        data = memoryview(FRAME.pack(kind, len(payload)) + payload)
        with self.lock:
            while data:
                data = data[os.write(self.told, data) :]

    def serve(self, channel):
        threading.Thread(target=self._carry_in, args=(channel,), daemon=True).start()
        self.relay = threading.Thread(target=self._carry_out, args=(channel,), daemon=True)
        self.relay.start()

    def _carry_in(self, channel):
        try:
            while True:
                kind, length = FRAME.unpack(self._exactly(FRAME.size))
                data = self._exactly(length)
                try:
                    if kind == CHANNEL:
                        channel.sendall(data)
                    elif kind == HANG_UP:
                        channel.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # the job has closed it
        except EOFError:
            self.gone.send(b"x")

    def _carry_out(self, channel):
        """Until the job is over and its channel empty; says every second that the container lives."""
        poll = select.poll()
        if channel is not None:
            poll.register(channel, select.POLLIN)
        else:
            self.drained.set()
        while not (self.over.is_set() and self.drained.is_set()):
            if self.drained.is_set():
                if not self.over.wait(ALIVE_S):
                    self.tell(ALIVE)
            elif not poll.poll(ALIVE_S * 1000):
                self.tell(ALIVE)
            elif data := _received(channel):
                self.tell(CHANNEL, data)
            else:
                self.tell(HANG_UP)
                self.drained.set()

    def finish(self, result, memory):
        """All processes of the job have ended: what they left in the channel goes first, then output and result."""
        self.over.set()
        self.relay.join()
        for name in KEPT:
            size, offset = os.fstat(memory[name]).st_size, 0
            while offset < size:
                part = os.pread(memory[name], MAX_PART, offset)
                self.tell(OUTPUT, bytes([KEPT.index(name)]) + part)
                offset += len(part)
        self.tell(RESULT, json.dumps(result).encode())


def _received(channel):
    try:
        return channel.recv(MAX_PART)
    except OSError:
        return b""


def _end_all(child):
    """Kill and reap every other process of the container. Returns the child's wait status and its peak memory."""
    status, peak, deadline = None, 0, time.monotonic() + KILL_WAIT_S
    while True:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        try:
            while (found := os.wait4(-1, os.WNOHANG))[0]:
                if found[0] == child.pid:
                    status, peak = found[1], found[2].ru_maxrss * 1024
        except ChildProcessError:
            return status, peak
        if time.monotonic() > deadline:
            raise SystemExit("processes of the job do not end")
        time.sleep(0.001)


def _fetch(work, names, target, left):
    """Copy regular files of the ended job, never through a link: [name, size] pairs."""
    found = []
    for name in names:
        try:
            source = _open_beneath(work, name)
        except OSError:
            continue
        about = os.fstat(source)
        if stat.S_ISREG(about.st_mode):
            sent, size = 0, min(about.st_size, left)
            while part := os.pread(source, min(MAX_PART, size - sent), sent):
                sent += os.write(target, part)
            left -= sent
            found.append([name, sent])
        os.close(source)
    return found


def _open_beneath(folder, name):
    """By steps, since not every gVisor has openat2. Nothing of the job runs any more, so nothing moves meanwhile."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    opened = os.dup(folder)
    for i, part in enumerate(parts):
        kind = os.O_DIRECTORY if i < len(parts) - 1 else os.O_NONBLOCK
        try:
            step = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind, dir_fd=opened)
        finally:
            os.close(opened)
        opened = step
    return opened


if __name__ == "__main__":
    main()
