"""The root of the sandbox's processes: a fresh interpreter that never held anything of the trainer's.

It makes one zygote per slot, confined as the tier says, hands its control socket to the supervisor, replaces it when
it ends, and ends with everything below it when the supervisor is gone. Started as
`python -I -S launcher.py FD`, where FD is a SOCK_SEQPACKET socket on which the settings arrive first.
"""

import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cgroups
import filters
import kernel
import landlock
import preload
import rootfs
import slot
import trees

sys.path.pop(0)

STACK_BYTES = 64 << 20
STACK_GAP_BYTES = 1 << 30  # reserved below the stack when the launcher starts, so that a job may raise its own limit
THREAD_STACK_BYTES = 8 << 20
MAX_QUICK_DEATHS = 5
RANGE = 2  # host user ids per slot: the zygote's and the job's
JOB_USER = 1000
IDS_PER_SANDBOX = 2048


def main():
    supervisor = socket.socket(fileno=int(sys.argv[1]))
    _reserve_stack()
    settings = json.loads(supervisor.recv(1 << 17))
    os.set_inheritable(supervisor.fileno(), False)
    preload.load(settings["packages"])
    settings |= {"landlock": landlock.abi(), "filter": b"", "cgroup": 0}
    groups = None
    try:
        if settings["tier"] == "full":
            groups = cgroups.Groups(cgroups.unique_name(), settings["slots"])
            settings["cgroup"] = groups.version
        _check(settings)
    except OSError as error:
        supervisor.send(json.dumps({"failed": str(error)}).encode())
        return
    gc.collect()
    gc.freeze()
    slots = Slots(supervisor, settings, groups)
    try:
        slots.serve()
    finally:
        slots.end()
        if groups:
            groups.remove()


def _reserve_stack():
    """The room for the main thread's stack is fixed at exec, so set its limit and start once more."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    wanted = STACK_GAP_BYTES if hard == resource.RLIM_INFINITY else min(hard, STACK_GAP_BYTES)
    if len(sys.argv) == 2:
        resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))
        os.set_inheritable(int(sys.argv[1]), True)
        os.execv(sys.executable, [sys.executable, "-I", "-S", os.path.abspath(__file__), sys.argv[1], "again"])
    resource.setrlimit(resource.RLIMIT_STACK, (min(STACK_BYTES, wanted), hard))
    kernel.set_thread_stack(THREAD_STACK_BYTES)


def _check(settings):
    """OSError with the reason when this tier cannot be had here at all."""
    tier = settings["tier"]
    if tier == "full" and os.geteuid() != 0:
        raise OSError("tier full needs root")
    if tier == "landlock" and settings["landlock"] < 6:
        raise OSError(f"tier landlock needs Landlock 6 or later, this kernel has {settings['landlock']}")
    if tier != "unsafe" and kernel.MACHINE not in filters.ARCHITECTURES:
        raise OSError(f"no system call table for {kernel.MACHINE}; there are {', '.join(filters.ARCHITECTURES)}")
    counted = settings["cgroup"] != 0
    if tier != "unsafe":
        settings["filter"] = filters.build(
            kernel.MACHINE, settings["namespaces"], counted, settings["namespaces"] or os.geteuid() == 0
        )
    settings["limit_processes"] = tier != "unsafe" and not counted
    settings["limit_address_space"] = not counted


class Slots:
    def __init__(self, supervisor, settings, groups):
        self.supervisor = supervisor
        self.settings = settings
        self.groups = groups
        self.ids = _free_ids(settings["slots"]) if os.geteuid() == 0 else 0
        self.alive = {}  # pidfd of a slot's guard -> (index, pid, when it started)
        self.deaths = 0

    def serve(self):
        """Keep all slots alive until the supervisor closes its socket."""
        for index in range(self.settings["slots"]):
            self.start(index)
        while True:
            ready = select.select([self.supervisor, *self.alive], [], [])[0]
            if self.supervisor in ready:
                return  # it closed, or died
            for pidfd in ready:
                index, pid, started = self.alive.pop(pidfd)
                os.waitpid(pid, 0)
                os.close(pidfd)
                self.deaths = self.deaths + 1 if time.monotonic() - started < 1.0 else 0
                if self.deaths > MAX_QUICK_DEATHS * self.settings["slots"]:
                    raise SystemExit("slots of the sandbox keep dying")
                self.start(index)

    def start(self, index):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        cgroup = self.groups.open(index) if self.groups else None
        mapped, told = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            mapped.close()
            self.supervisor.close()
            for descriptor in self.alive:
                os.close(descriptor)
            _guard(theirs, dict(self.settings), index, self.ids, told, cgroup)
        theirs.close()
        told.close()
        if self.settings["tier"] == "full" and mapped.recv(1):
            self._map_ids(pid, index)
            mapped.send(b"m")
        mapped.close()
        self.alive[os.pidfd_open(pid)] = (index, pid, time.monotonic())
        socket.send_fds(self.supervisor, [json.dumps({"slot": index}).encode()], [ours.fileno()])
        ours.close()
        if cgroup:
            for descriptor in cgroup.files.values():
                os.close(descriptor)

    def _map_ids(self, pid, index):
        """Inside, 0 is the zygote and 1000 the job; outside both are ids that own nothing, never 0."""
        first = self.ids + RANGE * index
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(f"0 {first} 1\n{JOB_USER} {first + 1} 1\n")

    def end(self):
        for pidfd, (_, pid, _) in self.alive.items():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(pidfd)


def _free_ids(slots):
    """The first of the host ids of this sandbox's own: no account has them, and no other sandbox that lives now.

    A slot ends its jobs by killing all processes of its user, which must not reach another sandbox's.
    """
    ranges = [[int(n) for n in line.split()] for line in open("/proc/self/uid_map")]
    inside, _, count = max(ranges, key=lambda entry: entry[2])
    first = 200_000 if inside + count > 1_000_000 else inside + count // 2
    block = IDS_PER_SANDBOX if inside + count > 1_000_000 else RANGE * slots
    blocks = (inside + count - 1 - first) // block
    if first < 1000 or blocks < 1 or RANGE * slots > block:
        raise SystemExit(f"too few user ids here for {slots} slots of the sandbox")
    return first + os.getpid() % blocks * block


def _guard(control, settings, index, ids, told, cgroup):
    """A slot's first process: confines itself, makes the zygote as init of a new pid namespace and waits for it."""
    try:
        status = _confine(control, settings, index, ids, told, cgroup)
    except BaseException as error:
        control.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        status = 1
    os._exit(status)


def _confine(control, settings, index, ids, told, cgroup):
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    tier = settings["tier"]
    settings |= {"switch_user": False, "own_user": False, "own_pids": settings["namespaces"], "processes_before": 0}
    _limit_self()
    if cgroup:
        cgroup.join()
    if tier == "full":
        _enter_namespaces_as_root(told, settings)
    elif tier == "rootless":
        _enter_namespaces_as_user(settings, ids and ids + RANGE * index)
    else:
        _enter_folder(settings, index, ids and ids + RANGE * index)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # changing user clears it
    if not settings["namespaces"]:
        return _zygote(control, settings, cgroup)
    pid = os.fork()
    if pid:
        control.close()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.unshare(kernel.CLONE_NEWNS)
    try:
        rootfs.mount_proc()
        settings["proc"] = True
    except OSError:
        settings["proc"] = False  # the host hides parts of its own /proc, as containers do; the job gets none then
    return _zygote(control, settings, cgroup)


def _zygote(control, settings, cgroup):
    if settings["namespaces"]:
        kernel.drop_bounding_set()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    gc.freeze()
    try:
        slot.Slot(control, settings, cgroup).serve()
    except OSError as error:
        control.send(json.dumps({"failed": str(error)}).encode())
        return 1
    return 0


def _limit_self():
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NOFILE, 256),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


OTHER_NAMESPACES = (
    kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)


def _enter_namespaces_as_root(told, settings):
    """Build the root with the host's rights (a prefix may lie under a closed home), then give them up for good."""
    kernel.unshare(kernel.CLONE_NEWNS)
    rootfs.build(settings["prefixes"])
    rootfs.seal()
    kernel.unshare(kernel.CLONE_NEWUSER)
    told.send(b"u")
    if not told.recv(1):
        raise OSError("user ids could not be mapped")
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    kernel.unshare(OTHER_NAMESPACES)
    settings |= {"uid": JOB_USER, "switch_user": True, "box": rootfs.BOX, "tmp": "/tmp", "readable": ["/"]}


def _enter_namespaces_as_user(settings, ids):
    """The same with one id only: zygote and job share it, so the job is kept off by its lack of capabilities."""
    if os.geteuid() == 0:
        _become(ids)
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWUSER | OTHER_NAMESPACES)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    rootfs.build(settings["prefixes"])
    rootfs.seal()
    settings |= {"uid": 0, "processes_before": 3, "box": rootfs.BOX, "tmp": "/tmp", "readable": ["/"]}


def _become(ids):
    kernel.drop_bounding_set()
    os.setgroups([])
    os.setresgid(ids, ids, ids)
    os.setresuid(ids, ids, ids)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)


def _enter_folder(settings, index, ids):
    """No namespaces: a folder of the host per slot, which is emptied after each job."""
    box = os.path.join(settings["folder"], f"slot-{index}")
    os.makedirs(box, mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(box, ids, ids)
        if settings["tier"] != "unsafe":
            _become(ids)
            settings["own_user"] = True
    os.chmod(box, 0o700)
    trees.clear(box)  # a zygote that died may have left its last job's files
    readable = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", *settings["prefixes"]]
    readable += ["/etc/" + name for name in rootfs.ETC] + ["/etc/passwd", "/etc/group", "/etc/nsswitch.conf"]
    readable += ["/etc/ssl/openssl.cnf"]
    settings |= {
        "uid": os.geteuid(),
        "box": box,
        "tmp": box + "/tmp",
        "readable": readable,
        "proc": True,
        "processes_before": 0 if settings["own_user"] else _threads_of_user(os.geteuid()),
    }


def _threads_of_user(uid):
    """Threads this user already runs: the kernel counts them all against a job's limit."""
    total = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == uid:
                    total += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return total


if __name__ == "__main__":
    main()
