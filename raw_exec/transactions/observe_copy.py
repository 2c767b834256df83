"""What was changed in a whole copy of a tree, where no view of it could be mounted.

The copy comes with a list of what was copied, the change time that each copy had then, and a sum
of what was in it. Only the kernel sets that time; what still has it, and has the same sum, was
not changed, whatever happened below. The sum is for pages that were mapped: one that was read
before it was written is written without a new time.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Mapping
from typing import Final

from . import syscalls
from .changes import Change
from .errors import CommitRefused
from .folders import Folders, parents_of
from .observe import MAX_ENTRIES, Walk, kind_of

__all__ = ["observe_copy", "parse_manifest", "read_manifest"]

_PAGE_BYTES: Final = 64 * 1024
_KINDS: Final = {b"d": "dir", b"f": "file", b"l": "link"}


def parse_manifest(data: bytes) -> dict[bytes, tuple[str, int, int]]:
    """Return kind, change time (nanoseconds) and sum of each path that was copied."""
    out = {}
    for entry in data.split(b"\0") if data else ():
        head, told, path = entry.split(b" ", 2)
        out[path] = (_KINDS[head[:1]], int(head[1:]), int(told))
    return out


def observe_copy(
    copy: int,
    root: str,
    copied: Mapping[bytes, tuple[str, int, int]],
    *,
    top_mode: int | None = None,
    max_entries: int = MAX_ENTRIES,
) -> tuple[Change, ...]:
    """Compare a copy with what was copied.

    Args:
        copy: Descriptor of its top directory.
        root: Absolute path of the tree.
        copied: From ``parse_manifest``.
        top_mode: Permission bits that the top directory was made with.
        max_entries: A copy with more is refused.

    Returns:
        Parents before children, sorted by path.

    Raises:
        CommitRefused: As ``observe``.
        OSError: ``root`` can't be opened.
    """
    below = os.open(root, syscalls.PATH_DIRECTORY)
    try:
        with Folders(copy, syscalls.READ_DIRECTORY, still=True) as above, Folders(below) as under:
            walk = Walk(above, under, root, 0, max_entries)
            walk.check_top(top_mode)
            found = _changed(walk, copied)
    finally:
        os.close(below)
    return tuple(sorted(found, key=lambda change: change.path))


def _changed(walk: Walk, copied: Mapping[bytes, tuple[str, int, int]]) -> list[Change]:
    out: list[Change] = []
    there: set[bytes] = set()
    replaced: set[bytes] = set()
    pending = [b""]
    while pending:
        folder = pending.pop()
        for name, path in walk.entries(folder):
            status = os.stat(name, dir_fd=walk.folder(folder), follow_symlinks=False)
            kind = kind_of(status)
            if kind == "dir":
                pending.append(path)
            there.add(path)
            was = copied.get(path)
            if was is None:
                out.append(Change(path, "create", kind, False))
            elif was[0] != kind:
                replaced.add(path)
                out.append(Change(path, "write", kind, True, opaque=kind == "dir"))
            elif (
                kind == "dir"
                or status.st_ctime_ns != was[1]
                or (kind == "file" and _content_sum(walk, folder, name) not in (None, was[2]))
            ):
                change = _compare(walk, folder, name, path, status)
                out += [] if change is None else [change]
            if was is None or status.st_ctime_ns != was[1]:
                _check_attributes(walk, folder, name, path)
    for path, (kind, _changed_ns, _sum) in copied.items():
        if path not in there:
            above = next(parents_of(path), None)
            # What lay in a directory that is gone, or is none any more, went with it.
            if above is None or (above in there and above not in replaced):
                out.append(Change(path, "delete", kind, True))
    return out


def _content_sum(walk: Walk, folder: bytes, name: bytes) -> int | None:
    """Return the sum as the launcher's ``copytree`` works it out; ``None`` if it can't be read."""
    try:
        fd = syscalls.open_at(walk.folder(folder), name, syscalls.READ_FILE)
    except PermissionError:
        return None
    total, at = 0, 0
    try:
        while True:
            at = os.lseek(fd, at, os.SEEK_DATA) & -_PAGE_BYTES
            page = os.pread(fd, _PAGE_BYTES, at)
            if not page:
                return total
            if page.count(0) != len(page):
                total = zlib.crc32(page, zlib.crc32(b"%d" % at, total))
            at += len(page)
    except OSError as exc:
        if exc.errno == errno.ENXIO:  # only a hole is left
            return total
        raise
    finally:
        os.close(fd)


def _check_attributes(walk: Walk, folder: bytes, name: bytes, path: bytes) -> None:
    """Refuse what a commit could not tell from the marks of a view, as on a view itself."""
    place = b"/proc/self/fd/%d/%s" % (walk.folder(folder), name)
    try:
        names = os.listxattr(place, follow_symlinks=False)
    except OSError as exc:
        if exc.errno in (errno.EOPNOTSUPP, errno.EPERM, errno.EACCES):
            return
        raise
    if any(attribute.startswith("user.overlay.") for attribute in names):
        reason = "has an extended attribute user.overlay.*"
        raise CommitRefused([(path, reason)], root=walk.root)


def _compare(
    walk: Walk, folder: bytes, name: bytes, path: bytes, status: os.stat_result
) -> Change | None:
    kind = kind_of(status)
    old = walk.below(folder, name)
    if kind == "dir":
        if old is None or not stat.S_ISDIR(old.st_mode):
            return None  # what changed in it is a conflict; nothing did, and it is not our change
        same = stat.S_IMODE(old.st_mode) == stat.S_IMODE(status.st_mode)
        return None if same else Change(path, "metadata", "dir", True)
    if old is None or stat.S_IFMT(old.st_mode) != stat.S_IFMT(status.st_mode):
        return Change(path, "write", kind, True)
    action = walk.compare(walk.folder(folder), folder, name, status, old)
    return None if action is None else Change(path, action, kind, True)


def read_manifest(fd: int, root: str) -> dict[bytes, tuple[str, int, int]]:
    """Read the list beside a copy.

    Args:
        fd: Open for reading, at its start.
        root: The tree, for messages.

    Raises:
        CommitRefused: It is not whole.
    """
    with open(fd, "rb", closefd=False) as file:
        try:
            return parse_manifest(file.read())
        except (KeyError, ValueError):
            reason = "the list of what was copied can't be read"
            raise CommitRefused([(b"", reason)], root=root) from None
