"""Measures and empties folders that a job fills: of any depth, with whatever names and permissions it gives."""

import errno
import os
import stat

PAGE = 4096


def size(folder, most):
    """Bytes of all that is in a folder, each entry a page at least; counting ends once they are more than `most`.

    A path too long to be opened counts as too much: so much cannot hide there.
    """
    total, waiting = 0, [folder]
    while waiting and total <= most:
        try:
            entries = os.scandir(waiting.pop())
        except OSError as error:
            total += most + 1 if error.errno == errno.ENAMETOOLONG else 0
            continue  # else gone meanwhile, or no folder any more
        with entries:
            for entry in entries:
                total += _size_of(entry, most, waiting)
                if total > most:
                    break
    return total


def _size_of(entry, most, waiting):
    try:
        about = entry.stat(follow_symlinks=False)
    except OSError as error:
        return most + 1 if error.errno == errno.ENAMETOOLONG else 0
    if stat.S_ISDIR(about.st_mode):
        waiting.append(entry.path)
    return max(PAGE, 512 * about.st_blocks)


def clear(folder):
    """Remove all that is in a folder. Folders within folders are first moved up, so that no depth is too deep."""
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        moved = 0
        while names := _names(top):
            for name in names:
                if not _is_folder(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                moved = _flatten(top, name, moved)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def _flatten(top, name, moved):
    """Leave nothing in one folder of `top`; returns how many names were given so far."""
    inner = _opened(top, name)
    try:
        for entry in _names(inner):
            if not _is_folder(entry, inner):
                os.unlink(entry, dir_fd=inner)
                continue
            moved = _free_name(top, moved)
            try:
                os.rename(entry, f".moved-{moved}", src_dir_fd=inner, dst_dir_fd=top)
            except PermissionError:  # moving a folder takes the right to write to it
                os.chmod(entry, 0o700, dir_fd=inner)
                os.rename(entry, f".moved-{moved}", src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    return moved


def _opened(top, name):
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    if not os.access(name, os.R_OK | os.W_OK | os.X_OK, dir_fd=top, effective_ids=True):
        os.chmod(name, 0o700, dir_fd=top)
    return os.open(name, flags, dir_fd=top)


def _free_name(top, moved):
    while True:
        moved += 1
        try:
            os.stat(f".moved-{moved}", dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            return moved


def _names(descriptor):
    with os.scandir(descriptor) as entries:
        return [entry.name for entry in entries]


def _is_folder(name, descriptor):
    return stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode)
