"""What happened in sessions, in a SQLite file or in memory."""

from __future__ import annotations

from .errors import FAILURES, HistoryError
from .history import History, epoch_ms, open_history
from .records import (
    CallRecord,
    InteractionChange,
    InteractionRecord,
    JobRecord,
    PanelRevision,
    Receipt,
    SessionRecord,
    StoredSubmission,
    Swept,
)

__all__ = [
    "FAILURES",
    "CallRecord",
    "History",
    "HistoryError",
    "InteractionChange",
    "InteractionRecord",
    "JobRecord",
    "PanelRevision",
    "Receipt",
    "SessionRecord",
    "StoredSubmission",
    "Swept",
    "epoch_ms",
    "open_history",
]
