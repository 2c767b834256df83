"""A worker's private directory: made, measured, emptied and removed.

What lies in it was made by the plugin, so nothing here follows a link, crosses a
mount, recurses, or holds a descriptor for each level of any depth: below a fixed
depth a directory is moved up to the top and emptied from there. A large tree takes
seconds, so removal can be told to stop and be finished by another process.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

__all__ = ["Usage", "empty", "empty_parts", "make", "measure", "remove"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BATCH = 4096
_MAX_LEVELS = 128
_MAX_ENTRIES = 100_000
_MAX_PENDING_PARENTS = 2048


class Usage(NamedTuple):
    """What a directory holds.

    Args:
        bytes: Allocated bytes of everything inside.
        entries: Files and directories inside.
        complete: Whether everything was counted; the walk is bounded.
    """

    bytes: int
    entries: int
    complete: bool


def make(root_fd: int, name: str) -> int:
    """Create ``name`` under ``root_fd``, mode 0700, and return a descriptor of it."""
    os.mkdir(name, 0o700, dir_fd=root_fd)
    return os.open(name, _DIRECTORY, dir_fd=root_fd)


def _open_inside(parent: int, name: str, device: int) -> int | None:
    """Open a subdirectory made by the plugin; ``None`` when it is not one of ours."""
    path_fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        status = os.fstat(path_fd)
        if not stat.S_ISDIR(status.st_mode) or status.st_dev != device:
            return None
        if status.st_mode & 0o700 != 0o700:
            # Through the open descriptor: a name could be swapped for a link meanwhile.
            os.chmod(f"/proc/self/fd/{path_fd}", 0o700)
        return os.open(".", _DIRECTORY, dir_fd=path_fd)
    finally:
        os.close(path_fd)


def _open_top(top: int) -> int | None:
    """Open the private directory itself once more; ``None`` when the plugin made that impossible.

    Its owner may have taken every permission from it, and an ordinary user is held by that.
    """
    try:
        if os.fstat(top).st_mode & 0o700 != 0o700:
            os.fchmod(top, 0o700)
        return os.open(".", _DIRECTORY, dir_fd=top)
    except OSError:
        return None


class _Level:
    """An open directory being emptied."""

    __slots__ = ("fd", "name", "names", "progress")

    def __init__(self, fd: int, name: str) -> None:
        self.fd = fd
        self.name = name
        self.names: list[str] = []
        self.progress = True

    def next_name(self) -> str | None:
        """Return the next entry; ``None`` when empty, or when nothing can be removed."""
        if not self.names and self.progress:
            self.progress = False
            with os.scandir(self.fd) as listing:
                self.names = [entry.name for entry in islice(listing, _BATCH)]
        return self.names.pop() if self.names else None


def _never() -> bool:
    return False


def empty(top: int, stop: Callable[[], bool] = _never) -> Usage:
    """Remove everything below the open directory ``top``, which stays open.

    Args:
        top: The directory.
        stop: Asked before each entry; ``True`` ends the work early.

    Returns:
        What was removed; ``complete`` says whether nothing is left.
    """
    device = os.fstat(top).st_dev
    freed = removed = serial = 0
    first = _open_top(top)
    if first is None:
        return Usage(0, 0, False)
    levels = [_Level(first, "")]
    try:
        while not stop():
            level = levels[-1]
            name = level.next_name()
            if name is None:
                if len(levels) == 1:
                    break
                levels.pop()
                os.close(level.fd)
                if _quietly(os.rmdir, level.name, levels[-1].fd):
                    levels[-1].progress = True
                    removed += 1
                continue
            try:
                status = os.stat(name, dir_fd=level.fd, follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    os.unlink(name, dir_fd=level.fd)
                    freed += status.st_blocks * 512
                    removed += 1
                    level.progress = True
                    continue
                child = _open_inside(level.fd, name, device)
            except OSError:
                continue  # Gone meanwhile, or not ours to remove.
            if child is None:
                continue
            if len(levels) < _MAX_LEVELS:
                levels.append(_Level(child, name))
                continue
            os.close(child)
            serial = _move_up(level.fd, name, levels[0].fd, serial)
            level.progress = levels[0].progress = True
        return Usage(freed, removed, not os.listdir(top) if not stop() else False)
    finally:
        for level in levels:
            os.close(level.fd)


def _quietly(call: Callable[..., None], name: str, directory: int) -> bool:
    try:
        call(name, dir_fd=directory)
    except OSError:
        return False
    return True


def _move_up(parent: int, name: str, top: int, serial: int) -> int:
    """Move a directory to the top under a new name; return the last number used."""
    while True:
        serial += 1
        target = f"up-{serial}"
        try:
            os.stat(target, dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            break
    try:
        os.rename(name, target, src_dir_fd=parent, dst_dir_fd=top)
    except OSError:
        pass  # It stays, and its parents with it; the caller reports it.
    return serial


def empty_parts(top: int, stop: Callable[[], bool] = _never) -> Usage:
    """Empty each directory in ``top`` and leave them: they are mount points inside."""
    device = os.fstat(top).st_dev
    freed = removed = 0
    complete = True
    if (again := _open_top(top)) is None:
        return Usage(0, 0, False)
    os.close(again)
    for name in os.listdir(top):
        try:
            part = _open_inside(top, name, device)
        except OSError:
            complete = False
            continue
        if part is None:
            continue
        try:
            usage = empty(part, stop)
        finally:
            os.close(part)
        freed, removed = freed + usage.bytes, removed + usage.entries
        complete = complete and usage.complete
    return Usage(freed, removed, complete)


def remove(root_fd: int, name: str, stop: Callable[[], bool] = _never) -> bool:
    """Remove the directory ``name`` under ``root_fd`` with everything in it.

    Returns:
        Whether it is gone; ``False`` when told to stop, or when something resists.
    """
    try:
        device = os.fstat(root_fd).st_dev
        top = _open_inside(root_fd, name, device)
        if top is None:
            return False
        try:
            empty(top, stop)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=root_fd)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


class _Parent:
    """An open directory with subdirectories still to visit; closed after the last."""

    __slots__ = ("fd", "names")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.names: list[str] = []


def measure(top: int) -> Usage:
    """Count bytes and entries below ``top``, within fixed bounds of work."""
    device = os.fstat(top).st_dev
    total = entries = 0
    pending: list[_Parent] = []
    current = _open_top(top)
    complete = current is not None
    while current is not None:
        parent = _Parent(current)
        try:
            with os.scandir(current) as listing:
                for entry in listing:
                    entries += 1
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue  # Removed meanwhile; what lies beside it counts all the same.
                    total += status.st_blocks * 512
                    if stat.S_ISDIR(status.st_mode) and status.st_dev == device:
                        parent.names.append(entry.name)
                    if entries > _MAX_ENTRIES:
                        break
        except OSError:
            pass  # Gone or changed while we looked; the next pass sees it again.
        pending.append(parent)
        current = None
        complete = entries <= _MAX_ENTRIES and len(pending) <= _MAX_PENDING_PARENTS
        while pending and current is None:
            last = pending[-1]
            if not last.names or not complete:
                os.close(last.fd)
                pending.pop()
                continue
            try:
                # Makes it readable first: hiding bytes behind mode 000 must not work.
                current = _open_inside(last.fd, last.names.pop(), device)
            except OSError:
                continue  # Removed meanwhile.
            if not last.names:
                # The only way down: a long chain never holds more than this one.
                os.close(last.fd)
                pending.pop()
    return Usage(total, entries, complete)
