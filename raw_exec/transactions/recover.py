"""Finish or undo commits whose process was killed.

A commit that had not yet written down all its steps is undone: its private directory is removed,
and nothing else had been changed. One that had is finished. One that was being undone is undone
further. When a step can't be made, or new content is missing, it is undone after all.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from ..errors import ConfigError
from . import syscalls
from .errors import show_path
from .journal import (
    COMMITTING,
    DONE,
    UNDOING,
    FolderStep,
    Journal,
    JournalText,
    RootRecord,
    default_state_dir,
    find_journals,
    hold_commit_lock,
    open_state_dir,
)
from .staging import remove_staging
from .steps import Tree, can_finish, make_steps, take_back

__all__ = ["RecoveryReport", "clean_up", "recover", "recover_at_start", "recover_locked"]

_log = logging.getLogger(__name__)

_LOCK_SECONDS = 5.0


@dataclass(slots=True)
class RecoveryReport:
    """What was found and done.

    Args:
        finished: Trees of commits that were finished.
        undone: Trees of commits that were undone.
        left: Absolute paths that somebody else changed since, and that were left as they are.
        failed: Tree and reason, where neither could be done; its journal is kept.
    """

    finished: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    left: list[bytes] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.finished or self.undone or self.left or self.failed)


def recover(state_dir: Path, *, wait_seconds: float = _LOCK_SECONDS) -> RecoveryReport:
    """Bring every interrupted commit of a state directory to its end.

    Commits that are running are left alone. Blocks; to be run in a thread.

    Args:
        state_dir: Where the journals are; nothing is done when it is not there.
        wait_seconds: How long to wait for a commit that is just changing a tree.

    Raises:
        ConfigError: The directory can't be used, or belongs to somebody else.
    """
    report = RecoveryReport()
    try:
        with open_state_dir(state_dir, make=False) as directory:
            if not any(name.endswith(b".journal") for name in syscalls.list_names(directory)):
                return report
            with hold_commit_lock(directory, wait_seconds) as held:
                if held:
                    recover_locked(directory, report)
                else:
                    # Whoever holds it looks for interrupted commits before its own.
                    report.failed.append((str(state_dir), "a running commit holds the lock"))
    except FileNotFoundError:
        pass
    except OSError as exc:
        report.failed.append((str(state_dir), exc.strerror or str(exc)))
    return report


async def recover_at_start(state_dir: Path | None = None) -> None:
    """Do so before a runtime's first call, and log what was done.

    A directory that can't be used is logged too: only calls that commit need it.

    Args:
        state_dir: Where the journals are; ``default_state_dir`` by default.
    """
    directory = default_state_dir() if state_dir is None else state_dir
    if not directory.is_dir():
        return
    try:
        report = await trio.to_thread.run_sync(recover, directory)
    except ConfigError as exc:
        _log.warning("interrupted commits can't be looked for: %s", exc)
        return
    for path in report.finished:
        _log.warning("%s: an interrupted commit was finished", path)
    for path in report.undone:
        _log.warning("%s: an interrupted commit was undone", path)
    for left in report.left:
        _log.warning("%s: was changed after a commit was interrupted, and left", show_path(left))
    for path, reason in report.failed:
        _log.warning("%s: an interrupted commit can't be brought to its end: %s", path, reason)


def recover_locked(directory: int, report: RecoveryReport) -> None:
    """Do the same under a commit lock that the caller holds."""
    for journal, text in find_journals(directory):
        try:
            _recover_one(journal, text, report)
        except OSError as exc:
            _note_failure(report, text, f"{exc.strerror or exc} (journal {journal.id})")


def _recover_one(journal: Journal, text: JournalText, report: RecoveryReport) -> None:
    if text.damaged:
        _note_failure(report, text, f"the journal {journal.id} can't be read")
        return
    trees: list[Tree] = []
    try:
        for record in text.roots:
            trees.append(_open_tree(record))
        _bring_to_end(journal, text, trees, report)
    finally:
        for tree in trees:
            tree.close()


def _bring_to_end(
    journal: Journal, text: JournalText, trees: Sequence[Tree], report: RecoveryReport
) -> None:
    left: list[tuple[int, bytes]] = []
    state = text.state
    if state == COMMITTING:
        try:
            if can_finish(trees, text.steps):
                left = make_steps(trees, text.steps, text.folders, strict=False)
                journal.enter(DONE)
                state = DONE
        except OSError:
            pass  # what can't be finished is undone
        if state == COMMITTING:
            journal.enter(UNDOING)
            state = UNDOING
    if state == UNDOING:
        left = take_back(trees, text.steps, text.folders)
    report.left += [_absolute(trees, item) for item in left]
    clean_up(journal, trees, text.folders if state == DONE else ())
    if state is not None:
        done = report.finished if state == DONE else report.undone
        done += [tree.record.path for tree in trees]


def clean_up(journal: Journal, trees: Sequence[Tree], changed: Iterable[FolderStep]) -> None:
    """Remove the private directories, then the journal.

    The modification time that a tree's own directory had is given back where only the private
    directory was made and removed in it.

    Args:
        changed: Directories in which something was changed for good.

    Raises:
        OSError: Something can't be removed; the journal is kept, so it is tried again.
    """
    tops = {folder.root for folder in changed if not folder.path}
    for index, tree in enumerate(trees):
        if remove_staging(tree.fd, tree.record.staging) and index not in tops:
            syscalls.set_times_of(tree.fd, *tree.record.times)
    journal.remove()


def _open_tree(record: RootRecord) -> Tree:
    fd = os.open(record.path, syscalls.READ_DIRECTORY)
    try:
        if os.fstat(fd).st_ino != record.inode:
            raise OSError(0, f"{record.path} is another directory now")
        name = os.fsencode(record.staging)
        staging = -1
        if syscalls.exists(fd, name):
            staging = syscalls.open_at(fd, name, os.O_RDONLY | os.O_DIRECTORY)
    except BaseException:
        os.close(fd)
        raise
    return Tree(record, fd, staging)


def _absolute(trees: Sequence[Tree], item: tuple[int, bytes]) -> bytes:
    root, path = item
    return os.path.join(os.fsencode(trees[root].record.path), path)


def _note_failure(report: RecoveryReport, text: JournalText, reason: str) -> None:
    trees = [record.path for record in text.roots] or ["(no tree)"]
    report.failed += [(tree, reason) for tree in trees]
