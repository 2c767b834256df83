"""Statements on the tables of questions and of what was submitted to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from .encoding import decode, encode
from .errors import FAILURES, HistoryError
from .records import InteractionChange, InteractionRecord, StoredSubmission

__all__ = [
    "Decide",
    "change_interaction",
    "put_interaction",
    "read_interaction",
    "read_interactions",
]

Decide: TypeAlias = Callable[
    [InteractionRecord | None, "StoredSubmission | None"], InteractionChange
]

_COLUMNS: Final = (
    "id, session_id, host, tool_call_id, owner, panel, document, budget_bytes, state, revision,"
    " created_at, expires_at, settled_at, answers, reason"
)


def put_interaction(db: sqlite3.Connection, where: str, record: InteractionRecord) -> None:
    """Insert a question."""
    try:
        marks = ", ".join("?" * 15)
        db.execute(f"INSERT INTO interactions ({_COLUMNS}) VALUES ({marks})", _values(record))  # noqa: S608
    except sqlite3.IntegrityError as exc:
        if exc.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            raise
        message = f"{FAILURES['session_unknown']}: {record.session_id!r}"
        raise HistoryError("session_unknown", message, where=where) from exc


def read_interaction(
    db: sqlite3.Connection, where: str, request_id: str
) -> InteractionRecord | None:
    """Return one question."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM interactions WHERE id = ?",  # noqa: S608
        (request_id,),
    ).fetchone()
    return _record(row, where) if row else None


def read_interactions(
    db: sqlite3.Connection, where: str, session_id: str, state: str | None
) -> tuple[InteractionRecord, ...]:
    """Return the questions of a session in the order in which they were asked."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM interactions WHERE session_id = ?1"  # noqa: S608
        " AND (?2 IS NULL OR state = ?2) ORDER BY created_at, rowid",
        (session_id, state),
    )
    return tuple(_record(row, where) for row in rows)


def change_interaction(
    db: sqlite3.Connection, where: str, request_id: str, key: str | None, decide: Decide
) -> Any:
    """Let ``decide`` see a question and what was submitted under a key, and store its change."""
    record = read_interaction(db, where, request_id)
    stored = None if key is None else _read_submission(db, where, request_id, key)
    change = decide(record, stored)
    if change.record is not None:
        new = change.record
        db.execute(
            "UPDATE interactions SET state = ?, revision = ?, settled_at = ?, answers = ?,"
            " reason = ? WHERE id = ?",
            (
                new.state,
                new.revision,
                new.settled_at,
                None if new.answers is None else encode(new.answers),
                new.reason,
                request_id,
            ),
        )
    if change.submission is not None:
        sent = change.submission
        db.execute(
            "INSERT INTO submissions (request_id, key, digest, acknowledgement)"
            " VALUES (?, ?, ?, ?)",
            (request_id, sent.key, sent.digest, encode(sent.acknowledgement)),
        )
    return change.outcome


def _read_submission(
    db: sqlite3.Connection, where: str, request_id: str, key: str
) -> StoredSubmission | None:
    row = db.execute(
        "SELECT key, digest, acknowledgement FROM submissions WHERE request_id = ? AND key = ?",
        (request_id, key),
    ).fetchone()
    return StoredSubmission(row[0], row[1], decode(row[2], where)) if row else None


def _values(record: InteractionRecord) -> tuple[Any, ...]:
    return (
        record.request_id,
        record.session_id,
        record.host,
        record.tool_call_id,
        record.owner,
        record.panel,
        encode(record.document),
        record.budget_bytes,
        record.state,
        record.revision,
        record.created_at,
        record.expires_at,
        record.settled_at,
        None if record.answers is None else encode(record.answers),
        record.reason,
    )


def _record(row: Sequence[Any], where: str) -> InteractionRecord:
    values = list(row)
    values[6] = decode(values[6], where)
    values[13] = decode(values[13], where)
    return InteractionRecord(*values)
