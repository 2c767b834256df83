"""Applies ``operations``: all are checked against what they would meet, then written in order.

Operations on one file build on each other, so the check follows each file's content through
all of them. When its turn comes, an edit is computed anew from the file as it is, and only
when that is what the check saw.

A symbolic link is followed, as everywhere outside of patches; the sandbox judges where to.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from .failures import Aborted, RowFailed, from_os_error
from .folders import read_regular, write_all, write_new
from .request import Operation
from .text import edit

__all__ = ["run_operations"]

Row = dict[str, Any]

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class _Expected:
    """A file as it will be after the operations checked so far.

    Args:
        exists: Whether there will be a file.
        content: All of it; ``None`` while nobody had to look.
        tail: What will have been appended to it while ``content`` is ``None``.
    """

    exists: bool
    content: bytes | None = None
    tail: bytes = b""


@dataclass(slots=True)
class _Step:
    operation: Operation
    row: Row
    real: str = ""
    digest: bytes = b""


def run_operations(
    operations: tuple[Operation, ...], check_abort: Callable[[], None]
) -> tuple[str, list[Row]]:
    """Apply operations.

    Args:
        check_abort: Raises ``Aborted`` when the call was aborted.

    Returns:
        ``applied``, ``conflict`` (nothing was changed), ``incomplete`` (some row failed) or
        ``aborted``; and a row per operation.
    """
    steps = [
        _Step(item, {"path": item.path, "mode": item.mode, "status": "skipped"})
        for item in operations
    ]
    rows = [step.row for step in steps]
    try:
        if not _check_all(steps, check_abort):
            return "conflict", rows
        broken: set[str] = set()
        for step in steps:
            check_abort()
            _attempt(step, partial(_apply, step, broken))
            if "error" in step.row:
                broken.add(step.real)
            else:
                step.row["status"] = "applied"
    except Aborted:
        return "aborted", rows
    return ("incomplete" if broken else "applied"), rows


def _attempt(step: _Step, action: Callable[[], None]) -> None:
    try:
        action()
    except RowFailed as exc:
        failure = exc
    except OSError as exc:
        failure = from_os_error(exc)
    else:
        return
    step.row["status"] = "failed"
    step.row["error"] = failure.as_dict()


# ---------------------------------------------------------------- before any change


def _check_all(steps: list[_Step], check_abort: Callable[[], None]) -> bool:
    expected: dict[str, _Expected] = {}
    for step in steps:
        check_abort()
        _attempt(step, partial(_check, step, expected))
    return not any("error" in step.row for step in steps)


def _check(step: _Step, expected: dict[str, _Expected]) -> None:
    operation = step.operation
    step.real = os.path.realpath(operation.target)
    state = expected.get(step.real)
    if state is None:
        state = expected[step.real] = _look(step.real)
        _check_parents(step.real, expected)
    if operation.mode == "overwrite":
        state.content = operation.text
    elif operation.mode == "append":
        if state.content is None:
            state.tail += operation.text
        else:
            state.content += operation.text
    else:
        if not state.exists:
            raise RowFailed("not_found", "does not exist")
        if state.content is None:
            state.content = _read_file(step.real) + state.tail
        step.digest = hashlib.sha256(state.content).digest()
        state.content = edit(state.content, operation)
    state.exists = True


def _look(path: str) -> _Expected:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return _Expected(exists=False, content=b"")
    if stat.S_ISDIR(mode):
        raise RowFailed("is_directory", "is a folder")
    if not stat.S_ISREG(mode):
        raise RowFailed("not_a_regular_file", "is not a regular file")
    return _Expected(exists=True)


def _check_parents(path: str, expected: dict[str, _Expected]) -> None:
    """Refuse a path below a file, be it one that an earlier operation will make."""
    for other in expected:
        if other.startswith(f"{path}/"):
            raise RowFailed("is_directory", f"will be a folder, for {other!r}")
    above = path
    while above := above.rpartition("/")[0]:
        if above in expected:
            raise RowFailed("not_a_directory", f"is below {above!r}, which will be a file")
        try:
            found = stat.S_ISDIR(os.stat(above).st_mode)
        except FileNotFoundError:
            continue
        if not found:
            raise RowFailed("not_a_directory", f"is below {above!r}, which is not a folder")
        return


# ---------------------------------------------------------------- the changes


def _apply(step: _Step, broken: set[str]) -> None:
    operation = step.operation
    if step.real in broken:
        raise RowFailed("earlier_row_failed", "was left alone: an earlier row for it failed")
    if operation.mode == "append":
        _append(step.real, operation.text)
        step.row["bytes"] = len(operation.text)
        return
    content = operation.text
    if operation.mode != "overwrite":
        old = _read_file(step.real)
        if hashlib.sha256(old).digest() != step.digest:
            raise RowFailed("changed_meanwhile", "was changed by somebody else meanwhile")
        content = edit(old, operation)
    _write_whole(step.real, content)
    step.row["bytes"] = len(content)
    step.row["sha256"] = hashlib.sha256(content).hexdigest()


def _read_file(path: str) -> bytes:
    fd = os.open(path, _READ)
    try:
        return read_regular(fd)
    finally:
        os.close(fd)


def _append(path: str, text: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, _APPEND, 0o666)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise RowFailed("not_a_regular_file", "is not a regular file")
        try:
            write_all(fd, text)
        except OSError:
            # No half of a text stays behind, unless somebody else appended as well.
            os.ftruncate(fd, status.st_size)
            raise
    finally:
        os.close(fd)


def _write_whole(path: str, content: bytes) -> None:
    """Replace a file in one step, keeping its permission bits; make it if missing."""
    folder, _slash, _name = path.rpartition("/")
    os.makedirs(folder or "/", exist_ok=True)
    try:
        status = os.stat(path, follow_symlinks=False)
        mode: int | None = status.st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    temporary = f"{folder}/.raw-{os.urandom(8).hex()}.tmp"
    write_new(temporary, content, mode)
    try:
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
