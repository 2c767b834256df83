"""A file that only its owner can read, before SQLite opens it.

Security: what tools were asked and what people answered is in it. SQLite gives its ``-wal``
and ``-shm`` files the mode of the main file, so the main file must exist with mode 0600 first.

Race: the file is looked at and never opened here. Closing any descriptor of a file drops all
POSIX locks that this process has on it, also those of another connection to the same file.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ..jsontext import kind_name
from .errors import FAILURES, HistoryError

__all__ = ["open_private", "prepare_file"]


def prepare_file(path: Path) -> tuple[int, int]:
    """Make the file if it is missing, and check that it is ours alone.

    Returns:
        Its device and inode.

    Raises:
        HistoryError: ``history_not_private``, ``history_read_only`` or ``history_unavailable``.
    """
    where = str(path)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_directory(path.parent, where)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            os.close(os.open(path, flags, 0o600))
        except FileExistsError:
            pass
        return _check_file(path, where)
    except OSError as exc:
        raise _failed(exc, where) from exc


def open_private(path: Path) -> int:
    """Open a private file beside the database, making it if it is missing."""
    where = str(path)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise _failed(exc, where) from exc
    try:
        _check_status(os.fstat(fd), where)
    except HistoryError:
        os.close(fd)
        raise
    return fd


def _failed(exc: OSError, where: str) -> HistoryError:
    code = "history_unavailable"
    if isinstance(exc, PermissionError) or exc.errno == errno.EROFS:
        code = "history_read_only"
    return HistoryError(code, f"{FAILURES[code]} ({exc.strerror})", where=where)


def _check_directory(path: Path, where: str) -> None:
    mode = path.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        message = "everyone can replace files of its directory"
        hint = f"chmod o-w {path}"
        raise HistoryError("history_not_private", message, where=where, hint=hint)


def _check_file(path: Path, where: str) -> tuple[int, int]:
    status = os.lstat(path)
    _check_status(status, where)
    return status.st_dev, status.st_ino


def _check_status(status: os.stat_result, where: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        message = f"is {kind_name(status.st_mode)}, not a regular file"
        raise HistoryError("history_not_private", message, where=where)
    if status.st_uid != os.geteuid():
        message = f"belongs to user {status.st_uid}, not to user {os.geteuid()}"
        raise HistoryError("history_not_private", message, where=where)
    if status.st_mode & 0o077:
        message = f"has mode {stat.S_IMODE(status.st_mode):04o}; others may read or change it"
        hint = f"chmod 600 {where}"
        raise HistoryError("history_not_private", message, where=where, hint=hint)
