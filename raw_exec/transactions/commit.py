"""Make the changes of a call in the real tree: all of them, or none.

Only the supervisor does this, after the call's processes are dead. In order:

1. A journal is opened, then new content is copied beside the tree, into a private directory.
2. Under the commit lock: interrupted commits are brought to their end; what lay below is checked
   against the start of the call; every step is written to the journal and on disk.
3. The steps are made, each one rename. If one fails, those before it are taken back.
4. What was replaced is removed, then the journal.

Stopped at any point, ``recover`` finishes or undoes it. What this does not cover: programs that
look at the tree during step 3 see some files new and some old; what the call did over the network
or to other processes; see docs/transactions.md.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from . import clock, syscalls
from .arrange import STAGING_PREFIX, Arrangement, arrange
from .changes import Change, ChangeSet
from .checks import Checker, mounts_below, parent_conflict
from .errors import CommitConflict, CommitInterrupted, CommitRefused
from .folders import Folders, open_root
from .journal import (
    DONE,
    UNDOING,
    FolderStep,
    Journal,
    RootRecord,
    Step,
    hold_commit_lock,
    open_journal,
    open_state_dir,
)
from .recover import RecoveryReport, clean_up, recover_locked
from .staging import Staged, Staging, Unsuitable
from .steps import Tree, make_steps, order_steps, take_back

__all__ = ["CommitLimits", "CommitReport", "commit"]


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """Bounds of one commit.

    Args:
        changes: How many changes it may have.
        checked_entries: How many files are looked at in directories that go.
        lock_seconds: How long to wait for another commit.
    """

    changes: int = 250_000
    checked_entries: int = 1_000_000
    lock_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What was committed.

    Args:
        changes: How many changes.
        steps: Renames that they took.
        copied_bytes: Allocated bytes of new content.
        recovered: Interrupted commits that were met.
    """

    changes: int
    steps: int
    copied_bytes: int
    recovered: RecoveryReport = field(default_factory=RecoveryReport)


@dataclass(slots=True)
class _Root:
    """One tree on its way."""

    index: int
    changes: ChangeSet
    tree: Tree
    arrangement: Arrangement
    protected: list[tuple[bytes, str]]
    staging: Staging | None = None
    slots: dict[bytes, tuple[str, Staged]] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return self.changes.root


def commit(
    sets: Sequence[ChangeSet], *, state_dir: Path, limits: CommitLimits | None = None
) -> CommitReport:
    """Commit the changes of a call. Blocks; to be run in a thread.

    Args:
        sets: One for each tree; the trees must not overlap.
        state_dir: Where the journal is kept; made when missing.
        limits: Bounds.

    Raises:
        CommitConflict: Something was changed since the call started. Nothing was changed here.
        CommitRefused: A change can't be committed, or the disk is full, or may not be written.
            Nothing was changed.
        CommitInterrupted: A step failed, and taking back those before it failed too.
        ConfigError: ``state_dir`` can't be used.
    """
    bounds = limits or CommitLimits()
    sets = [one for one in sets if one.changes]
    if not sets:
        return CommitReport(0, 0, 0)
    count = sum(len(one.changes) for one in sets)
    if count > bounds.changes:
        text = f"there are {count} changes, and at most {bounds.changes} are committed at once"
        raise CommitRefused([(b"", text)], root=sets[0].root)
    with (
        _reasons(sets[0].root, b""),
        open_state_dir(state_dir) as directory,
        _open_roots(sets, state_dir) as roots,
    ):
        journal = _start(directory, roots, bounds)
        try:
            return _Commit(directory, journal, roots, bounds).run(count)
        finally:
            journal.close()


@contextmanager
def _open_roots(sets: Sequence[ChangeSet], state_dir: Path) -> Iterator[list[_Root]]:
    roots: list[_Root] = []
    try:
        for index, one in enumerate(sets):
            with open_root(one.root, one.identity, syscalls.READ_DIRECTORY) as top:
                fd = os.dup(top)
            tree = Tree(_record(one.root, fd), fd, -1)
            try:
                with Folders(fd) as folders, _reasons(one.root, b""):
                    arrangement = arrange(
                        one.changes,
                        partial(_is_folder, folders),
                        root=one.root,
                    )
            except BaseException:
                tree.close()
                raise
            protected = _protected(one.root, state_dir)
            roots.append(_Root(index, one, tree, arrangement, protected))
        yield roots
    finally:
        for root in roots:
            if root.staging is not None:
                root.staging.close()
            root.tree.close()


def _record(path: str, fd: int) -> RootRecord:
    status = os.fstat(fd)
    name = os.fsdecode(STAGING_PREFIX) + os.urandom(8).hex()
    times = (status.st_atime_ns, status.st_mtime_ns)
    return RootRecord(os.path.realpath(path), status.st_ino, name, times)


def _is_folder(folders: Folders, path: bytes) -> bool:
    try:
        folders.folder(path)
    except OSError as exc:
        if parent_conflict(exc) is not None:
            return False
        if exc.errno == errno.EXDEV:
            return True  # a mount; the check refuses it
        raise
    return True


def _protected(root: str, state_dir: Path) -> list[tuple[bytes, str]]:
    """Return the state directory, where it lies in the tree: a call must not write journals."""
    base, state = os.path.realpath(root).rstrip("/"), os.path.realpath(state_dir)
    if not state.startswith(f"{base}/"):
        return []
    return [(os.fsencode(state[len(base) + 1 :]), "is where journals of commits are kept")]


def _start(directory: int, roots: Sequence[_Root], limits: CommitLimits) -> Journal:
    """Open the journal under the lock, so that nobody takes it for a dead one's."""
    with _hold(directory, roots, limits):
        journal = open_journal(directory)
        try:
            journal.begin([root.tree.record for root in roots])
        except BaseException:
            # Should this fail too, the next commit removes it: nothing was done yet.
            with suppress(OSError):
                journal.remove()
            journal.close()
            raise
    return journal


@contextmanager
def _hold(directory: int, roots: Sequence[_Root], limits: CommitLimits) -> Iterator[None]:
    with hold_commit_lock(directory, limits.lock_seconds) as held:
        if not held:
            text = f"another commit was not done after {limits.lock_seconds:g} s"
            raise CommitConflict([(b"", text)], root=roots[0].path, hint="call the tool again")
        yield


class _Commit:
    """One commit with an open journal."""

    def __init__(
        self, directory: int, journal: Journal, roots: Sequence[_Root], limits: CommitLimits
    ) -> None:
        self._directory = directory
        self._journal = journal
        self._roots = roots
        self._trees = [root.tree for root in roots]
        self._limits = limits
        self._recovered = RecoveryReport()
        self._undoing_failed = False

    def run(self, count: int) -> CommitReport:
        steps: list[Step] = []
        folders: list[FolderStep] = []
        done = False
        try:
            copied = self._stage()
            with _hold(self._directory, self._roots, self._limits):
                recover_locked(self._directory, self._recovered)
                self._refuse_after_failed_recovery()
                steps, folders = self._check()
                self._make(steps, folders)
                done = True
        finally:
            # After a failed undoing the journal stays, and recovery goes on with it.
            if not self._undoing_failed:
                self._clean_up(folders if done else ())
        _wait_for_next_tick()
        return CommitReport(count, len(steps), copied, self._recovered)

    def _stage(self) -> int:
        copied = 0
        for root in self._roots:
            placements = root.arrangement.placements
            things = sum(1 + len(placement.inside) for placement in placements.values())
            with _reasons(root.path, b""):
                staging = Staging(
                    root.tree.record.path,
                    root.tree.fd,
                    root.tree.record.staging,
                    root.changes.upper,
                    things,
                )
                root.staging = staging
                staging.make()
                root.tree.staging = os.dup(staging.fd)
            unsuitable: list[tuple[bytes, str]] = []
            for number, (path, placement) in enumerate(placements.items()):
                slot = f"{number}"
                try:
                    with _reasons(root.path, path):
                        root.slots[path] = slot, staging.stage(placement, slot)
                except Unsuitable as exc:
                    unsuitable.append((exc.path, exc.reason))
            if unsuitable:
                raise CommitRefused(unsuitable, root=root.path)
            with _reasons(root.path, b""):
                if placements:
                    staging.sync()
            copied += staging.copied_bytes
        return copied

    def _check(self) -> tuple[list[Step], list[FolderStep]]:
        steps: list[Step] = []
        folders: list[FolderStep] = []
        for root in self._roots:
            checker = Checker(
                root.path,
                root.tree.fd,
                root.changes.started_ns,
                mounts=mounts_below(os.fsencode(root.tree.record.path)),
                protected=root.protected,
                max_entries=self._limits.checked_entries,
            )
            try:
                steps += self._steps_of(root, checker)
                folders += self._folders_of(root, checker)
                checker.finish()
            finally:
                checker.close()
        return order_steps(steps), folders

    def _steps_of(self, root: _Root, checker: Checker) -> list[Step]:
        steps = []
        arrangement = root.arrangement
        for path, placement in arrangement.placements.items():
            old = checker.check_target(placement.change)
            slot, staged = root.slots[path]
            steps.append(Step(root.index, path, slot, staged.inode, staged.ctime_ns, old))
            if checker.full:
                break
        first = len(arrangement.placements)
        for number, change in enumerate(arrangement.removals, start=first):
            old = checker.check_target(change)
            steps.append(Step(root.index, change.path, f"{number}", 0, 0, old))
            if checker.full:
                break
        return steps

    def _folders_of(self, root: _Root, checker: Checker) -> list[FolderStep]:
        out: list[FolderStep] = []
        assert root.staging is not None  # noqa: S101  (it was staged)
        for path in sorted(root.arrangement.folders):
            change = root.arrangement.changed_folders.get(path)
            now = checker.check_parent(path) if change is None else checker.check_folder(change)
            if now is None:
                continue
            mode = now.st_mode & 0o7777
            old = (mode, now.st_uid, now.st_gid, now.st_atime_ns, now.st_mtime_ns)
            new = old[:3]
            if change is not None:
                new = self._folder_mode(root, change, checker) or new
            if not path:
                old = (*old[:3], *root.tree.record.times)
            out.append(FolderStep(root.index, path, now.st_ino, old, new))
        for path, (_slot, staged) in root.slots.items():
            if staged.held_mode != staged.mode:
                uid, gid = staged.owner
                held, wanted = staged.held_mode & 0o7777, staged.mode & 0o7777
                old = (held, uid, gid, *staged.times)
                out.append(FolderStep(root.index, path, staged.inode, old, (wanted, uid, gid)))
        return sorted(out, key=lambda step: step.path)

    def _folder_mode(
        self, root: _Root, change: Change, checker: Checker
    ) -> tuple[int, int, int] | None:
        assert root.staging is not None  # noqa: S101
        try:
            wanted = root.staging.folder_status(change)
        except Unsuitable as exc:
            checker.refused.append((exc.path, exc.reason))
            return None
        return wanted.st_mode & 0o7777, wanted.st_uid, wanted.st_gid

    def _make(self, steps: Sequence[Step], folders: Sequence[FolderStep]) -> None:
        try:
            self._journal.commit(steps, folders)
            make_steps(self._trees, steps, folders, strict=True)
            self._journal.enter(DONE)
        except BaseException as exc:
            if not self._journal.may_say_committing:
                raise
            self._undoing_failed = True
            self._undo(steps, folders, exc)
            self._undoing_failed = False
            raise

    def _undo(
        self, steps: Sequence[Step], folders: Sequence[FolderStep], cause: BaseException
    ) -> None:
        try:
            self._journal.enter(UNDOING)
            take_back(self._trees, steps, folders)
        except OSError as exc:
            text = f"{_why(cause)}; taking it back failed: {_why(exc)}"
            raise CommitInterrupted(
                [(b"", text)],
                root=self._roots[0].path,
                hint="remove the cause; the next commit or runtime brings it to its end",
            ) from exc

    def _refuse_after_failed_recovery(self) -> None:
        ours = [root.tree.record.path for root in self._roots]
        for path, reason in self._recovered.failed:
            if any(_is_in(path, one) or _is_in(one, path) for one in ours):
                text = f"an interrupted commit can neither be finished nor undone: {reason}"
                raise CommitRefused([(b"", text)], root=path)

    def _clean_up(self, changed: Sequence[FolderStep]) -> None:
        # Should it fail, the journal stays, so the next commit or runtime tries again.
        with suppress(OSError):
            clean_up(self._journal, self._trees, changed)


def _is_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


@contextmanager
def _reasons(root: str, path: bytes) -> Iterator[None]:
    """Turn the kernel's refusals into ours."""
    try:
        yield
    except OSError as exc:
        raise _refused(root, path, exc) from exc


_REASONS: Final = {
    errno.ENOSPC: ("the disk is full", "make room, or commit less"),
    errno.EDQUOT: ("the disk quota is used up", "make room, or commit less"),
    errno.EROFS: ("the file system is read-only", None),
    errno.EACCES: ("may not be written by this user", None),
    errno.EPERM: ("may not be written by this user", None),
    errno.EXDEV: (
        "the file system can't move a directory of a lower layer, or something is mounted there",
        "work in a directory that is not part of a container image",
    ),
    errno.EINVAL: (
        "the file system can't exchange two names in one step",
        "work in a directory of a local Linux file system",
    ),
    errno.ENOSYS: ("the kernel has no openat2 or renameat2", "Linux 5.6 or later is needed"),
}


def _why(exc: BaseException) -> str:
    return (exc.strerror if isinstance(exc, OSError) else None) or str(exc)


def _refused(root: str, path: bytes, exc: OSError) -> CommitRefused:
    reason, hint = _REASONS.get(exc.errno or 0, (None, None))
    return CommitRefused([(path, reason or exc.strerror or str(exc))], root=root, hint=hint)


def _wait_for_next_tick() -> None:
    """Let a call that starts after this be told from it by time.

    A change time in the tick in which a call starts counts as a change during the call. Recent
    kernels also give finer times, which may lie a tick ahead of that clock.
    """
    start = time.time_ns()
    for _ in range(clock.MAX_LOOKS):
        if clock.coarse_ns() > start:
            return
        time.sleep(clock.LOOK_SECONDS)
