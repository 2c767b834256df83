"""Database faults, told as what a person can do about them."""

from __future__ import annotations

import sqlite3
from typing import Final

from sqlalchemy.exc import DBAPIError

from ..errors import Conflict, RegistryError, StoreError

__all__ = ["explain_fault", "is_worth_retrying"]

# Longest prefix of SQLite's error name first.
_SQLITE: Final = (
    ("SQLITE_BUSY", "database_locked"),
    ("SQLITE_LOCKED", "database_locked"),
    ("SQLITE_FULL", "database_full"),
    ("SQLITE_READONLY", "database_readonly"),
    ("SQLITE_CORRUPT", "database_corrupt"),
    ("SQLITE_NOTADB", "database_corrupt"),
    ("SQLITE_CANTOPEN", "database_unreachable"),
    ("SQLITE_PERM", "database_unreachable"),
    ("SQLITE_IOERR", "database_full"),
    ("SQLITE_TOOBIG", "value_too_large"),
)
# Prefix of an SQLSTATE.
_POSTGRES: Final = (
    ("53100", "database_full"),
    ("53", "database_unreachable"),
    ("25006", "database_readonly"),
    ("55P03", "database_locked"),
    ("57014", "database_locked"),
    ("57P", "database_unreachable"),
    ("08", "database_unreachable"),
    ("28", "database_unreachable"),
    ("3D000", "database_unreachable"),
    ("XX", "database_corrupt"),
)
_TEXTS: Final = {
    "database_locked": ("is busy with other changes", "try again in a moment"),
    "database_full": ("could not be written, its disk may be full", "free some space"),
    "database_readonly": ("may not be written to", "check the file's and folder's permissions"),
    "database_corrupt": ("is damaged or no registry database", "restore it from a copy"),
    "database_unreachable": ("can not be opened", "check the address, the server and the rights"),
    "value_too_large": ("was sent a value that is too large", "send a smaller one"),
}
# Serialisation failure, deadlock, and the unique violation that a lost race shows as.
_RETRIED: Final = ("40001", "40P01", "23505")


def _sqlstate(error: DBAPIError) -> str | None:
    state = getattr(error.orig, "sqlstate", None)
    return state if isinstance(state, str) else None


def is_worth_retrying(error: DBAPIError) -> bool:
    """Return whether the transaction may succeed, or fail clearly, when it is run again."""
    return _sqlstate(error) in _RETRIED


def explain_fault(error: DBAPIError, shown_url: str) -> RegistryError | None:
    """Return what to tell about a database error; ``None`` for one that is our own mistake.

    Args:
        shown_url: The database, without its password.
    """
    code = _code(error)
    if code == "concurrent_change":
        return Conflict(
            code, "somebody else changed the same thing just now", hint="look again and retry"
        )
    if code is None:
        return None
    problem, hint = _TEXTS[code]
    return StoreError(code, f"registry database {shown_url} {problem}", hint=hint)


def _code(error: DBAPIError) -> str | None:
    if isinstance(error.orig, sqlite3.Error):
        name = getattr(error.orig, "sqlite_errorname", "")
        if name.startswith("SQLITE_CONSTRAINT"):
            return "concurrent_change"
        found = next((code for prefix, code in _SQLITE if name.startswith(prefix)), None)
        if found is None and "unable to open" in str(error.orig):
            return "database_unreachable"
        return found
    state = _sqlstate(error)
    if state in _RETRIED:
        return "concurrent_change"
    if state is None:
        # psycopg has no SQLSTATE for a connection that never came up or broke.
        return "database_unreachable"
    return next((code for prefix, code in _POSTGRES if state.startswith(prefix)), None)
