"""A history in memory forgets the oldest of what is over; one in a file keeps everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raw_exec.history import (
    History,
    InteractionRecord,
    JobRecord,
    Receipt,
    memory,
    open_history,
)

LOOK = 10
KEPT = 7


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the bounds small."""
    monkeypatch.setattr(memory, "KEPT_CALLS", KEPT)
    monkeypatch.setattr(memory, "KEPT_ROWS", 3)
    monkeypatch.setattr("raw_exec.history.history.LOOK_EVERY", LOOK)


async def _call(history: History, session: str, name: str, **result: Any) -> None:
    number = await history.begin_call(
        session, name, identity="agent/t", name="t", arguments={}, source="model"
    )
    receipt = Receipt("hook", {"of": name}, 1, name)
    options = {"content": [], "is_error": False, **result}
    await history.end_call(number, receipts=[receipt], **options)


async def _names(history: History, session: str) -> list[str]:
    return [call.tool_call_id for call in reversed(await history.calls(session))]


@pytest.mark.usefixtures("bounds")
@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_the_oldest_calls_and_receipts_are_forgotten(kind: str, tmp_path: Path) -> None:
    """Of all sessions together, one that still runs excepted."""
    async with open_history(None if kind == "memory" else tmp_path / "h.db") as history:
        for session in ("a", "b"):
            await history.begin_session(session)
        running = await history.begin_call(
            "a", "runs", identity="agent/t", name="t", arguments={}, source="model"
        )
        for number in range(2, 2 * LOOK + 1):
            await _call(history, "ab"[number % 2], f"c{number}")
        kept = [*(await _names(history, "a")), *(await _names(history, "b"))]
        receipts = [*(await history.receipts("a")), *(await history.receipts("b"))]
        await history.end_call(running, content=[], is_error=False)
    if kind == "file":
        assert (len(kept), len(receipts)) == (2 * LOOK, 2 * LOOK - 1)
    else:
        assert set(kept) == {"runs", *(f"c{n}" for n in range(2 * LOOK - KEPT + 1, 2 * LOOK + 1))}
        assert len(receipts) == 3


@pytest.mark.usefixtures("bounds")
@pytest.mark.parametrize("letter", ["x", "\N{HIRAGANA LETTER A}"])
async def test_large_results_are_forgotten_by_their_size(
    monkeypatch: pytest.MonkeyPatch, letter: str
) -> None:
    """Few calls can hold much; bytes are counted, not characters."""
    monkeypatch.setattr(memory, "KEPT_BYTES", 5000)
    async with open_history() as history:
        await history.begin_session("a")
        for number in range(1, LOOK + 1):
            text = {"type": "text", "text": letter * (2000 // len(letter.encode()))}
            await _call(history, "a", f"c{number}", content=[text])
        assert await _names(history, "a") == [f"c{LOOK - 1}", f"c{LOOK}"]


@pytest.mark.usefixtures("bounds")
async def test_ended_sessions_are_forgotten_and_open_ones_are_not() -> None:
    """A service that opens one for every client."""
    async with open_history() as history:
        await history.begin_session("open")
        for number in range(9):
            await history.begin_session(f"s{number}")
            await history.end_session(f"s{number}")
        for number in range(LOOK):
            await _call(history, "open", f"c{number}")
        found = [record.session_id for record in await history.sessions()]
    assert found == ["s8", "s7", "s6", "open"]


@pytest.mark.usefixtures("bounds")
async def test_settled_questions_and_ended_processes_are_forgotten_and_live_ones_are_not() -> None:
    """In a session that stays open for months."""
    async with open_history() as history:
        await history.begin_session("a")
        for number in range(9):
            ended = None if number == 0 else number
            state = "running" if ended is None else "exited"
            await history.put_job("a", JobRecord(f"j{number}", state, "ls", 1, ended_at=ended))
            asked = InteractionRecord(
                f"q{number}", "a", history.host_id, "c", "agent/t", "p", {}, 100,
                "pending" if ended is None else "answered", 1, number, 9, ended,
            )  # fmt: skip
            await history.add_interaction(asked)
        for number in range(LOOK):
            await _call(history, "a", f"c{number}")
        jobs = [job.job_id for job in await history.jobs("a")]
        questions = [one.request_id for one in await history.interactions("a")]
    assert jobs == ["j0", "j6", "j7", "j8"]
    assert questions == ["q0", "q6", "q7", "q8"]
