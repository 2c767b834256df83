"""Make the steps of a journal, and take them back; both can be stopped anywhere and begun again.

Where a step stands is not remembered but seen: the new thing lies in its slot (not made) or in
its place (made). What is neither was changed by somebody else after the commit began. Then it is
as if that had happened after the commit, or after its undoing: theirs stays.

Order: what is new, then what replaces, then what goes, so that a file which was moved is always
there under one name; then modes of directories, children first.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from . import syscalls
from .checks import parent_conflict
from .errors import CommitConflict
from .folders import Folders
from .journal import FolderStep, Old, RootRecord, Step

__all__ = ["Tree", "can_finish", "make_steps", "order_steps", "take_back"]


@dataclass(slots=True)
class Tree:
    """An open tree of a journal.

    Args:
        record: As in the journal.
        fd: Its directory.
        staging: The private directory in it; -1 when it is gone.
    """

    record: RootRecord
    fd: int
    staging: int

    def close(self) -> None:
        """Close both."""
        os.close(self.fd)
        if self.staging >= 0:
            os.close(self.staging)


def order_steps(steps: Sequence[Step]) -> list[Step]:
    """Return steps in the order they are made."""

    def rank(step: Step) -> tuple[int, int, bytes]:
        kind = 2 if not step.new_inode else 0 if step.old is None else 1
        return kind, step.root, step.path

    return sorted(steps, key=rank)


def make_steps(
    trees: Sequence[Tree], steps: Sequence[Step], folders: Sequence[FolderStep], *, strict: bool
) -> list[tuple[int, bytes]]:
    """Make every step that was not made yet.

    Args:
        strict: Stop where something is not as it was written down; for a commit. Otherwise it
            is left alone; for recovery, which comes too late to refuse.

    Returns:
        Root and path of what was left alone.

    Raises:
        CommitConflict: With ``strict``.
        OSError: A step can't be made.
    """
    left: list[tuple[int, bytes]] = []
    names = Counter((step.root, step.old.inode) for step in steps if step.old is not None)
    opened = [Folders(tree.fd) for tree in trees]
    try:
        _open_up(opened, folders)
        for step in steps:
            tree, slot = trees[step.root], step.slot.encode()
            parent, name = _parent_of(opened, step, trees, strict=strict)
            if parent < 0:
                left.append((step.root, step.path))
                continue
            now = syscalls.look(parent, name)
            if _is_made(step, now, tree, slot):
                continue
            alone = step.old is None or names[step.root, step.old.inode] == 1
            if not _is(step.old, now, strict=strict, alone=alone):
                if strict:
                    raise _conflict(trees, step, "was changed by somebody else")
                left.append((step.root, step.path))
                continue
            if step.old is not None:
                _make_movable(parent, name, step.old.mode)
            if not step.new_inode:
                syscalls.move(parent, name, tree.staging, slot)
                continue
            if not _holds_new(tree, step):
                # Security: another process may write to the tree, and to the slot in it. The
                # number of a file that was removed is soon another one's, but not its time.
                raise OSError(errno.ESTALE, f"staged content was changed: {step.slot}")
            if step.old is None:
                syscalls.move(tree.staging, slot, parent, name)
            else:
                syscalls.exchange(tree.staging, slot, parent, name)
        for folder in reversed(folders):
            _settle(opened, folder, folder.new, None)
        _sync(trees, opened, folders)
    finally:
        for one in opened:
            one.close()
    return left


def take_back(
    trees: Sequence[Tree], steps: Sequence[Step], folders: Sequence[FolderStep]
) -> list[tuple[int, bytes]]:
    """Take back every step that was made.

    Returns:
        Root and path of what somebody else changed meanwhile, and was left alone.

    Raises:
        OSError: A step can't be taken back.
    """
    left: list[tuple[int, bytes]] = []
    opened = [Folders(tree.fd) for tree in trees]
    try:
        _open_up(opened, folders)
        for step in reversed(steps):
            tree, slot = trees[step.root], step.slot.encode()
            if tree.staging < 0:
                continue  # everything had been taken back
            parent, name = _parent_of(opened, step, trees, strict=False)
            holds_old = _holds_old(tree, step)
            if parent < 0:
                left.append((step.root, step.path))
                continue
            now = syscalls.look(parent, name)
            if step.new_inode:
                if now is None or now.st_ino != step.new_inode:
                    continue  # not made, or theirs
                _make_movable(parent, name, now.st_mode)
                if step.old is None:
                    syscalls.move(parent, name, tree.staging, slot)
                elif holds_old:
                    syscalls.exchange(tree.staging, slot, parent, name)
                else:
                    left.append((step.root, step.path))
                    continue
            elif holds_old:
                if now is not None:
                    left.append((step.root, step.path))
                    continue
                syscalls.move(tree.staging, slot, parent, name)
            if step.old is not None:
                _give_mode_back(parent, name, step.old)
        for folder in reversed(folders):
            _settle(opened, folder, folder.old[:3], folder.old[3:])
        _sync(trees, opened, folders)
    finally:
        for one in opened:
            one.close()
    return left


def can_finish(trees: Sequence[Tree], steps: Sequence[Step]) -> bool:
    """Whether every new thing is still there, in its slot or in its place."""
    opened = [Folders(tree.fd) for tree in trees]
    try:
        for step in steps:
            if not step.new_inode:
                continue
            tree = trees[step.root]
            if _holds_new(tree, step):
                continue
            parent, name = _parent_of(opened, step, trees, strict=False)
            now = None if parent < 0 else syscalls.look(parent, name)
            if now is not None and now.st_ino == step.new_inode:
                continue
            # With the old thing in the slot the step was made, and somebody changed it since.
            if not _holds_old(tree, step):
                return False
        return True
    finally:
        for one in opened:
            one.close()


def _holds_new(tree: Tree, step: Step) -> bool:
    if tree.staging < 0:
        return False
    found = syscalls.look(tree.staging, step.slot.encode())
    if found is None or found.st_ino != step.new_inode:
        return False
    return step.new_ctime_ns in (0, found.st_ctime_ns)


def _holds_old(tree: Tree, step: Step) -> bool:
    """Whether the slot holds what lay in the place.

    Its number need not be the one it had there: where the tree is itself a copy-on-write file
    system, moving a file may have given it another. A slot holds nothing but the two.
    """
    if step.old is None or tree.staging < 0:
        return False
    found = syscalls.look(tree.staging, step.slot.encode())
    if found is None or found.st_ino == step.new_inode:
        return False
    return stat.S_IFMT(found.st_mode) == stat.S_IFMT(step.old.mode)


def _parent_of(
    opened: Sequence[Folders], step: Step, trees: Sequence[Tree], *, strict: bool
) -> tuple[int, bytes]:
    try:
        return opened[step.root].parent(step.path)
    except OSError as exc:
        reason = parent_conflict(exc)
        if reason is None:
            raise
        if strict:
            raise _conflict(trees, step, f"the directory that it is in {reason}") from exc
        return -1, b""


def _conflict(trees: Sequence[Tree], step: Step, reason: str) -> CommitConflict:
    return CommitConflict([(step.path, reason)], root=trees[step.root].record.path)


def _is_made(step: Step, now: os.stat_result | None, tree: Tree, slot: bytes) -> bool:
    if step.new_inode:
        return now is not None and now.st_ino == step.new_inode
    return now is None and _holds_old(tree, step)


def _is(old: Old | None, now: os.stat_result | None, *, strict: bool, alone: bool) -> bool:
    if old is None or now is None:
        return old is None and now is None
    # A step for one name of a file moves the change time for its other names. An ordinary user
    # who makes a directory movable moves it too, which recovery may come after.
    timely = alone and (strict or not old.is_dir)
    return now.st_ino == old.inode and not (timely and now.st_ctime_ns != old.ctime_ns)


def _make_movable(parent: int, name: bytes, mode: int) -> None:
    """Let an ordinary user move a directory that it owns and can't write to."""
    if stat.S_ISDIR(mode) and os.geteuid() != 0 and mode & 0o300 != 0o300:
        _set_mode(parent, name, stat.S_IMODE(mode) | 0o700)


def _give_mode_back(parent: int, name: bytes, old: Old) -> None:
    if not old.is_dir or os.geteuid() == 0 or old.mode & 0o300 == 0o300:
        return
    now = syscalls.look(parent, name)
    if now is not None and stat.S_ISDIR(now.st_mode):
        _set_mode(parent, name, stat.S_IMODE(old.mode))


def _set_mode(parent: int, name: bytes, mode: int) -> None:
    fd = syscalls.open_beneath(parent, name, syscalls.PATH_DIRECTORY)
    try:
        syscalls.change_mode(fd, mode)
    finally:
        os.close(fd)


def _open_up(opened: Sequence[Folders], folders: Sequence[FolderStep]) -> None:
    """Let an ordinary user change the entries of directories that it owns, parents first."""
    if os.geteuid() == 0:
        return
    for folder in folders:
        if folder.old[0] & 0o300 == 0o300:
            continue
        fd = _folder(opened, folder)
        if fd is not None and syscalls.mode_of_path(fd) & 0o300 != 0o300:
            syscalls.change_mode(fd, syscalls.mode_of_path(fd) | 0o700)


def _folder(opened: Sequence[Folders], folder: FolderStep) -> int | None:
    try:
        fd = opened[folder.root].folder(folder.path)
    except OSError as exc:
        if parent_conflict(exc) is None:
            raise
        return None
    return fd if os.fstat(fd).st_ino == folder.inode else None


def _settle(
    opened: Sequence[Folders],
    folder: FolderStep,
    wanted: tuple[int, int, int],
    times: tuple[int, int] | None,
) -> None:
    fd = _folder(opened, folder)
    if fd is None:
        return
    mode, uid, gid = wanted
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) != (uid, gid):
        syscalls.change_owner_of(fd, uid, gid)
    if stat.S_IMODE(now.st_mode) != mode:
        syscalls.change_mode(fd, mode)
    if times is not None:
        syscalls.set_times_of(fd, *times)


def _sync(trees: Sequence[Tree], opened: Sequence[Folders], folders: Sequence[FolderStep]) -> None:
    """Wait until the renames are on disk, before what they replaced is removed."""
    if len(folders) > syscalls.MAX_SYNCED_EACH:
        for tree in trees:
            syscalls.sync_file_system(tree.fd)
        return
    for folder in folders:
        try:
            fd = syscalls.open_beneath(
                opened[folder.root].base, folder.path, syscalls.READ_DIRECTORY
            )
        except OSError:
            # Not readable: then all of it.
            syscalls.sync_file_system(trees[folder.root].fd)
            continue
        try:
            syscalls.sync(fd)
        finally:
            os.close(fd)
