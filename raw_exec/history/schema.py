"""The tables of a history file, and the step from each version to the next.

``user_version`` of the file counts the steps that were applied. A file of a newer version is
refused: what it means is not known here. A file of another program is refused by its
``application_id``, before anything is written to it.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from .errors import FAILURES, HistoryError

__all__ = ["APPLICATION_ID", "VERSION", "prepare"]

APPLICATION_ID: Final = 0x52415748

_FIRST: Final = (
    """CREATE TABLE hosts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        pid INTEGER NOT NULL,
        started_at INTEGER NOT NULL)""",
    """CREATE TABLE sessions (
        no INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        host INTEGER NOT NULL,
        state TEXT NOT NULL,
        agent TEXT, principal TEXT, cwd TEXT,
        started_at INTEGER NOT NULL,
        ended_at INTEGER,
        reason TEXT)""",
    """CREATE TABLE panels (
        session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
        panel TEXT NOT NULL,
        revision INTEGER NOT NULL,
        tool_call_id TEXT,
        state TEXT NOT NULL,
        document TEXT,
        at INTEGER NOT NULL,
        PRIMARY KEY (session_id, panel, revision))""",
    """CREATE TABLE interactions (
        id TEXT PRIMARY KEY NOT NULL,
        session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
        host INTEGER NOT NULL,
        tool_call_id TEXT NOT NULL,
        owner TEXT NOT NULL,
        panel TEXT NOT NULL,
        document TEXT NOT NULL,
        budget_bytes INTEGER NOT NULL,
        state TEXT NOT NULL,
        revision INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        settled_at INTEGER,
        answers TEXT,
        reason TEXT)""",
    "CREATE INDEX interactions_of_session ON interactions (session_id, created_at)",
    """CREATE TABLE submissions (
        request_id TEXT NOT NULL REFERENCES interactions(id) ON DELETE CASCADE,
        key TEXT NOT NULL,
        digest TEXT NOT NULL,
        acknowledgement TEXT NOT NULL,
        PRIMARY KEY (request_id, key))""",
    """CREATE TABLE receipts (
        no INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
        tool_call_id TEXT,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        at INTEGER NOT NULL)""",
    "CREATE INDEX receipts_of_session ON receipts (session_id, no)",
    """CREATE TABLE jobs (
        session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
        job_id TEXT NOT NULL,
        host INTEGER NOT NULL,
        state TEXT NOT NULL,
        label TEXT,
        command TEXT NOT NULL,
        started_at INTEGER NOT NULL,
        ended_at INTEGER,
        detail TEXT NOT NULL,
        PRIMARY KEY (session_id, job_id))""",
    """CREATE TABLE calls (
        no INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
        tool_call_id TEXT NOT NULL,
        host INTEGER NOT NULL,
        identity TEXT NOT NULL,
        name TEXT NOT NULL,
        source TEXT NOT NULL,
        arguments TEXT NOT NULL,
        state TEXT NOT NULL,
        started_at INTEGER NOT NULL,
        ended_at INTEGER,
        is_error INTEGER,
        code TEXT, stage TEXT,
        content TEXT)""",
    "CREATE INDEX calls_of_session ON calls (session_id, no)",
)

_STEPS: Final = (_FIRST,)
VERSION: Final = len(_STEPS)


def prepare(db: sqlite3.Connection, where: str) -> None:
    """Check whose file it is, and bring it to this version, in the caller's transaction.

    Raises:
        HistoryError: ``history_foreign`` or ``history_version``.
    """
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (application or version or tables):
        hint = "choose another path for the history"
        raise HistoryError("history_foreign", FAILURES["history_foreign"], where=where, hint=hint)
    if version > VERSION:
        message = f"the file has version {version}; this program knows versions up to {VERSION}"
        hint = "use the newer version of this program, or another path"
        raise HistoryError("history_version", message, where=where, hint=hint)
    for step in _STEPS[version:]:
        for statement in step:
            db.execute(statement)
    if version < VERSION:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {VERSION}")
