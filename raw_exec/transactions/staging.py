"""Put new content together beside the tree, in a private directory on the same file system.

What is kept: bytes and holes, permission bits, times, owner and group, link targets, names that
are one file, extended attributes of users, access control lists. What is refused: set-user-id and
set-group-id files, file capabilities, links that leave the tree, and attributes that would mean
something to a copy-on-write view. A hard link to a file that was not changed becomes a copy.

Security: the private directory lies in a tree that other tools may be granted. Nothing in it is
trusted afterwards: it is never followed, and each thing must still be the one that was made.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from typing import Final, NamedTuple

from . import syscalls
from .arrange import Placement
from .changes import Change
from .folders import Folders

__all__ = ["Staging", "Unsuitable", "link_problem", "remove_staging"]

_DEPTH_KEPT: Final = 64
_NO_XATTRS: Final = (errno.ENOTSUP, errno.EOPNOTSUPP)


class Unsuitable(Exception):
    """One change must not be committed.

    Args:
        path: In the tree.
        reason: Why.
    """

    def __init__(self, path: bytes, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


class Staged(NamedTuple):
    """A thing that is ready to be moved in.

    Args:
        inode: Its number.
        ctime_ns: When it was last changed; 0 for a file with several names, which moves on.
        mode: Type and permission bits that it shall have in the end.
        held_mode: Those that it has until then.
        owner: User and group.
        times: Access and modification time, nanoseconds.
    """

    inode: int
    ctime_ns: int
    mode: int
    held_mode: int
    owner: tuple[int, int]
    times: tuple[int, int]


class Staging:
    """The private directory of one commit in one tree.

    Args:
        root: Path of the tree.
        root_fd: Its directory.
        name: Of the private directory.
        upper: The layer that the changes lie in.
        count: How many things will be put in it.
    """

    def __init__(self, root: str, root_fd: int, name: str, upper: int, count: int) -> None:
        self._root = os.fsencode(root)
        self._root_fd = root_fd
        self._name = os.fsencode(name)
        self._upper = Folders(upper, still=True)
        self._sync_each = count <= syscalls.MAX_SYNCED_EACH
        self._linked: dict[tuple[int, int], bytes] = {}
        self._opened_modes: list[tuple[bytes, int]] = []
        self._ordinary = os.geteuid() != 0
        self.fd = -1
        self.copied_bytes = 0
        self._made: Folders | None = None

    def make(self) -> None:
        """Make the private directory."""
        syscalls.make_directory(self._root_fd, self._name)
        self.fd = syscalls.open_at(self._root_fd, self._name, os.O_RDONLY | os.O_DIRECTORY)
        # What is made in it must not inherit access from the tree's top.
        syscalls.drop_default_acl(self.fd)
        # What others move in it, they move with what it was made of: nothing is trusted later.
        self._made = Folders(self.fd, still=True)

    def close(self) -> None:
        """Close what is open, and give directories of the upper layer their modes back."""
        while self._opened_modes:
            path, mode = self._opened_modes.pop()
            syscalls.change_mode(self._upper.folder(path), mode)
        self._upper.close()
        if self._made is not None:
            self._made.close()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def stage(self, placement: Placement, slot: str) -> Staged:
        """Put one thing together under a name of its own in the private directory.

        Raises:
            Unsuitable: It, or something in it, must not be committed.
            OSError: The disk is full, for one.
        """
        top = slot.encode()
        made = [(top, self._put(placement.change, top), placement.change)]
        prefix = len(placement.change.path)
        for change in placement.inside:
            name = top + change.path[prefix:]
            made.append((name, self._put(change, name), change))
        for name, status, change in reversed(made):
            if stat.S_ISDIR(status.st_mode):
                self._finish_folder(name, status, change)
        return self._staged(top, made[0][1])

    def sync(self) -> None:
        """Wait until all of it is on disk."""
        if self._sync_each:
            syscalls.sync(self.fd)
        else:
            syscalls.sync_file_system(self.fd)

    def folder_status(self, change: Change) -> os.stat_result:
        """Return what a directory that stays shall be: mode, owner and group.

        Raises:
            Unsuitable: Its extended attributes were changed, which could not be taken back.
        """
        if self._attributes(self._upper.base, change) != self._attributes(self._root_fd, change):
            raise Unsuitable(change.path, "is a directory whose extended attributes were changed")
        return self._look(change)

    def _attributes(self, base: int, change: Change) -> dict[str, bytes]:
        fd = syscalls.open_beneath(base, change.path, syscalls.READ_DIRECTORY)
        try:
            names = kept_xattrs(change.path, os.listxattr(fd))
            return {name: os.getxattr(fd, name) for name in names}
        except OSError as exc:
            if exc.errno in _NO_XATTRS:
                return {}
            raise
        finally:
            os.close(fd)

    def _staged(self, top: bytes, wanted: os.stat_result) -> Staged:
        now = syscalls.look(self.fd, top)
        if now is None:
            raise OSError(errno.ESTALE, "a staged file was removed by somebody else")
        return Staged(
            now.st_ino,
            0 if _is_shared(wanted) else now.st_ctime_ns,
            wanted.st_mode,
            now.st_mode,
            (now.st_uid, now.st_gid),
            (now.st_atime_ns, now.st_mtime_ns),
        )

    def _look(self, change: Change) -> os.stat_result:
        parent, name = self._upper.parent(change.path)
        status = syscalls.look(parent, name)
        if status is None:
            raise Unsuitable(change.path, "is not in the upper layer")
        return status

    def _put(self, change: Change, name: bytes) -> os.stat_result:
        status = self._look(change)
        assert self._made is not None  # noqa: S101  (make comes first)
        parent, last = self._made.parent(name)
        if stat.S_ISDIR(status.st_mode) and change.kind == "dir":
            syscalls.make_directory(parent, last)
            self._let_in(change.path, status)
        elif stat.S_ISLNK(status.st_mode) and change.kind == "link":
            self._put_link(change, status, parent, last)
        elif stat.S_ISREG(status.st_mode) and change.kind == "file":
            self._put_file(change, status, parent, last, name)
        else:
            raise Unsuitable(change.path, f"is not the {change.kind} that it was seen as")
        return status

    def _put_link(self, change: Change, status: os.stat_result, parent: int, name: bytes) -> None:
        upper, last = self._upper.parent(change.path)
        target = syscalls.read_link(upper, last)
        problem = link_problem(change.path, target, self._root)
        if problem is not None:
            raise Unsuitable(change.path, problem)
        syscalls.make_symlink(parent, name, target)
        self._own(change.path, status, parent, name)
        syscalls.set_times(parent, name, status.st_atime_ns, status.st_mtime_ns)

    def _put_file(
        self, change: Change, status: os.stat_result, parent: int, name: bytes, staged: bytes
    ) -> None:
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            raise Unsuitable(change.path, "has a set-user-id or set-group-id bit")
        if _is_shared(status):
            key = (status.st_dev, status.st_ino)
            first = self._linked.setdefault(key, staged)
            if first != staged:
                assert self._made is not None  # noqa: S101
                old_parent, old = self._made.parent(first)
                # The other parent may have been closed to make room.
                parent, name = self._made.parent(staged)
                syscalls.make_link(old_parent, old, parent, name)
                return
        source = self._open_file(change.path, status)
        try:
            target = syscalls.make_file(parent, name)
            try:
                syscalls.copy_data(source, target, status)
                self.copied_bytes += status.st_blocks * 512
                self._own(change.path, status, parent, name)
                syscalls.change_mode(target, stat.S_IMODE(status.st_mode))
                self._copy_xattrs(change.path, source, target)
                syscalls.set_times(parent, name, status.st_atime_ns, status.st_mtime_ns)
                if self._sync_each:
                    syscalls.sync(target)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _open_file(self, path: bytes, status: os.stat_result) -> int:
        parent, name = self._upper.parent(path)
        if not self._ordinary or status.st_mode & stat.S_IRUSR:
            return syscalls.open_at(parent, name, syscalls.READ_FILE)
        # A file that its owner can't read: the upper layer is ours to change for a moment.
        handle = syscalls.open_at(parent, name, os.O_PATH)
        try:
            syscalls.change_mode(handle, stat.S_IMODE(status.st_mode) | stat.S_IRUSR)
            try:
                return syscalls.open_at(parent, name, syscalls.READ_FILE)
            finally:
                syscalls.change_mode(handle, stat.S_IMODE(status.st_mode))
        finally:
            os.close(handle)

    def _let_in(self, path: bytes, status: os.stat_result) -> None:
        """Let an ordinary user into a directory of the upper layer that has no permissions."""
        if self._ordinary and status.st_mode & 0o700 != 0o700:
            mode = stat.S_IMODE(status.st_mode)
            syscalls.change_mode(self._upper.folder(path), mode | 0o700)
            self._opened_modes.append((path, mode))

    def _finish_folder(self, name: bytes, status: os.stat_result, change: Change) -> None:
        assert self._made is not None  # noqa: S101
        parent, last = self._made.parent(name)
        fd = syscalls.open_at(parent, last, os.O_RDONLY | os.O_DIRECTORY)
        try:
            upper, name_above = self._upper.parent(change.path)
            source = syscalls.open_at(upper, name_above, syscalls.READ_DIRECTORY)
            try:
                self._copy_xattrs(change.path, source, fd)
            finally:
                os.close(source)
            self._own(change.path, status, parent, last)
            mode = stat.S_IMODE(status.st_mode)
            if self._ordinary and b"/" not in name:
                # Its owner must be able to write to a directory to move it.
                mode |= 0o700
            syscalls.change_mode(fd, mode)
            syscalls.set_times(parent, last, status.st_atime_ns, status.st_mtime_ns)
            if self._sync_each:
                syscalls.sync(fd)
        finally:
            os.close(fd)

    def _own(self, path: bytes, status: os.stat_result, parent: int, name: bytes) -> None:
        now = syscalls.look(parent, name)
        if now is None or (now.st_uid, now.st_gid) == (status.st_uid, status.st_gid):
            return
        try:
            syscalls.change_owner(parent, name, status.st_uid, status.st_gid)
        except PermissionError:
            owner = f"user {status.st_uid} and group {status.st_gid}"
            raise Unsuitable(path, f"belongs to {owner}, which can't be kept") from None

    def _copy_xattrs(self, path: bytes, source: int, target: int) -> None:
        try:
            names = os.listxattr(source)
        except OSError as exc:
            if exc.errno in _NO_XATTRS:
                return
            raise
        if names:
            syscalls.copy_xattrs(source, target, kept_xattrs(path, names))


def _is_shared(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def kept_xattrs(path: bytes, names: Sequence[str]) -> list[str]:
    """Return the extended attributes that are kept.

    Raises:
        Unsuitable: One gives a program rights, or would mean something to a later view.
    """
    kept = []
    for name in names:
        if name == "security.capability":
            raise Unsuitable(path, "has file capabilities")
        # A tool's own user.overlay.x stands as user.overlay.overlay.x in an upper layer.
        if name.startswith("user.overlay.overlay."):
            raise Unsuitable(path, "has an extended attribute user.overlay.*")
        if name.startswith("user.overlay."):
            continue
        if name.startswith(("user.", "system.posix_acl_")):
            kept.append(name)
    return kept


def link_problem(path: bytes, target: bytes, root: bytes) -> str | None:
    """Return why a link would leave the tree, or ``None``.

    Only leading ``..`` are understood: after a name, ``..`` leads where that name's own link
    leads, so such a target is refused even where it would stay inside.

    Args:
        path: Of the link, in the tree.
        target: What it says.
        root: The tree, absolute.
    """
    leaves = "is a link that leads out of the tree"
    if target.startswith(b"/"):
        if not (target + b"/").startswith(root.rstrip(b"/") + b"/"):
            return leaves
        rest, level = target[len(root.rstrip(b"/")) :], 0
    else:
        rest, level = target, path.count(b"/")
    named = False
    for part in rest.split(b"/"):
        if part in (b"", b"."):
            continue
        if part != b"..":
            named = True
        elif named:
            return f"{leaves} or may do so: it has '..' after a name"
        else:
            level -= 1
            if level < 0:
                return leaves
    return None


def remove_staging(root_fd: int, name: str) -> bool:
    """Remove a private directory with everything in it, never following or crossing a mount.

    Returns:
        Whether there was one.
    """
    top = os.fsencode(name)
    status = syscalls.look(root_fd, top)
    if status is None:
        return False
    if not stat.S_ISDIR(status.st_mode):
        syscalls.remove_file(root_fd, top)
        return True
    levels = [_Level(root_fd, top, depth=0)]
    try:
        while levels:
            level = levels[-1]
            if not level.names:
                levels.pop().close()
                syscalls.remove_directory(level.parent, level.name)
                continue
            child = level.names.pop()
            status = syscalls.look(level.fd, child)
            if status is None:
                continue
            if not stat.S_ISDIR(status.st_mode):
                syscalls.remove_file(level.fd, child)
            elif len(levels) < _DEPTH_KEPT:
                levels.append(_Level(level.fd, child, depth=len(levels)))
            else:
                # Deeper than descriptors are held for: it is emptied from the top instead.
                _Level(level.fd, child, depth=len(levels)).close()
                moved = b"deep-%d" % status.st_ino
                syscalls.move(level.fd, child, levels[0].fd, moved)
                levels[0].names.append(moved)
    finally:
        while levels:
            levels.pop().close()
    return True


class _Level:
    """A directory that is being emptied."""

    def __init__(self, parent: int, name: bytes, *, depth: int) -> None:
        self.parent = parent
        self.name = name
        handle = syscalls.open_beneath(parent, name, syscalls.PATH_DIRECTORY)
        try:
            if depth and os.geteuid() != 0:
                mode = syscalls.mode_of_path(handle)
                if mode & 0o700 != 0o700:
                    syscalls.change_mode(handle, mode | 0o700)
            self.fd = syscalls.open_beneath(parent, name, syscalls.READ_DIRECTORY)
        finally:
            os.close(handle)
        self.names = syscalls.list_names(self.fd)

    def close(self) -> None:
        os.close(self.fd)
