"""Statements on the tables of sessions, panels, calls, receipts and jobs.

Each function runs inside a transaction of the store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from .encoding import decode, encode, encode_bounded, encode_content
from .errors import FAILURES, HistoryError
from .records import CallRecord, JobRecord, PanelRevision, Receipt, SessionRecord

__all__ = [
    "KEPT_REVISIONS",
    "begin_call",
    "begin_session",
    "delete_session",
    "end_call",
    "end_session",
    "put_job",
    "put_panels",
    "put_receipts",
    "read_call",
    "read_calls",
    "read_jobs",
    "read_panels",
    "read_receipts",
    "read_revisions",
    "read_session",
    "read_sessions",
]

KEPT_REVISIONS: Final = 100
"""Revisions kept of one panel; older ones are removed."""

_SESSION: Final = "id, state, started_at, agent, principal, cwd, ended_at, reason"
_CALL: Final = (
    "no, session_id, tool_call_id, identity, name, source, arguments, state, started_at,"
    " ended_at, is_error, code, stage, content"
)
_PANEL: Final = "panel, revision, document, at, state, tool_call_id"


def _error(code: str, name: str, where: str) -> HistoryError:
    return HistoryError(code, f"{FAILURES[code]}: {name!r}", where=where)


@contextmanager
def _in_session(session_id: str, where: str) -> Iterator[None]:
    """Say which session is missing when a row of it can't be inserted."""
    try:
        yield
    except sqlite3.IntegrityError as exc:
        if exc.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            raise _error("session_unknown", session_id, where) from exc
        raise


# ---------------------------------------------------------------- sessions


def begin_session(
    db: sqlite3.Connection,
    where: str,
    host: int,
    record: SessionRecord,
    *,
    resume: bool,
    is_alive: Callable[[int], bool],
) -> SessionRecord:
    """Insert a session, or take over one whose host let go of it."""
    row = db.execute(
        "SELECT state, host FROM sessions WHERE id = ?", (record.session_id,)
    ).fetchone()
    if row is None:
        db.execute(
            "INSERT INTO sessions (id, host, state, started_at, agent, principal, cwd)"
            " VALUES (?, ?, 'open', ?, ?, ?, ?)",
            (
                record.session_id,
                host,
                record.started_at,
                record.agent,
                record.principal,
                record.cwd,
            ),
        )
        return record
    state, holder = row
    if state == "open" and (holder == host or is_alive(holder)):
        raise _error("session_in_use", record.session_id, where)
    if not resume:
        raise _error("session_exists", record.session_id, where)
    db.execute(
        "UPDATE sessions SET state = 'open', host = ?, ended_at = NULL, reason = NULL WHERE id = ?",
        (host, record.session_id),
    )
    found = read_session(db, record.session_id)
    if found is None:
        raise _error("session_unknown", record.session_id, where)
    return found


def end_session(db: sqlite3.Connection, where: str, session_id: str, now: int, why: str) -> None:
    """Mark a session as ended; ending it twice changes nothing."""
    if read_session(db, session_id) is None:
        raise _error("session_unknown", session_id, where)
    db.execute(
        "UPDATE sessions SET state = 'ended', ended_at = ?, reason = ?"
        " WHERE id = ? AND state = 'open'",
        (now, why, session_id),
    )


def delete_session(db: sqlite3.Connection, session_id: str) -> bool:
    """Remove a session and everything of it; whether there was one."""
    return db.execute("DELETE FROM sessions WHERE id = ?", (session_id,)).rowcount > 0


def read_session(db: sqlite3.Connection, session_id: str) -> SessionRecord | None:
    """Return one session."""
    row = db.execute(f"SELECT {_SESSION} FROM sessions WHERE id = ?", (session_id,)).fetchone()  # noqa: S608
    return SessionRecord(*row) if row else None


def read_sessions(db: sqlite3.Connection, limit: int) -> tuple[SessionRecord, ...]:
    """Return sessions, the newest first."""
    rows = db.execute(f"SELECT {_SESSION} FROM sessions ORDER BY no DESC LIMIT ?", (limit,))  # noqa: S608
    return tuple(SessionRecord(*row) for row in rows)


# ---------------------------------------------------------------- panels


def put_panels(
    db: sqlite3.Connection,
    where: str,
    session_id: str,
    tool_call_id: str | None,
    revisions: Sequence[PanelRevision],
) -> None:
    """Insert revisions, and remove what is too old of those panels."""
    for item in revisions:
        document = None if item.document is None else encode(item.document)
        call = item.tool_call_id or tool_call_id
        values = (session_id, item.panel, item.revision, document, item.at, item.state, call)
        try:
            with _in_session(session_id, where):
                db.execute(
                    f"INSERT INTO panels (session_id, {_PANEL}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                    values,
                )
        except sqlite3.IntegrityError as exc:
            name = f"{item.panel} revision {item.revision}"
            raise _error("revision_exists", name, where) from exc
        db.execute(
            "DELETE FROM panels WHERE session_id = ? AND panel = ? AND revision <= ?",
            (session_id, item.panel, item.revision - KEPT_REVISIONS),
        )


def _panel(row: Sequence[Any], where: str) -> PanelRevision:
    panel, revision, document, at, state, call = row
    return PanelRevision(panel, revision, decode(document, where), at, state, call)


def read_panels(db: sqlite3.Connection, where: str, session_id: str) -> tuple[PanelRevision, ...]:
    """Return the newest revision of each panel."""
    rows = db.execute(
        f"SELECT {_PANEL} FROM panels AS p WHERE session_id = ? AND revision ="  # noqa: S608
        " (SELECT max(revision) FROM panels WHERE session_id = p.session_id AND panel = p.panel)"
        " ORDER BY panel",
        (session_id,),
    )
    return tuple(_panel(row, where) for row in rows)


def read_revisions(
    db: sqlite3.Connection, where: str, session_id: str, panel: str, limit: int
) -> tuple[PanelRevision, ...]:
    """Return revisions of one panel, the newest first."""
    rows = db.execute(
        f"SELECT {_PANEL} FROM panels WHERE session_id = ? AND panel = ?"  # noqa: S608
        " ORDER BY revision DESC LIMIT ?",
        (session_id, panel, limit),
    )
    return tuple(_panel(row, where) for row in rows)


# ---------------------------------------------------------------- calls


def begin_call(db: sqlite3.Connection, where: str, host: int, record: CallRecord) -> int:
    """Insert a call that runs; returns its number."""
    with _in_session(record.session_id, where):
        cursor = db.execute(
            "INSERT INTO calls (session_id, tool_call_id, host, identity, name, source, arguments,"
            " state, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, 'running', ?)",
            (
                record.session_id,
                record.tool_call_id,
                host,
                record.identity,
                record.name,
                record.source,
                encode_bounded(record.arguments),
                record.started_at,
            ),
        )
    return cursor.lastrowid or 0


def end_call(
    db: sqlite3.Connection,
    where: str,
    number: int,
    now: int,
    result: tuple[Sequence[Any], bool, str | None, str | None],
    panels: Sequence[PanelRevision],
    receipts: Sequence[Receipt],
) -> None:
    """Store the result of a call with its panels and receipts: all or nothing."""
    row = db.execute(
        "SELECT session_id, tool_call_id FROM calls WHERE no = ?", (number,)
    ).fetchone()
    if row is None:
        raise _error("session_unknown", f"call {number}", where)
    content, is_error, code, stage = result
    db.execute(
        "UPDATE calls SET state = 'done', ended_at = ?, content = ?, is_error = ?, code = ?,"
        " stage = ? WHERE no = ?",
        (now, encode_content(content), is_error, code, stage, number),
    )
    put_panels(db, where, row[0], row[1], panels)
    put_receipts(db, where, row[0], row[1], receipts)


def _call(row: Sequence[Any], where: str) -> CallRecord:
    values = list(row)
    values[6] = decode(values[6], where)
    values[10] = None if values[10] is None else bool(values[10])
    values[13] = decode(values[13], where)
    return CallRecord(*values)


def read_calls(
    db: sqlite3.Connection, where: str, session_id: str, limit: int
) -> tuple[CallRecord, ...]:
    """Return the last calls of a session, the newest first."""
    rows = db.execute(
        f"SELECT {_CALL} FROM calls WHERE session_id = ? ORDER BY no DESC LIMIT ?",  # noqa: S608
        (session_id, limit),
    )
    return tuple(_call(row, where) for row in rows)


def read_call(
    db: sqlite3.Connection, where: str, session_id: str, tool_call_id: str
) -> CallRecord | None:
    """Return the newest call of an ID."""
    row = db.execute(
        f"SELECT {_CALL} FROM calls WHERE session_id = ? AND tool_call_id = ?"  # noqa: S608
        " ORDER BY no DESC LIMIT 1",
        (session_id, tool_call_id),
    ).fetchone()
    return _call(row, where) if row else None


# ---------------------------------------------------------------- receipts


def put_receipts(
    db: sqlite3.Connection,
    where: str,
    session_id: str,
    tool_call_id: str | None,
    receipts: Sequence[Receipt],
) -> None:
    """Insert receipts."""
    for item in receipts:
        call = item.tool_call_id or tool_call_id
        with _in_session(session_id, where):
            db.execute(
                "INSERT INTO receipts (session_id, tool_call_id, kind, body, at)"
                " VALUES (?, ?, ?, ?, ?)",
                (session_id, call, item.kind, encode_bounded(item.body), item.at),
            )


def read_receipts(
    db: sqlite3.Connection,
    where: str,
    session_id: str,
    tool_call_id: str | None,
    kind: str | None,
    limit: int,
) -> tuple[Receipt, ...]:
    """Return the last receipts, the oldest first."""
    rows = db.execute(
        "SELECT kind, body, at, tool_call_id FROM receipts WHERE session_id = ?1"
        " AND (?2 IS NULL OR tool_call_id = ?2) AND (?3 IS NULL OR kind = ?3)"
        " ORDER BY no DESC LIMIT ?4",
        (session_id, tool_call_id, kind, limit),
    ).fetchall()
    return tuple(
        Receipt(found, decode(body, where), at, call) for found, body, at, call in reversed(rows)
    )


# ---------------------------------------------------------------- jobs


def put_job(db: sqlite3.Connection, where: str, host: int, session_id: str, job: JobRecord) -> None:
    """Insert a background process, or change what is known of it."""
    with _in_session(session_id, where):
        db.execute(
            "INSERT INTO jobs (session_id, job_id, host, state, label, command, started_at,"
            " ended_at, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (session_id, job_id) DO UPDATE SET host = excluded.host,"
            " state = excluded.state, label = excluded.label, command = excluded.command,"
            " started_at = excluded.started_at, ended_at = excluded.ended_at,"
            " detail = excluded.detail",
            (
                session_id,
                job.job_id,
                host,
                str(job.state),
                job.label,
                job.command,
                job.started_at,
                job.ended_at,
                encode_bounded(job.detail),
            ),
        )


def read_jobs(db: sqlite3.Connection, where: str, session_id: str) -> tuple[JobRecord, ...]:
    """Return the background processes of a session in the order of their start."""
    rows = db.execute(
        "SELECT job_id, state, command, started_at, label, ended_at, detail FROM jobs"
        " WHERE session_id = ? ORDER BY started_at, job_id",
        (session_id,),
    )
    return tuple(
        JobRecord(job_id, state, command, started_at, label, ended_at, decode(detail, where))
        for job_id, state, command, started_at, label, ended_at, detail in rows
    )
