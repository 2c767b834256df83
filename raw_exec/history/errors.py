"""The one error of the history, and what SQLite's results mean."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..errors import RawExecError

__all__ = ["FAILURES", "HistoryError", "translated"]

FAILURES: Final = {
    "history_closed": "the history was used after its end",
    "history_corrupt": "the file is damaged, or is no database",
    "history_foreign": "the file is the database of another program",
    "history_full": "there is no space left for the file",
    "history_locked": "another program holds the file for longer than we wait",
    "history_not_private": "others can read or replace the file",
    "history_read_only": "the file or its directory can't be written",
    "history_unavailable": "the file can't be opened, read or locked",
    "history_version": "the file was made by a newer version",
    "revision_exists": "this revision of the panel is stored already",
    "session_exists": "there is a session of this ID",
    "session_in_use": "the session is open already, here or in another host that runs",
    "session_unknown": "there is no session of this ID",
}
"""Every code, and what it means."""

_HINTS: Final = {
    "history_corrupt": "move the file away, with its -wal and -shm files, and start anew",
    "history_full": "free some space; nothing of this write was stored",
    "history_locked": "end the program that has the file open for writing, and try again",
    "history_read_only": "give the file and its directory to the user who runs this",
    "history_unavailable": "check the path, and that its file system is a local one",
}
_MEANINGS: Final = {
    sqlite3.SQLITE_BUSY: "history_locked",
    sqlite3.SQLITE_LOCKED: "history_locked",
    sqlite3.SQLITE_PROTOCOL: "history_locked",
    sqlite3.SQLITE_CORRUPT: "history_corrupt",
    sqlite3.SQLITE_NOTADB: "history_corrupt",
    sqlite3.SQLITE_READONLY: "history_read_only",
    sqlite3.SQLITE_PERM: "history_read_only",
    sqlite3.SQLITE_FULL: "history_full",
}
_MISSING_TABLE = "no such table"


class HistoryError(RawExecError):
    """The history can't be opened, read or written; ``code`` is a key of ``FAILURES``."""


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn an error of SQLite into a ``HistoryError``."""
    try:
        yield
    except sqlite3.Error as exc:
        # The low byte is the class; the rest says where it happened.
        number = (getattr(exc, "sqlite_errorcode", None) or 0) & 0xFF
        code = _MEANINGS.get(number, "history_unavailable")
        if _MISSING_TABLE in str(exc):
            code = "history_corrupt"
        message = f"{FAILURES[code]} ({exc})"
        raise HistoryError(code, message, where=where, hint=_HINTS.get(code)) from exc
