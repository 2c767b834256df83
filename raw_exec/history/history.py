"""The history of sessions as trio code: one thread works on it at a time.

A write that has begun is never abandoned: cancelling its caller waits for the commit. Cancelled
before that, nothing is written.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import trio

from . import questions, rows
from .memory import LOOK_EVERY, forget_oldest
from .records import (
    CallRecord,
    InteractionRecord,
    JobRecord,
    PanelRevision,
    Receipt,
    SessionRecord,
    Swept,
)
from .store import Store

__all__ = ["History", "epoch_ms", "open_history"]

_T = TypeVar("_T")
_DEFAULT_BUSY_MS = 5000


def epoch_ms() -> int:
    """Return the time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


@asynccontextmanager
async def open_history(
    path: str | os.PathLike[str] | None = None,
    *,
    clock: Callable[[], int] = epoch_ms,
    busy_ms: int = _DEFAULT_BUSY_MS,
) -> AsyncIterator[History]:
    """Open a history; questions and jobs of hosts that died on the file are settled first.

    Args:
        path: The SQLite file, made with mode 0600 if missing; ``None`` keeps it in memory,
            where the oldest of what is over is forgotten (see ``memory``).
        clock: Epoch milliseconds.
        busy_ms: How long to wait for another program that writes to the file.

    Raises:
        HistoryError: It can't be used. Nothing was changed.
    """
    limiter = trio.CapacityLimiter(1)
    file = None if path is None else Path.cwd() / os.fspath(path)
    # Not abandoned when cancelled: an open that nobody waits for would keep the file.
    store = await trio.to_thread.run_sync(Store, file, clock(), busy_ms, limiter=limiter)
    history = History(store, limiter, clock, file)
    try:
        yield history
    finally:
        with trio.CancelScope(shield=True):
            await history.aclose()


class History:
    """An open history; made by ``open_history``. Times are epoch milliseconds.

    Every method that writes is one transaction, and raises ``HistoryError`` when nothing
    of it was stored.
    """

    def __init__(
        self,
        store: Store,
        limiter: trio.CapacityLimiter,
        clock: Callable[[], int],
        path: Path | None,
    ) -> None:
        self.path = path
        self.host_id = store.host
        self.found = store.found
        """What hosts that died before this one opened the file had left behind."""
        self._store = store
        self._limiter = limiter
        self._clock = clock
        self._where = store.where
        self._lock = trio.Lock()

    async def _write(
        self, work: Callable[[sqlite3.Connection], _T], *, durable: bool = False
    ) -> _T:
        async with self._lock:
            return await trio.to_thread.run_sync(
                lambda: self._store.write(work, durable=durable), limiter=self._limiter
            )

    async def _read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        async with self._lock:
            return await trio.to_thread.run_sync(self._store.read, work, limiter=self._limiter)

    async def sweep(self) -> Swept:
        """Settle what hosts left behind that died since this one opened the file."""
        async with self._lock:
            return await trio.to_thread.run_sync(
                self._store.sweep, self._clock(), limiter=self._limiter
            )

    async def aclose(self) -> None:
        """Settle what is still open of this host, and let go of the file. Twice is fine."""
        async with self._lock:
            await trio.to_thread.run_sync(self._store.close, self._clock(), limiter=self._limiter)

    # ------------------------------------------------------------ sessions

    async def begin_session(
        self,
        session_id: str,
        *,
        agent: str | None = None,
        principal: str | None = None,
        cwd: str | None = None,
        resume: bool = False,
    ) -> SessionRecord:
        """Begin a session.

        Args:
            resume: Take up a session that ended, or whose host died, under the same ID.

        Raises:
            HistoryError: ``session_exists``, or ``session_in_use`` by a host that runs.
        """
        record = SessionRecord(session_id, "open", self._clock(), agent, principal, cwd)
        return await self._write(
            lambda db: rows.begin_session(
                db,
                self._where,
                self.host_id,
                record,
                resume=resume,
                is_alive=self._store.is_alive,
            )
        )

    async def end_session(self, session_id: str, reason: str = "ended") -> None:
        """End a session; ending it twice changes nothing."""
        now = self._clock()
        await self._write(lambda db: rows.end_session(db, self._where, session_id, now, reason))

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session with everything of it; whether there was one."""
        return await self._write(lambda db: rows.delete_session(db, session_id))

    async def session(self, session_id: str) -> SessionRecord | None:
        """Return one session."""
        return await self._read(lambda db: rows.read_session(db, session_id))

    async def sessions(self, limit: int = 100) -> tuple[SessionRecord, ...]:
        """Return sessions, the newest first."""
        return await self._read(lambda db: rows.read_sessions(db, limit))

    # ------------------------------------------------------------ panels

    async def commit_panels(
        self, session_id: str, tool_call_id: str | None, revisions: Sequence[PanelRevision]
    ) -> None:
        """Store revisions; a power cut after the return loses none of them."""
        await self._write(
            lambda db: rows.put_panels(db, self._where, session_id, tool_call_id, revisions),
            durable=True,
        )

    async def panels(self, session_id: str) -> tuple[PanelRevision, ...]:
        """Return the newest revision of each panel of a session."""
        return await self._read(lambda db: rows.read_panels(db, self._where, session_id))

    async def panel_revisions(
        self, session_id: str, panel: str, limit: int = 50
    ) -> tuple[PanelRevision, ...]:
        """Return revisions of one panel, the newest first; the last 100 are kept."""
        return await self._read(
            lambda db: rows.read_revisions(db, self._where, session_id, panel, limit)
        )

    # ------------------------------------------------------------ calls and receipts

    async def begin_call(
        self,
        session_id: str,
        tool_call_id: str,
        *,
        identity: str,
        name: str,
        arguments: Any,
        source: str = "model",
    ) -> int:
        """Store that a call runs, and return its number in the history."""
        record = CallRecord(
            0,
            session_id,
            tool_call_id,
            identity,
            name,
            source,
            arguments,
            "running",
            self._clock(),
        )
        return await self._write(lambda db: rows.begin_call(db, self._where, self.host_id, record))

    async def end_call(
        self,
        number: int,
        *,
        content: Sequence[Any],
        is_error: bool,
        code: str | None = None,
        stage: str | None = None,
        panels: Sequence[PanelRevision] = (),
        receipts: Sequence[Receipt] = (),
    ) -> None:
        """Store a call's result, the panel revisions it commits, and its receipts: all or nothing.

        Args:
            number: From ``begin_call``.
            content: Result blocks; image data is not stored, nor content over 1 MiB.
        """
        now = self._clock()
        result = (content, is_error, code, stage)

        def store(db: sqlite3.Connection) -> None:
            rows.end_call(db, self._where, number, now, result, panels, receipts)
            if self.path is None and number % LOOK_EVERY == 0:
                forget_oldest(db)

        await self._write(store, durable=bool(panels))

    async def calls(self, session_id: str, limit: int = 100) -> tuple[CallRecord, ...]:
        """Return the last calls of a session, the newest first."""
        return await self._read(lambda db: rows.read_calls(db, self._where, session_id, limit))

    async def call(self, session_id: str, tool_call_id: str) -> CallRecord | None:
        """Return the newest call of an ID."""
        return await self._read(
            lambda db: rows.read_call(db, self._where, session_id, tool_call_id)
        )

    async def add_receipts(
        self, session_id: str, tool_call_id: str | None, receipts: Sequence[Receipt]
    ) -> None:
        """Store receipts that belong to no result, for example of session events."""
        await self._write(
            lambda db: rows.put_receipts(db, self._where, session_id, tool_call_id, receipts)
        )

    async def receipts(
        self,
        session_id: str,
        *,
        tool_call_id: str | None = None,
        kind: str | None = None,
        limit: int = 200,
    ) -> tuple[Receipt, ...]:
        """Return the last receipts, the oldest first."""
        return await self._read(
            lambda db: rows.read_receipts(db, self._where, session_id, tool_call_id, kind, limit)
        )

    # ------------------------------------------------------------ jobs

    async def put_job(self, session_id: str, job: JobRecord) -> None:
        """Store a background process, or what has changed of it."""
        await self._write(lambda db: rows.put_job(db, self._where, self.host_id, session_id, job))

    async def jobs(self, session_id: str) -> tuple[JobRecord, ...]:
        """Return the background processes of a session in the order of their start."""
        return await self._read(lambda db: rows.read_jobs(db, self._where, session_id))

    # ------------------------------------------------------------ questions

    async def add_interaction(self, record: InteractionRecord) -> None:
        """Store a question, before it is shown to anybody."""
        await self._write(
            lambda db: questions.put_interaction(db, self._where, record), durable=True
        )

    async def interaction(self, request_id: str) -> InteractionRecord | None:
        """Return one question."""
        return await self._read(lambda db: questions.read_interaction(db, self._where, request_id))

    async def interactions(
        self, session_id: str, state: str | None = None
    ) -> tuple[InteractionRecord, ...]:
        """Return the questions of a session in the order in which they were asked."""
        return await self._read(
            lambda db: questions.read_interactions(db, self._where, session_id, state)
        )

    async def change_interaction(
        self, request_id: str, key: str | None, decide: questions.Decide
    ) -> Any:
        """Decide on a question and store the change in one transaction.

        Args:
            key: Idempotency key, whose stored submission ``decide`` also sees.
            decide: A pure function, called in a thread with the question and the submission
                (``None`` where there is none).

        Returns:
            The ``outcome`` of its change.
        """
        return await self._write(
            lambda db: questions.change_interaction(db, self._where, request_id, key, decide),
            durable=True,
        )
