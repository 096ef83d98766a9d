"""Landlock: which files a process may still touch, in layers that can only be added to."""

import os
import struct

import kernel

# access rights by the ABI that brought them; a right the kernel does not know must not be asked for
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
ALL_BY_ABI = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
NET_BIND_CONNECT = 3
SCOPE_ABSTRACT_UNIX, SCOPE_SIGNAL = 1, 2
READ = EXECUTE | READ_FILE | READ_DIR
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15  # those that make sense on a file


def abi():
    """The kernel's Landlock version, 0 where it has none or it is switched off."""
    try:
        return kernel.syscall("landlock", 0, 0, 1)
    except OSError:
        return 0


def all_rights(version):
    return sum(rights for since, rights in ALL_BY_ABI if version >= since)


def make_ruleset(version, rules):
    """A ruleset descriptor from `rules`: (path, rights) pairs; paths that do not exist are left out."""
    fields = [all_rights(version)]
    if version >= 4:
        fields.append(NET_BIND_CONNECT)
    if version >= 6:
        fields.append(SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL)
    attributes = struct.pack(f"<{len(fields)}Q", *fields)
    ruleset = kernel.syscall("landlock", attributes, len(attributes), 0)
    for path, rights in rules:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        mask = fields[0] if os.path.isdir(path) else fields[0] & FILE_RIGHTS
        rule = struct.pack("<Qi", rights & mask, place)
        kernel.syscall("landlock", ruleset, 1, rule, 0, offset=1)
        os.close(place)
    return ruleset


def restrict(ruleset):
    """Bind this process and its children; needs no_new_privs."""
    kernel.syscall("landlock", ruleset, 0, offset=2)
