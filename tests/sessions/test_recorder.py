"""What becomes of background processes reaches the history, also at the end of a session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import trio

from raw_exec.history import History, JobRecord
from raw_exec.jobs.job import Job
from raw_exec.sessions.recorder import open_recorder


class SlowHistory:
    """Stores after a while, and can be cancelled until then, as the real one can."""

    def __init__(self) -> None:
        self.stored: list[tuple[str, str]] = []
        self.began = trio.Event()

    async def put_job(self, session: str, record: JobRecord) -> None:
        self.began.set()
        await trio.lowlevel.checkpoint()
        self.stored.append((session, record.state))


def job(state: str, *, finished: bool = False) -> Job:
    shown = {"command": "c", "exit_code": None, "signal": None, "output_bytes": 0}
    fields: dict[str, Any] = {"id": "j", "state": state, "label": None, "finished": finished}
    return cast("Job", SimpleNamespace(**fields, as_dict=lambda: shown))


async def test_a_state_that_is_being_stored_when_the_session_ends_is_not_lost() -> None:
    """A job that was stopped by the end of its session must not stay "running" for ever."""
    history = SlowHistory()
    with trio.fail_after(5):
        async with open_recorder(cast("History", history), "s") as recorder:
            recorder.note(job("running"))
            await history.began.wait()
            recorder.note(job("stopped", finished=True))
    assert history.stored == [("s", "running"), ("s", "stopped")]


async def test_the_last_state_alone_is_not_lost_either() -> None:
    """The writer was woken by it and is cancelled while it stores."""
    history = SlowHistory()
    with trio.fail_after(5):
        async with open_recorder(cast("History", history), "s") as recorder:
            recorder.note(job("stopped", finished=True))
            await history.began.wait()
    assert history.stored == [("s", "stopped")]
