"""Keeps the background processes of a session in its history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from ..history import History, JobRecord, epoch_ms
from ..jobs.job import Job

__all__ = ["JobRecorder", "open_recorder"]


class JobRecorder:
    """Stores what becomes of a session's background processes, in the order in which it does."""

    def __init__(self, history: History, session: str) -> None:
        self._history = history
        self._session = session
        self._waiting: dict[str, JobRecord] = {}
        self._started: dict[str, int] = {}
        self._wake = trio.Event()

    def note(self, job: Job) -> None:
        """Take a job's present state; an older one that is not stored yet is left out."""
        now = epoch_ms()
        started = self._started.setdefault(job.id, now)
        shown = job.as_dict()
        self._waiting[job.id] = JobRecord(
            job_id=job.id,
            state=str(job.state),
            command=shown["command"],
            started_at=started,
            label=job.label,
            ended_at=now if job.finished else None,
            detail={key: shown[key] for key in ("exit_code", "signal", "output_bytes")},
        )
        if job.finished:
            del self._started[job.id]
        self._wake.set()

    async def run(self) -> None:
        """Store states as they come, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            await self.flush()

    async def flush(self) -> None:
        """Store what waits."""
        while self._waiting:
            job_id = next(iter(self._waiting))
            # Race: what was taken out and is not stored yet would be lost with a cancellation.
            with trio.CancelScope(shield=True):
                await self._history.put_job(self._session, self._waiting.pop(job_id))


@asynccontextmanager
async def open_recorder(history: History, session: str) -> AsyncIterator[JobRecorder]:
    recorder = JobRecorder(history, session)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        try:
            yield recorder
        finally:
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await recorder.flush()
