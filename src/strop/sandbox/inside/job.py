"""The life of one job's process: set up and locked down ahead of time, then handed a program.

Everything before `running` is reported is this file's own code; after it the program decides what happens, and only
what the zygote sees from outside counts.
"""

import fcntl
import json
import os
import random
import resource
import signal
import socket
import sys

import kernel
import landlock
import modes
import rootfs

MEGABYTE = 1 << 20
ADDRESS_SPACE_SLACK = 512 * MEGABYTE  # reserved, never used, by thread stacks and allocators
FAILED = 125
RULESET = 100  # a descriptor number beyond those that a job's set-up takes
OWN_PROC = ("fd", "stat", "statm", "status", "maps", "limits")  # what a job sees of a /proc that is not its own
WARM_SOURCE = "sum([len(str(1))])"
WARM_JOB = '{"mode": "main", "calls": 0, "answers": false, "files": [["a", 1]], "limits": {"cpu": 1.5, "wall": 4.5}}'
PYTHON_MODES = ("main", "calls", "solution", "tester", "same_process")


def prepare(report, stdio, settings, disk_bytes):
    """Runs in a new child of the zygote; never returns. `stdio` are the descriptors to become 0, 1 and 2."""
    try:
        for number, descriptor in enumerate(stdio):
            os.dup2(descriptor, number)
        kept = report.fileno()
        os.dup2(kept, 3, inheritable=False)
        _close_others(3, *(() if settings["ruleset"] is None else (settings["ruleset"],)))
        report = socket.socket(fileno=3)
        os.setsid()
        places = _own_place(settings, disk_bytes)
        _lock(settings)
        enter(settings)
        _draw_seeds()
        _warm_up()
        socket.send_fds(report, [b"%.9f" % _cpu()], places)
        for place in places:
            os.close(place)
        message, descriptors, _, _ = socket.recv_fds(report, 1 << 17, 16)
        if not message:
            os._exit(0)
        job = json.loads(message)
        names = [*job["fds"], *(["answers"] if job["answers"] else ())]
        status = start(report, job, dict(zip(names, descriptors, strict=True)), settings)
    except BaseException as error:
        status = failed(report, error)
    os._exit(status)


def _cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def failed(report, error):
    """What went wrong before the program ran is the sandbox's fault, and is said on the channel only we have."""
    try:
        report.send(f"failed {type(error).__name__}: {error}".encode())
    except OSError:
        pass  # the zygote is gone, or the program runs and its mode raised: the exit status says enough
    return FAILED


def _own_place(settings, disk_bytes):
    """Descriptors for the zygote: the working folder, to fetch files from, and the mount namespace.

    While the zygote holds the namespace, the job's end does not wait for its unmounting.
    """
    if settings["proc"]:
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # the zygote is not, and then /proc/self would belong to no one here
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(score, b"1000")  # where memory runs out, the job goes first
        os.close(score)
    if not settings["namespaces"]:
        return [rootfs.fill_box(settings["box"], -1)]
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
    rootfs.mount_box(disk_bytes)
    places = [rootfs.fill_box(rootfs.BOX, settings["uid"])]
    if settings["proc"]:
        places.append(os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
    return places


def _lock(settings):
    if settings["tier"] == "unsafe":
        return
    if settings["switch_user"]:
        os.setgroups([])
        os.setresgid(settings["uid"], settings["uid"], settings["uid"])
        os.setresuid(settings["uid"], settings["uid"], settings["uid"])
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else it could not open its own /proc/self/fd
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    version = settings["landlock"]
    if version:
        ruleset = settings["ruleset"]
        if ruleset is None:
            ruleset = landlock.make_ruleset(version, _file_rules(settings))
        landlock.restrict(ruleset)
        os.close(ruleset)


def shared_ruleset(settings):
    """The Landlock rules of all jobs of a zygote, where they can be the same: making them opens 20 files.

    Their place is then named by the folder that it is mounted in, so that its own top is kept by its owner alone.
    """
    if not settings["switch_user"] or not settings["landlock"]:
        return None
    ruleset = landlock.make_ruleset(settings["landlock"], _file_rules(settings))
    high = fcntl.fcntl(ruleset, fcntl.F_DUPFD_CLOEXEC, RULESET)
    os.close(ruleset)
    return high


def _file_rules(settings):
    """Read what the root shows, write only in the job's own place."""
    everything = landlock.all_rights(settings["landlock"])
    devices = landlock.READ_FILE | landlock.WRITE_FILE
    rules = [(path, landlock.READ) for path in settings["readable"]]
    rules += [(f"/dev/{name}", devices) for name in rootfs.DEVICES]
    if settings["switch_user"]:
        rules += [(os.path.dirname(settings["box"]), everything)]
    else:
        rules += [(f"{settings['box']}/{name}", everything) for name in rootfs.PLACES]
    if not settings["namespaces"]:
        rules += [(f"/proc/self/{name}", landlock.READ) for name in OWN_PROC]
    return rules


def enter(settings):
    """Into the working folder and behind the filter of system calls, which allows all that is done from here on."""
    work = settings["box"] + "/work"
    os.chdir(work)
    os.environ["HOME"], os.environ["TMPDIR"] = work, settings["tmp"]
    if settings["filter"]:
        kernel.install_filter(settings["filter"])


def _warm_up():
    """Do once what every Python job does: a page of a fork is copied when it is first used, and now nobody waits."""
    exec(compile(WARM_SOURCE, "warm", "exec"), {"__name__": "warm"})
    json.loads(WARM_JOB)


def _draw_seeds():
    """Random numbers of its own for this job: modules were seeded before the fork."""
    random.seed()
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def start(report, job, fds, settings):
    """Take on limits and files, then run the program; `fds` are descriptors by name, `report` is descriptor 3."""
    os.dup2(fds.pop("stdin"), 0)
    _set_limits(job, settings)
    _write_files(job, fds)
    source = _read(fds.pop("source"))
    _write_file(job["filename"], source)
    if "files" in fds:
        os.close(fds.pop("files"))
    for descriptor in fds.values():
        os.set_inheritable(descriptor, False)
    _close_others(3, *fds.values())
    report.send(b"running")
    if job["mode"] in PYTHON_MODES:
        code = _compiled(report, source, f"{settings['box']}/work/{job['filename']}")
        report.close()
        if code is None:
            return 1
        return modes.run(job, code, fds)
    return _execute(report, job, fds)


def _read(descriptor):
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, size, 0)
    while len(data) < size:
        data += os.pread(descriptor, size - len(data), len(data))
    os.close(descriptor)
    return data


def _write_file(name, data):
    """By the plain calls: a file object would touch, and so copy, a hundred pages."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.close(descriptor)


def _write_files(job, fds):
    offset = 0
    for name, size in job["files"]:
        folder = os.path.dirname(name)
        if folder:
            os.makedirs(folder, exist_ok=True)
        _write_file(name, os.pread(fds["files"], size, offset))
        offset += size


def _set_limits(job, settings):
    limits = job["limits"]
    for kind, value in (
        (resource.RLIMIT_FSIZE, limits["disk"]),
        (resource.RLIMIT_CPU, int(limits["cpu"] * (job["calls"] + 1)) + 2),
    ):
        resource.setrlimit(kind, (value, value))
    if settings["limit_processes"]:
        allowed = limits["processes"] + settings["processes_before"]
        _lower(resource.RLIMIT_NPROC, allowed)
    if settings["limit_address_space"] and job["address_space"]:
        with open("/proc/self/statm", "rb") as file:
            own = int(file.read().split()[0]) * resource.getpagesize()
        _lower(resource.RLIMIT_AS, own + limits["memory"] + ADDRESS_SPACE_SLACK)


def _lower(kind, value):
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _close_others(*kept):
    start = 3
    for descriptor in sorted(kept):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, 1 << 20)


def _compiled(report, source, filename):
    """The code object, or None when the source is no Python; the reason goes to stderr as the interpreter would say."""
    try:
        return compile(source, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError) as error:
        report.send(b"compile_error")
        import traceback

        os.write(2, "".join(traceback.format_exception_only(error)).encode("utf-8", "replace"))
        return None


def _execute(report, job, fds):
    """Become another program. A descriptor named in the command as {name} is passed by its path."""
    for descriptor in fds.values():
        os.set_inheritable(descriptor, True)
    paths = {name: f"/proc/self/fd/{descriptor}" for name, descriptor in fds.items()}
    argv = [part.format(**paths) if part.startswith("{") else part for part in job["argv"]]
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    environment = dict(os.environ) | job["environment"]
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        report.send(f"absent {argv[0]}: {error.strerror}".encode())
        return 127
