"""What a history in memory keeps: a host that lives for months must not grow with every call.

A history in a file keeps everything until a session is deleted; that is what a file is for.
"""

from __future__ import annotations

import sqlite3
from typing import Final

__all__ = ["KEPT_BYTES", "KEPT_CALLS", "KEPT_ROWS", "LOOK_EVERY", "forget_oldest"]

KEPT_CALLS: Final = 2000
"""Ended calls, of all sessions together."""
KEPT_BYTES: Final = 64 * 1024 * 1024
"""Of their arguments and results."""
KEPT_ROWS: Final = 4000
"""Ended sessions, settled questions, receipts and ended background processes, of each kind."""
LOOK_EVERY: Final = 100
"""Calls from one look to the next."""

_CALLS: Final = """\
DELETE FROM calls WHERE ended_at IS NOT NULL AND no <= (
    SELECT max(no) FROM (
        SELECT no,
            row_number() OVER newest AS place,
            sum(length(CAST(arguments AS BLOB)) + ifnull(length(CAST(content AS BLOB)), 0))
                OVER newest AS size
        FROM calls WINDOW newest AS (ORDER BY no DESC))
    WHERE place > ? OR size > ?)"""
_OLDEST: Final = (
    """DELETE FROM sessions WHERE ended_at IS NOT NULL AND no <= (
        SELECT no FROM sessions WHERE ended_at IS NOT NULL ORDER BY no DESC LIMIT 1 OFFSET ?)""",
    """DELETE FROM interactions WHERE settled_at IS NOT NULL AND rowid <= (
        SELECT rowid FROM interactions WHERE settled_at IS NOT NULL
        ORDER BY rowid DESC LIMIT 1 OFFSET ?)""",
    """DELETE FROM receipts WHERE no <= (
        SELECT no FROM receipts ORDER BY no DESC LIMIT 1 OFFSET ?)""",
    """DELETE FROM jobs WHERE ended_at IS NOT NULL AND rowid <= (
        SELECT rowid FROM jobs WHERE ended_at IS NOT NULL
        ORDER BY rowid DESC LIMIT 1 OFFSET ?)""",
)


def forget_oldest(db: sqlite3.Connection) -> None:
    """Remove the oldest of what is over, down to what is kept."""
    db.execute(_CALLS, (KEPT_CALLS, KEPT_BYTES))
    for statement in _OLDEST:
        db.execute(statement, (KEPT_ROWS,))
