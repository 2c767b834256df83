"""Is what lay below when the call started still there?

Rules:

1. Each path that a step touches is there, or not, as it was; and its change time lies before the
   start of the call. A directory that goes is looked at wholly.
2. A directory that stays is still the same one: its change time lies before the start, or the last
   thing that happened to it was a change of its entries, which is nobody's business here, or
   nothing was moved in the directory above it.
3. Links on the way are conflicts, other mounts are refused.

A change time is the kernel's, in steps of one tick (1 to 10 ms). The start of the call is taken
from the same clock, so a change in the tick of the start counts as one after it: at worst a call
is refused that could have been committed. A commit ends one tick after its last change, so that a
call which follows it at once is not refused for that.

Not noticed: a change made while the clock of the machine was set back; a directory exchanged for
an older one in which something was changed afterwards; a write through a descriptor that another
process had open, after the check.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from typing import Final

from . import syscalls
from .changes import Change
from .errors import CommitConflict, CommitRefused
from .folders import Folders, split_path
from .journal import Old

__all__ = ["Checker", "mounts_below", "parent_conflict"]

_MAX_PROBLEMS: Final = 1000
_MAX_DEPTH: Final = 1000


class Checker:
    """Compares one tree with what a call saw of it.

    Args:
        root: Path, for messages.
        root_fd: Its directory.
        started_ns: When the call started.
        mounts: Mount points in the tree, relative to it.
        protected: Paths in the tree that no call may touch, with the reason.
        max_entries: How many files of trees that go are looked at.
    """

    def __init__(
        self,
        root: str,
        root_fd: int,
        started_ns: int,
        *,
        mounts: Sequence[bytes],
        protected: Sequence[tuple[bytes, str]],
        max_entries: int,
    ) -> None:
        self._root = root
        self._started_ns = started_ns
        self._folders = Folders(root_fd)
        self._device = os.fstat(root_fd).st_dev
        self._untouchable = [(path, "something is mounted there") for path in mounts]
        self._untouchable += protected
        self._left = self._max_entries = max_entries
        self._same: dict[bytes, bool] = {}
        self.conflicts: list[tuple[bytes, str]] = []
        self.refused: list[tuple[bytes, str]] = []

    def close(self) -> None:
        """Close what is open."""
        self._folders.close()

    def finish(self) -> None:
        """Raise what was found, if anything.

        Raises:
            CommitRefused: Something can never be committed.
            CommitConflict: Something was changed.
        """
        if self.refused:
            raise CommitRefused(self.refused, root=self._root)
        if self.conflicts:
            raise CommitConflict(
                self.conflicts, root=self._root, hint="call the tool again on the files as they are"
            )

    @property
    def full(self) -> bool:
        """Whether enough was found to stop looking."""
        return len(self.conflicts) + len(self.refused) >= _MAX_PROBLEMS

    def check_target(self, change: Change) -> Old | None:
        """Check a path that is put in place, replaced or removed.

        Returns:
            What lies there now.
        """
        path = change.path
        if self._is_untouchable(path):
            return None
        parent = self._parent(path)
        if parent is None:
            return None
        status = syscalls.look(parent, split_path(path)[1])
        if status is None:
            if change.existed:
                self.conflicts.append((path, "is not there any more"))
            return None
        if not change.existed:
            self.conflicts.append((path, "was created by somebody else"))
            return None
        old = Old(status.st_ino, status.st_ctime_ns, status.st_mode)
        if status.st_ctime_ns >= self._started_ns:
            self.conflicts.append((path, "was changed by somebody else"))
        elif status.st_dev != self._device:
            self.refused.append((path, "is on another file system"))
        elif old.is_dir:
            self._check_tree(path)
        return old

    def _is_untouchable(self, path: bytes) -> bool:
        for other, reason in self._untouchable:
            if other == path or other.startswith(path + b"/") or path.startswith(other + b"/"):
                self.refused.append((other, reason))
                return True
        return False

    def check_folder(self, change: Change) -> os.stat_result | None:
        """Check a directory whose own mode or owner changes."""
        if self._is_untouchable(change.path):
            return None
        status = self.check_parent(change.path)
        if status is not None and status.st_ctime_ns >= self._started_ns:
            self.conflicts.append((change.path, "was changed by somebody else"))
        return status

    def check_parent(self, path: bytes) -> os.stat_result | None:
        """Check a directory that stays; return what it is."""
        try:
            fd = self._folders.folder(path)
        except OSError as exc:
            self._not_opened(path, exc)
            return None
        status = os.fstat(fd)
        self._is_same(path, fd)
        return status

    def _parent(self, path: bytes) -> int | None:
        above = split_path(path)[0]
        try:
            fd = self._folders.folder(above)
        except OSError as exc:
            self._not_opened(above, exc)
            return None
        # Looking at what lies above may have closed it.
        return self._folders.folder(above) if self._is_same(above, fd) else None

    def _not_opened(self, path: bytes, exc: OSError) -> None:
        if exc.errno == errno.EXDEV:
            self.refused.append((path, "something is mounted there or above"))
        elif (text := parent_conflict(exc)) is not None:
            self.conflicts.append((path, text))
        else:
            self.refused.append((path, f"can't be opened: {exc.strerror}"))

    def _is_same(self, path: bytes, fd: int) -> bool:
        """Rule 2, for a directory and all above it; each is looked at once."""
        if not path:
            return True
        known = self._same.get(path)
        if known is not None:
            return known
        above = split_path(path)[0]
        status = os.fstat(fd)
        same = (
            status.st_ctime_ns < self._started_ns
            or status.st_ctime_ns == status.st_mtime_ns
            or os.fstat(self._folders.folder(above)).st_ctime_ns < self._started_ns
        )
        if not same:
            self.conflicts.append((path, "may have been exchanged for another directory"))
        same = same and self._is_same(above, self._folders.folder(above))
        self._same[path] = same
        return same

    def _check_tree(self, top: bytes) -> None:
        """Check all that is in a directory that goes."""
        pending = [top]
        while pending and not self.full:
            path = pending.pop()
            try:
                fd = syscalls.open_beneath(self._folders.base, path, syscalls.READ_DIRECTORY)
            except OSError as exc:
                self._not_opened(path, exc)
                continue
            try:
                pending += self._check_names(path, fd)
            finally:
                os.close(fd)

    def _check_names(self, path: bytes, fd: int) -> list[bytes]:
        inner: list[bytes] = []
        for name in syscalls.list_names(fd):
            self._left -= 1
            if self._left < 0:
                text = f"has more than {self._max_entries} files, which is the most looked at"
                self.refused.append((path, text))
                return []
            status = syscalls.look(fd, name)
            below = path + b"/" + name
            if status is None or status.st_ctime_ns >= self._started_ns:
                self.conflicts.append((below, "was changed by somebody else"))
            elif stat.S_ISDIR(status.st_mode):
                if below.count(b"/") > _MAX_DEPTH:
                    self.refused.append((path, f"is more than {_MAX_DEPTH} directories deep"))
                    return []
                inner.append(below)
        return inner


def parent_conflict(exc: OSError) -> str | None:
    """Return what a directory became that can't be opened, or ``None`` for another reason."""
    if exc.errno == errno.ENOENT:
        return "is not there any more"
    if exc.errno in (errno.ENOTDIR, errno.ELOOP):
        return "is not a directory any more"
    return None


def mounts_below(root: bytes) -> list[bytes]:
    """Return the mount points beneath a directory, relative to it, as this process sees them."""
    prefix = root.rstrip(b"/") + b"/"
    found = []
    with open("/proc/self/mountinfo", "rb") as listing:
        for line in listing:
            point = _unescape(line.split(b" ")[4])
            if point.startswith(prefix) and point != prefix:
                found.append(point[len(prefix) :])
    return found


def _unescape(text: bytes) -> bytes:
    for char in b" \t\n\\":
        text = text.replace(b"\\%03o" % char, bytes((char,)))
    return text
