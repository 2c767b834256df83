"""Applies a parsed patch: everything is checked and staged, then changed in order.

1. Each section is checked against the file system, and new content is written to a file of
   its own beside the target. A conflict anywhere removes those files again; nothing else has
   happened.
2. Sections are applied in order, each by one rename or unlink. A file that is no longer what
   it was in step 1 is not touched. The first failure ends the patch; rows tell how far it got.

Not covered: a process that is killed during step 2 leaves staged files (``.raw-*.tmp``).
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .failures import Aborted, RowFailed, from_os_error
from .folders import Folders, Place
from .patch import FileChange
from .text import added_content, apply_hunks

__all__ = ["run_patch"]

Row = dict[str, Any]


@dataclass(slots=True)
class _Step:
    """A section on its way.

    Args:
        source: Where the file is; ``None`` for an added one.
        place: Where the file will be; ``None`` for a deleted one.
        staged: Name of the file with the new content, if that is not the old one.
        digest: Of the content that was read.
    """

    change: FileChange
    row: Row
    source: Place | None = None
    place: Place | None = None
    staged: str | None = None
    digest: bytes = field(default=b"")


def run_patch(
    changes: tuple[FileChange, ...], check_abort: Callable[[], None]
) -> tuple[str, list[Row]]:
    """Apply a patch.

    Args:
        check_abort: Raises ``Aborted`` when the call was aborted.

    Returns:
        ``applied``, ``conflict`` (nothing was changed), ``incomplete`` or ``aborted``; and a
        row per section.
    """
    steps = [_Step(change, _row(change)) for change in changes]
    folders = Folders()
    try:
        if not _stage(steps, folders, check_abort):
            return "conflict", [step.row for step in steps]
        return _apply(steps, folders, check_abort), [step.row for step in steps]
    except Aborted:
        return "aborted", [step.row for step in steps]
    finally:
        folders.close()


def _row(change: FileChange) -> Row:
    row = {"path": change.path, "operation": change.operation, "status": "skipped"}
    if change.new_path is not None:
        row["new_path"] = change.new_path
    return row


def _fail(row: Row, failure: RowFailed) -> None:
    row["status"] = "failed"
    row["error"] = failure.as_dict()


# ---------------------------------------------------------------- before any change


def _stage(steps: list[_Step], folders: Folders, check_abort: Callable[[], None]) -> bool:
    """Check every section, so that all conflicts are reported; return whether there is none."""
    targets: set[str] = set()
    for step in steps:
        for path in (step.change.target, step.change.new_target):
            if path is None:
                continue
            if path in targets:
                _fail(step.row, RowFailed("repeated_target", "is named twice by this patch"))
            targets.add(path)
    fine = not any("error" in step.row for step in steps)
    for step in steps:
        check_abort()
        if "error" in step.row:
            continue
        try:
            _check_nesting(step.change, targets)
            _stage_one(step, folders, fine, check_abort)
        except RowFailed as exc:
            _fail(step.row, exc)
        except OSError as exc:
            _fail(step.row, from_os_error(exc))
        fine = fine and "error" not in step.row
    return fine


def _check_nesting(change: FileChange, targets: set[str]) -> None:
    for path in (change.target, change.new_target):
        above = path or ""
        while above := above.rpartition("/")[0]:
            if above in targets:
                text = f"is below {above!r}, which this patch names as a file"
                raise RowFailed("not_a_directory", text)


def _stage_one(step: _Step, folders: Folders, write: bool, check_abort: Callable[[], None]) -> None:
    change = step.change
    mode = None
    if change.operation == "add":
        content = added_content(change.added, change.drop_newline)
        step.place = _free_place(folders, change.target)
    else:
        step.source = folders.find(change.target)
        mode = _check_regular(folders, step.source)
        if write and change.operation in ("delete", "move"):
            folders.check_writable(step.source)
        if change.operation == "delete":
            return
        old = folders.read(step.source)
        step.digest = hashlib.sha256(old).digest()
        content = old
        if change.changes_content:
            content = apply_hunks(old, change.hunks, change.drop_newline, check_abort)
        if change.new_target is None:
            step.place = step.source
        else:
            step.place = _free_place(folders, change.new_target)
        if content == old:
            if write:
                folders.check_writable(step.place)
            return
    if write:
        step.staged = folders.stage(step.place, content, mode)


def _free_place(folders: Folders, path: str) -> Place:
    place = folders.find(path)
    status = folders.status(place)
    if status is not None:
        if stat.S_ISLNK(status.st_mode):
            raise RowFailed("symlink", f"is a symbolic link at {path!r}")
        raise RowFailed("exists", f"would replace {path!r}, which exists already")
    return place


def _check_regular(folders: Folders, place: Place) -> int:
    """Return the mode of the file in a place."""
    status = folders.status(place)
    if status is None:
        raise RowFailed("not_found", "does not exist")
    if stat.S_ISLNK(status.st_mode):
        raise RowFailed("symlink", "is a symbolic link")
    if stat.S_ISDIR(status.st_mode):
        raise RowFailed("is_directory", "is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise RowFailed("not_a_regular_file", "is not a regular file")
    return status.st_mode


# ---------------------------------------------------------------- the changes


def _apply(steps: list[_Step], folders: Folders, check_abort: Callable[[], None]) -> str:
    for step in steps:
        check_abort()
        try:
            _apply_one(step, folders)
        except RowFailed as exc:
            _fail(step.row, exc)
            return "incomplete"
        except OSError as exc:
            _fail(step.row, from_os_error(exc))
            return "incomplete"
        step.row["status"] = "applied"
    return "applied"


def _apply_one(step: _Step, folders: Folders) -> None:
    source, place, staged = step.source, step.place, step.staged
    if source is not None:
        _check_regular(folders, source)
        if place is not None and hashlib.sha256(folders.read(source)).digest() != step.digest:
            raise RowFailed("changed_meanwhile", "was changed by somebody else meanwhile")
    if place is None:
        if source is not None:
            folders.remove(source)
    elif place is source:
        if staged is not None:
            folders.replace(staged, place)
    elif staged is None:
        if source is not None:
            folders.move(source, place)
    else:
        folders.place_new(staged, place)
        if source is not None:
            try:
                folders.remove(source)
            except OSError:
                folders.remove(place)
                raise
