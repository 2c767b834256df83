"""A history in memory forgets the oldest of what is over; one in a file keeps everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raw_exec.history import History, Receipt, memory, open_history

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
async def test_large_results_are_forgotten_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few calls can hold much."""
    monkeypatch.setattr(memory, "KEPT_BYTES", 5000)
    async with open_history() as history:
        await history.begin_session("a")
        for number in range(1, LOOK + 1):
            text = {"type": "text", "text": "x" * 2000}
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
