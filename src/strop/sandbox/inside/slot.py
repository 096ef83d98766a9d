"""The zygote of one slot: init of its own pid namespace, which runs one job after another and is never a job itself.

It forks a child ahead of time, hands it the next program, watches limits from outside, and after each job kills every
process of the namespace and reaps it, so that the next child starts alone. It never reads a program, its input or its
output: those pass by as descriptors, and output is spliced into memory files that only the supervisor reads.
"""

import json
import os
import select
import signal
import socket
import struct
import time

import job as job_process
import kernel
import meters
import trees

DISK_LOOK_S = 0.1  # between two counts of a job's files, or longer where counting takes over a tenth of the time
TICK_S = 0.02
KILL_WAIT_S = 5.0
PIPE_CHUNK = 1 << 20
FRAME = struct.Struct("<II")
CANCEL = b"cancel"
STREAMS = ("stdout", "stderr", "answers")


class Slot:
    """Runs jobs that arrive on `control` until it closes. `settings` come from the launcher."""

    def __init__(self, control, settings, cgroup):
        self.control = control
        self.settings = settings
        self.memory = {name: os.memfd_create(name, os.MFD_CLOEXEC) for name in (*STREAMS, "files")}
        self.cpus = os.cpu_count() or 1
        self.isolated = settings["own_pids"]
        if not self.isolated:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        find = meters.namespace_pids if self.isolated else meters.descendants
        self.meter = cgroup or (meters.Sampler(find) if settings["proc"] else meters.Reaped())
        settings["ruleset"] = job_process.shared_ruleset(settings)
        self.child = None

    def serve(self):
        self._fork(self.settings["disk_bytes"])
        hello = {"hello": True, "proc": self.settings["proc"]}
        socket.send_fds(self.control, [json.dumps(hello).encode()], list(self.memory.values()))
        served = 0
        while served < self.settings["max_jobs"]:
            message, fds, _, _ = socket.recv_fds(self.control, 1 << 17, 16)
            if not message:
                break
            if message == CANCEL:
                continue  # it crossed the answer to its job
            self.control.send(json.dumps(self._run(message, fds)).encode())
            self._forget()
            served += 1
            if served < self.settings["max_jobs"]:
                self._fork(self.settings["disk_bytes"])
        self._end_all()

    def _fork(self, disk_bytes):
        """A new child, confined and waiting; raises OSError with its reason when it could not be confined."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        outputs = [os.pipe(), os.pipe()]
        for _, write in outputs:
            os.fchmod(write, 0o666)  # so that a program of another user can open /dev/stdout
        pid = kernel.fork()
        if pid == 0:
            null = os.open("/dev/null", os.O_RDONLY)
            job_process.prepare(theirs, [null, *(write for _, write in outputs)], self.settings, disk_bytes)
        theirs.close()
        for _, write in outputs:
            os.close(write)
        message, fds, _, _ = socket.recv_fds(ours, 4096, 2)
        if not fds:
            reason = message.decode("utf-8", "replace").removeprefix("failed ")
            raise OSError(f"a job could not be confined: {reason or 'its process ended'}")
        self.child = Child(pid, ours, [read for read, _ in outputs], fds, float(message), disk_bytes)

    def _run(self, message, fds):
        """One job from its program's arrival to what there is to answer; `message` is handed on as it is."""
        task = json.loads(message)
        limits = task["limits"]
        if limits["disk"] != self.child.disk_bytes:
            self._end_all()
            self._forget()
            self._fork(limits["disk"])
        for name in STREAMS:
            os.ftruncate(self.memory[name], 0)
        child = self.child
        if task["answers"]:
            read, write = os.pipe()
            child.outputs.append(read)
            fds.append(write)
        self.meter.begin(limits["memory"], limits["processes"])
        before = meters.children_cpu()
        started = time.monotonic()
        socket.send_fds(child.report, [message], fds)
        for descriptor in fds:
            os.close(descriptor)
        shared = None if self.settings["namespaces"] else self.settings["box"]
        watch = Watch(child, task, self.memory, self.meter, started, self.cpus, place=shared)
        watch.until_end(self.control)
        wall = time.monotonic() - started
        self.meter.make_room()
        status = self._end_all()
        watch.drain(last=True)
        watch.hear()
        result = watch.result(status, meters.children_cpu() - before, wall)
        result["peak_memory_bytes"] = self.meter.peak_bytes() or child.peak_bytes
        result["counted"] = isinstance(self.meter, meters.Cgroup)
        result["files"] = self._fetch(child.places[0], task["fetch"])
        return result

    def _fetch(self, work, names):
        """Copy regular files of the ended job to the supervisor, within its disk limit: [name, size] pairs."""
        target = self.memory["files"]
        os.ftruncate(target, 0)
        os.lseek(target, 0, os.SEEK_SET)
        left = self.child.disk_bytes
        found = []
        for name in names:
            try:
                source = kernel.open_beneath(work, name)
            except OSError:
                continue
            size = min(os.fstat(source).st_size, left) if _is_regular(source) else None
            if size is not None:
                copied = 0
                while copied < size and (sent := os.sendfile(target, source, copied, size - copied)):
                    copied += sent
                left -= copied
                found.append([name, copied])
            os.close(source)
        return found

    def _end_all(self):
        """Kill and reap every process of the job. Returns the child's wait status."""
        child, status = self.child, None
        deadline = time.monotonic() + KILL_WAIT_S
        while True:
            self._kill()
            try:
                while True:
                    pid, ended, usage = os.wait4(-1, os.WNOHANG)
                    if pid == 0:
                        break
                    if child and pid == child.pid:
                        status, child.peak_bytes = ended, usage.ru_maxrss * 1024
            except ChildProcessError:
                break
            if time.monotonic() > deadline:
                raise OSError("processes of a job do not end")  # the launcher replaces this whole namespace
            time.sleep(0.0005)
        return status

    def _kill(self):
        try:
            if self.isolated or self.settings["own_user"]:
                os.kill(-1, signal.SIGKILL)
            for pid in () if self.isolated else meters.descendants():
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _forget(self):
        """Let go of an ended job's place; where jobs share a folder of the host instead, empty it."""
        self.child.close()
        if self.settings["namespaces"]:
            return
        os.chmod(self.settings["box"], 0o700)
        trees.clear(self.settings["box"])


class Child:
    """A confined process that waits for a program, or runs it."""

    def __init__(self, pid, report, outputs, places, cpu_s, disk_bytes):
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.report = report
        self.outputs = outputs
        self.places = places
        self.setup_cpu_s = cpu_s
        self.disk_bytes = disk_bytes
        self.peak_bytes = 0

    def close(self):
        self.report.close()
        for descriptor in (self.pidfd, *self.places, *self.outputs):
            os.close(descriptor)


def splice(source, target, size, offset):
    """Move from a pipe into a file; 0 at the end of the pipe, BlockingIOError while it is empty."""
    return os.splice(source, target, size, offset_dst=offset)


class Watch:
    """Follows one running job from outside and decides what ended it.

    `place` is the job's folder where no file system of its own limits what it holds.
    """

    def __init__(self, child, task, memory, meter, started, cpus, move=splice, place=None):
        self.place = place
        self.next_measure = started
        self.move = move
        self.child = child
        self.task = task
        self.limits = task["limits"]
        self.meter = meter
        self.cpus = cpus
        self.streams = list(zip(child.outputs, STREAMS, strict=False))
        self.memory = memory
        self.written = dict.fromkeys(STREAMS, 0)
        self.limit = None
        self.stage = "starting"
        self.listening = True
        self.detail = ""
        self.wall_end = started + self.limits["wall"]
        self.cpu_base = 0.0
        self.next_frame = 0
        self.frames = self.frames_seen = 0
        self.poll = select.poll()
        for descriptor in (child.pidfd, child.report.fileno(), *child.outputs):
            os.set_blocking(descriptor, False)
            self.poll.register(descriptor, select.POLLIN)

    def until_end(self, control):
        """Returns when the child has ended or a limit has fired; other processes of the job may still be alive.

        Anything that arrives on `control` meanwhile (or its end) takes the job back.
        """
        self.poll.register(control.fileno(), select.POLLIN)
        next_look = time.monotonic() + min(TICK_S, self.limits["cpu"] / self.cpus)
        while self.limit is None:
            now = time.monotonic()
            timeout = max(0.0, min(next_look, self.wall_end) - now)
            ready = dict(self.poll.poll(timeout * 1000 + 0.999))
            if self.child.report.fileno() in ready:
                self.hear()
            if control.fileno() in ready:
                control.recv(64)
                self.limit = "cancelled"
            self.drain(ready)
            if self.child.pidfd in ready:
                break
            now = time.monotonic()
            if now >= self.wall_end:
                self.limit = "wall"
            elif now >= next_look and self.limit is None:
                next_look = now + self._look()

    def _look(self):
        """Check CPU, memory and processes; returns the seconds until the next look."""
        used = self.meter.cpu_s()
        if self.frames > self.frames_seen:
            self.frames_seen = self.frames
            self.cpu_base = used
            self.wall_end = time.monotonic() + self.limits["wall"]
        left = self.limits["cpu"] - (used - self.cpu_base)
        if left <= 0:
            self.limit = "cpu"
        elif self.meter.memory_exceeded():
            self.limit = "memory"
        elif self.place is not None and time.monotonic() >= self.next_measure:
            began = time.monotonic()
            if trees.size(self.place, self.limits["disk"]) > self.limits["disk"]:
                self.limit = "disk"
            ended = time.monotonic()
            self.next_measure = ended + max(DISK_LOOK_S, 9 * (ended - began))
        while _reap_other(self.child):
            pass
        return max(0.001, min(TICK_S, left / self.cpus, self.meter.memory_time_s() / self.cpus))

    def hear(self):
        """Take in how far the child says it has come; it says nothing more once the program runs."""
        report = self.child.report
        while True:
            try:
                message = report.recv(4096).decode("utf-8", "replace")
            except BlockingIOError:
                return
            except OSError:
                message = ""
            if not message:
                if self.listening:
                    self.poll.unregister(report.fileno())
                    self.listening = False
                return
            self.stage, _, self.detail = message.partition(" ")

    def drain(self, ready=None, last=False):
        """Move what the job wrote into the supervisor's memory files, without looking at it."""
        for descriptor, name in list(self.streams):
            while last or (ready and descriptor in ready):
                room = self._cap(name) + PIPE_CHUNK - self.written[name]
                try:
                    moved = (
                        self.move(descriptor, self.memory[name], min(PIPE_CHUNK, room), self.written[name])
                        if room > 0
                        else 0
                    )
                except BlockingIOError:
                    break
                if moved == 0:
                    self._end_stream(descriptor, name)
                    break
                self.written[name] += moved
                if self.written[name] > self._cap(name):
                    self.limit = self.limit or "output"
                    if not last:
                        break
        if self.written["answers"]:
            self._count_frames()

    def _cap(self, name):
        return self.task["answer_bytes"] if name == "answers" else self.limits["output"]

    def _end_stream(self, descriptor, name):
        self.streams.remove((descriptor, name))
        try:
            self.poll.unregister(descriptor)
        except KeyError:
            pass

    def _count_frames(self):
        """Whole answers so far, by their headers: each gives the next call fresh clocks, as many times as there are."""
        while self.frames <= self.task["calls"] and self.next_frame + FRAME.size <= self.written["answers"]:
            header = os.pread(self.memory["answers"], FRAME.size, self.next_frame)
            end = self.next_frame + FRAME.size + FRAME.unpack(header)[1]
            if end > self.written["answers"]:
                return
            self.next_frame = end
            self.frames += 1

    def result(self, status, usage, wall):
        """What the supervisor gets to know: plain numbers and names."""
        cpu = max(usage - self.child.setup_cpu_s, self.meter.cpu_s() if self.limit else 0.0, 0.0)
        code = os.waitstatus_to_exitcode(status) if status is not None else None
        killed = self.limit is not None
        if self.meter.memory_exceeded():
            self.limit = "memory"
        elif not killed and code:
            self.limit = self._limit_behind(code, cpu)
        return {
            "id": self.task["id"],
            "stage": self.stage,
            "detail": self.detail,
            "limit": self.limit,
            "killed": killed,
            "code": code,
            "cpu_s": cpu,
            "wall_s": wall,
            "lengths": [self.written[name] for name in STREAMS],
        }

    def _limit_behind(self, code, cpu):
        """The limit that explains a failed exit, if one does."""
        if code == -signal.SIGXCPU and cpu > self.limits["cpu"]:
            return "cpu"
        if code == -signal.SIGXFSZ:
            return "disk"
        return "processes" if self.meter.processes_exceeded() else None


def _reap_other(child):
    """Reap one orphan that ended while the job runs; the child itself is kept for the end."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None or found.si_pid in (0, child.pid):
            return False
        os.waitpid(found.si_pid, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _is_regular(descriptor):
    import stat

    return stat.S_ISREG(os.fstat(descriptor).st_mode)
