"""Settle what a host left behind: it can neither get an answer nor a result any more."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from .records import LIVE_JOB_STATES, Swept

__all__ = ["sweep"]

_REASON = "the host that asked ended before an answer"


def sweep(db: sqlite3.Connection, own: int, now: int, is_alive: Callable[[int], bool]) -> Swept:
    """Settle the questions, jobs, calls and sessions of dead hosts, in the caller's transaction.

    Args:
        own: Number of the host that sweeps; it is alive.
        now: Epoch milliseconds.
        is_alive: Whether the host of a number lives.
    """
    hosts = [number for (number,) in db.execute("SELECT id FROM hosts WHERE id <> ?", (own,))]
    interrupted: list[str] = []
    lost: list[tuple[str, str]] = []
    calls: list[tuple[str, str]] = []
    sessions: list[str] = []
    for host in hosts:
        if is_alive(host):
            continue
        interrupted += _questions(db, host, now)
        lost += _jobs(db, host, now)
        calls += _calls(db, host, now)
        sessions += _sessions(db, host, now)
        db.execute("DELETE FROM hosts WHERE id = ?", (host,))
    return Swept(tuple(interrupted), tuple(lost), tuple(calls), tuple(sessions))


def _questions(db: sqlite3.Connection, host: int, now: int) -> list[str]:
    where = "host = ? AND state = 'pending'"
    rows = db.execute(f"SELECT id FROM interactions WHERE {where} ORDER BY id", (host,))  # noqa: S608
    ids = [request_id for (request_id,) in rows]
    db.execute(
        "UPDATE interactions SET state = 'interrupted', revision = revision + 1,"  # noqa: S608
        f" settled_at = ?, reason = ? WHERE {where}",
        (now, _REASON, host),
    )
    return ids


def _jobs(db: sqlite3.Connection, host: int, now: int) -> list[tuple[str, str]]:
    marks = ",".join("?" * len(LIVE_JOB_STATES))
    where = f"host = ? AND state IN ({marks})"
    rows = db.execute(
        f"SELECT session_id, job_id FROM jobs WHERE {where} ORDER BY session_id, job_id",  # noqa: S608
        (host, *LIVE_JOB_STATES),
    ).fetchall()
    db.execute(
        f"UPDATE jobs SET state = 'lost', ended_at = ? WHERE {where}",  # noqa: S608
        (now, host, *LIVE_JOB_STATES),
    )
    return rows


def _calls(db: sqlite3.Connection, host: int, now: int) -> list[tuple[str, str]]:
    where = "host = ? AND state = 'running'"
    rows = db.execute(
        f"SELECT session_id, tool_call_id FROM calls WHERE {where} ORDER BY no",  # noqa: S608
        (host,),
    ).fetchall()
    db.execute(
        f"UPDATE calls SET state = 'interrupted', ended_at = ? WHERE {where}",  # noqa: S608
        (now, host),
    )
    return rows


def _sessions(db: sqlite3.Connection, host: int, now: int) -> list[str]:
    where = "host = ? AND state = 'open'"
    rows = db.execute(f"SELECT id FROM sessions WHERE {where} ORDER BY no", (host,))  # noqa: S608
    ids = [session_id for (session_id,) in rows]
    db.execute(
        "UPDATE sessions SET state = 'interrupted', ended_at = ?,"  # noqa: S608
        f" reason = 'its host ended' WHERE {where}",
        (now, host),
    )
    return ids
