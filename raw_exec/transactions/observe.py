"""What lies in an upper layer, told as changes of the tree below.

Rules
1. The upper layer is still: its worker is dead. The tree below is not; every path of either is
   resolved beneath its top without following links.
2. What was only copied up is no change: a file that was opened for appending, a folder in which
   something was changed. Content, mode and extended attributes decide, times alone do not.
3. Nothing is left out. What can't be told as a change of a path is refused.

Not covered: owner and group (a view has one of each), and times of what is otherwise as it was.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from . import syscalls
from .changes import Change
from .errors import CommitRefused
from .folders import Folders

__all__ = ["MAX_ENTRIES", "MAX_PATHS_BYTES", "MAX_PATH_BYTES", "Walk", "kind_of", "observe"]

MAX_ENTRIES: Final = 1_000_000
"""Of one upper layer. The quota of a call's scratch bounds them further."""
MAX_PATH_BYTES: Final = 32 * 1024
MAX_PATHS_BYTES: Final = 32 * 1024 * 1024
"""Of all paths together: a few long folder names make every path in them long, and none of that
counts for the quota."""

_OURS: Final = "user.overlay."
_ESCAPED: Final = "user.overlay.overlay."
"""How a view keeps an attribute ``user.overlay.…`` of a tool apart from its own."""

_OPAQUE: Final = ("user.overlay.opaque", "trusted.overlay.opaque")
_WHITEOUT: Final = ("user.overlay.whiteout", "trusted.overlay.whiteout")
_ORIGIN: Final = ("user.overlay.origin", "trusted.overlay.origin")
_CHUNK_BYTES: Final = 1 << 20
_UNREACHABLE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)


def observe(
    upper: int,
    root: str,
    *,
    started_ns: int,
    top_mode: int | None = None,
    max_entries: int = MAX_ENTRIES,
) -> tuple[Change, ...]:
    """Read the changes out of an upper layer in overlay format.

    Args:
        upper: Descriptor of its top directory.
        root: Absolute path of the tree below.
        started_ns: When the call began, nanoseconds of ``CLOCK_REALTIME_COARSE``.
        top_mode: Permission bits that the top directory was made with; not checked when
            ``None``.
        max_entries: More than these are refused.

    Returns:
        Parents before children, sorted by path.

    Raises:
        CommitRefused: Something can't be told as a change: the top itself was changed, a folder
            can't be read, there are too many entries or too long paths.
        OSError: ``root`` can't be opened.
    """
    below = os.open(root, syscalls.PATH_DIRECTORY)
    try:
        with Folders(upper, syscalls.READ_DIRECTORY, still=True) as above, Folders(below) as under:
            walk = Walk(above, under, root, started_ns, max_entries)
            walk.check_top(top_mode)
            return tuple(sorted(walk.changes(), key=lambda change: change.path))
    finally:
        os.close(below)


@dataclass(slots=True)
class Walk:
    """A walk over what lies above a tree, with what lies below at hand.

    Args:
        above: What the call left, opened for reading.
        under: The tree.
        root: Its path, for messages.
        started_ns: When the call began.
        left: Entries that may still come.
        left_bytes: Of paths that may still come.
    """

    above: Folders
    under: Folders
    root: str
    started_ns: int
    left: int
    left_bytes: int = MAX_PATHS_BYTES

    def check_top(self, mode: int | None) -> None:
        """Refuse a change of the top directory itself, which is no change of a path."""
        fd = self.above.base
        if mode is not None and stat.S_IMODE(os.fstat(fd).st_mode) != mode:
            raise self._refused(b"", "the mode of the granted folder itself was changed")
        if _attributes(fd):
            raise self._refused(
                b"", "extended attributes of the granted folder itself were changed"
            )

    def changes(self) -> Iterator[Change]:
        """Yield changes, folder by folder."""
        pending = [(b"", True)]
        while pending:
            folder, merged = pending.pop()
            for name, path in self.entries(folder):
                # Asked anew each time: other folders may have pushed it out meanwhile.
                parent = self.folder(folder)
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                old = self.below(folder, name) if merged else None
                if stat.S_ISDIR(status.st_mode):
                    change, goes_on = self._directory(path, status, old)
                    pending.append((path, goes_on))
                else:
                    change = self._other(parent, folder, name, status, old, merged=merged)
                if change is not None:
                    yield change

    def entries(self, folder: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the name and the path of what lies in a directory above, within the bounds."""
        for name in self._names(folder):
            path = folder + b"/" + name if folder else name
            if len(path) > MAX_PATH_BYTES:
                raise self._refused(path[:200], f"a path of over {MAX_PATH_BYTES} bytes")
            self.left -= 1
            if self.left < 0:
                raise self._refused(b"", "more entries were changed than a commit may have")
            self.left_bytes -= len(path)
            if self.left_bytes < 0:
                reason = f"the paths of what was changed have over {MAX_PATHS_BYTES} bytes together"
                raise self._refused(b"", reason)
            yield name, path

    def folder(self, path: bytes) -> int:
        """Return a descriptor of a directory above; valid until others are asked for."""
        try:
            return self.above.folder(path)
        except PermissionError:
            raise self._refused(path, "its mode keeps it from being read") from None

    def _names(self, folder: bytes) -> list[bytes]:
        # Opened anew: the position in a directory belongs to its open file.
        fd = self.folder(folder)
        return syscalls.list_names(fd)

    def below(self, folder: bytes, name: bytes) -> os.stat_result | None:
        """Return what lies in the tree at a path now; ``None`` when nothing can be reached."""
        try:
            return syscalls.look(self.under.folder(folder), name)
        except OSError as exc:
            if exc.errno in _UNREACHABLE:
                return None
            raise

    def _changed_meanwhile(self, folder: bytes) -> bool:
        """Say whether names may have come or gone in a folder below since the call began."""
        try:
            return os.fstat(self.under.folder(folder)).st_mtime_ns >= self.started_ns
        except OSError as exc:
            if exc.errno in _UNREACHABLE:
                return True
            raise

    def _directory(
        self, path: bytes, status: os.stat_result, old: os.stat_result | None
    ) -> tuple[Change | None, bool]:
        """Return the change, and whether what lies below shows through."""
        fd = self.folder(path)
        if old is None:
            if _attribute(fd, _ORIGIN) is None:
                return Change(path, "create", "dir", False), False
            # Copied up from a folder that is gone: a merged folder can't have been renamed.
            return Change(path, "metadata", "dir", True), True
        if not stat.S_ISDIR(old.st_mode) or _attribute(fd, _OPAQUE) == b"y":
            return Change(path, "write", "dir", True, opaque=True), False
        same = _mode(status) == _mode(old) and self._same_attributes(fd, path)
        return (None if same else Change(path, "metadata", "dir", True)), True

    def _same_attributes(self, fd: int, path: bytes) -> bool:
        try:
            other = syscalls.open_beneath(self.under.base, path, syscalls.READ_DIRECTORY)
        except OSError:
            return False
        try:
            return _attributes(fd) == _attributes(other)
        finally:
            os.close(other)

    def _other(
        self,
        parent: int,
        folder: bytes,
        name: bytes,
        status: os.stat_result,
        old: os.stat_result | None,
        *,
        merged: bool,
    ) -> Change | None:
        path = folder + b"/" + name if folder else name
        place = b"/proc/self/fd/%d/%s" % (parent, name)
        if _is_whiteout(place, status):
            if not merged:
                return None  # below it is nothing that it could hide
            return Change(path, "delete", "file" if old is None else kind_of(old), True)
        kind = kind_of(status)
        if old is None:
            existed = (
                merged
                and kind == "file"
                and _attribute(place, _ORIGIN) is not None
                and self._changed_meanwhile(folder)
            )
            # A copied file whose original is gone: it was renamed here, or somebody removed it.
            return Change(path, "write" if existed else "create", kind, existed)
        if stat.S_IFMT(status.st_mode) != stat.S_IFMT(old.st_mode):
            return Change(path, "write", kind, True)
        action = self.compare(parent, folder, name, status, old)
        return None if action is None else Change(path, action, kind, True)

    def compare(
        self,
        parent: int,
        folder: bytes,
        name: bytes,
        status: os.stat_result,
        old: os.stat_result,
    ) -> str | None:
        """Return the action that makes ``old`` what is there now; ``None`` when it is the same."""
        below = self.under.folder(folder)
        if stat.S_ISLNK(status.st_mode):
            before, after = os.readlink(name, dir_fd=below), os.readlink(name, dir_fd=parent)
            return None if before == after else "write"
        if not stat.S_ISREG(status.st_mode):
            if status.st_rdev != old.st_rdev:
                return "write"
            return None if _mode(status) == _mode(old) else "metadata"
        if status.st_size != old.st_size:
            return "write"
        try:
            now = syscalls.open_at(parent, name, syscalls.READ_FILE)
        except PermissionError:
            return "write"  # it can't be compared
        try:
            then = syscalls.open_at(below, name, syscalls.READ_FILE)
        except OSError:
            os.close(now)
            return "write"
        try:
            if not _same_content(now, then, status.st_size):
                return "write"
            same = _mode(status) == _mode(old) and _attributes(now) == _attributes(then)
            return None if same else "metadata"
        finally:
            os.close(now)
            os.close(then)

    def _refused(self, path: bytes, reason: str) -> CommitRefused:
        return CommitRefused([(path, reason)], root=self.root)


def _mode(status: os.stat_result) -> int:
    return stat.S_IMODE(status.st_mode)


def kind_of(status: os.stat_result) -> str:
    """Return ``file``, ``dir``, ``link`` or ``special``."""
    if stat.S_ISREG(status.st_mode):
        return "file"
    if stat.S_ISDIR(status.st_mode):
        return "dir"
    return "link" if stat.S_ISLNK(status.st_mode) else "special"


def _is_whiteout(place: bytes, status: os.stat_result) -> bool:
    if stat.S_ISCHR(status.st_mode):
        return status.st_rdev == 0
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_size == 0
        and _attribute(place, _WHITEOUT) is not None
    )


def _attribute(place: int | bytes, names: tuple[str, ...]) -> bytes | None:
    """Return the first of these extended attributes that is there."""
    for name in names:
        try:
            if isinstance(place, int):
                return os.getxattr(place, name)
            return os.getxattr(place, name, follow_symlinks=False)
        except OSError as exc:
            if exc.errno not in (errno.ENODATA, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES):
                raise
    return None


def _attributes(fd: int) -> dict[str, bytes]:
    """Return the extended attributes that a tool may have set."""
    try:
        names = os.listxattr(fd)
    except OSError as exc:
        if exc.errno == errno.EOPNOTSUPP:
            return {}
        raise
    return {
        name: os.getxattr(fd, name)
        for name in names
        if name.startswith("user.") and (not name.startswith(_OURS) or name.startswith(_ESCAPED))
    }


def _same_content(one: int, other: int, size: int) -> bool:
    """Compare two files of one size; where both have a hole nothing is read."""
    at = 0
    while at < size:
        at = min(_next_data(one, at, size), _next_data(other, at, size))
        if at >= size:
            return True
        first, second = os.pread(one, _CHUNK_BYTES, at), os.pread(other, _CHUNK_BYTES, at)
        if first != second:
            return False
        if not first:
            return True  # both ended early: they were cut since their size was asked
        at += len(first)
    return True


def _next_data(fd: int, at: int, size: int) -> int:
    try:
        return os.lseek(fd, at, os.SEEK_DATA)
    except OSError as exc:
        return size if exc.errno == errno.ENXIO else at
