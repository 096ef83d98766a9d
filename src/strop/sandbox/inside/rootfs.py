"""The file system a job sees: a read-only root made of the host's programs, and one writable place of its own.

A zygote builds the root once. Each job mounts a tmpfs of its own at BOX; it holds `work` (the working folder and home),
`tmp` and `shm`, to which /tmp and /dev/shm of the root lead.
"""

import os

import kernel
from places import BOX, ETC, GROUP, PASSWD

PLACES = ("work", "tmp", "shm")  # the folders of a job's place that it may write to
DEVICES = ("null", "zero", "full", "random", "urandom")
STAGE = "/sys"  # where the new root is put together: it exists everywhere, and nothing of it is wanted


def build(prefixes):
    """Replace this mount namespace's root. `prefixes` are folders of the host to show beside /usr. CAP_SYS_ADMIN.

    Links of the host's root (such as /lib to usr/lib) are kept, so that both layouts of distributions work.
    """
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("root", STAGE, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,nr_inodes=1000,mode=0755")
    for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        _show("/" + name)
    for prefix in prefixes:
        _show(prefix)
    for name in ETC:
        _show("/etc/" + name)
    for name in os.listdir("/etc"):
        if name.startswith("java"):
            _show("/etc/" + name)
    _write("/etc/passwd", PASSWD)
    _write("/etc/group", GROUP)
    _write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
    for name in DEVICES:
        _show("/dev/" + name)
    _link("/proc/self/fd", "/dev/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        _link(f"/proc/self/fd/{number}", "/dev/" + name)
    _link(BOX + "/shm", "/dev/shm")
    _link(BOX + "/tmp", "/tmp")
    for folder in ("/proc", BOX, "/var/tmp"):
        os.makedirs(STAGE + folder, exist_ok=True)
    kernel.mount("/proc", STAGE + "/proc", flags=kernel.MS_BIND | kernel.MS_REC)  # see mount_proc
    kernel.pivot_root(STAGE)


def seal():
    """Make everything mounted so far read-only. Devices stay usable: they are files of the host's /dev."""
    kernel.mount(
        "none", "/", flags=kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    )


def mount_proc():
    """A /proc of this pid namespace, of which a job sees only its own processes and may write nothing global.

    The kernel allows it only where a /proc is already in sight, so the host's lies under it, out of reach.
    """
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount("proc", "/proc", "proc", flags, "hidepid=2")
    for name in ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"):
        if os.path.exists(name):
            kernel.mount(name, name, flags=kernel.MS_BIND | kernel.MS_REC)
            kernel.read_only_tree(name)


def mount_box(disk_bytes):
    """A job's own writable place, limited in size and in number of files. Called in its own mount namespace."""
    limits = f"size={disk_bytes},nr_inodes={max(256, disk_bytes // 4096)},mode=0755"
    kernel.mount("box", BOX, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, limits)


def fill_box(box, owner):
    """The folders of a job's place; returns a descriptor of the working folder."""
    for name in PLACES:
        os.mkdir(f"{box}/{name}", 0o700)
        os.chown(f"{box}/{name}", owner, owner)
    return os.open(box + "/work", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _show(path):
    """Show a file, folder or link of the host at the same place of the new root; what is missing stays missing."""
    target = STAGE + path
    if not os.path.lexists(path) or os.path.lexists(target):
        return
    if os.path.islink(path) and not path.startswith(("/etc/", "/dev/")):
        _link(os.readlink(path), path)
        return
    _make_parents(path)
    if os.path.isdir(path):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    kernel.mount(path, target, flags=kernel.MS_BIND | kernel.MS_REC)
    if not path.startswith("/dev/"):
        kernel.read_only_tree(target)


def _make_parents(path):
    """The folders above `path`. Those that the host may have closed, such as a home, can be passed but not listed."""
    known = path.startswith(("/etc/", "/dev/"))
    folder = ""
    for part in path.split("/")[1:-1]:
        folder += "/" + part
        if not os.path.exists(STAGE + folder):
            os.mkdir(STAGE + folder)
            os.chmod(STAGE + folder, 0o755 if known else 0o111)


def _link(to, path):
    os.makedirs(os.path.dirname(STAGE + path), exist_ok=True)
    os.symlink(to, STAGE + path)


def _write(path, text):
    os.makedirs(os.path.dirname(STAGE + path), exist_ok=True)
    with open(STAGE + path, "w") as file:
        file.write(text)
