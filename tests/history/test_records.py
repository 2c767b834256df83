"""What is stored comes back, in a file and in memory alike."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from raw_exec.history import (
    CallRecord,
    History,
    HistoryError,
    InteractionRecord,
    JobRecord,
    PanelRevision,
    Receipt,
    SessionRecord,
    Swept,
    open_history,
)
from raw_exec.history.encoding import MAX_STORED_BYTES
from raw_exec.history.records import LIVE_JOB_STATES
from raw_exec.history.rows import KEPT_REVISIONS
from raw_exec.jobs.state import FINISHED, JobState


class Clock:
    """Epoch milliseconds that a test sets."""

    now = 1000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands."""
    return Clock()


@pytest.fixture(params=["memory", "file"])
async def history(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> AsyncIterator[History]:
    """Yield a history with one session, once per kind."""
    path = None if request.param == "memory" else tmp_path / "history.db"
    async with open_history(path, clock=clock) as opened:
        await opened.begin_session("s1", agent="main", principal="ada", cwd="/w")
        yield opened


async def test_a_new_history_has_found_nothing(history: History) -> None:
    """The pair of the tests with dead hosts."""
    assert (history.found, await history.sweep()) == (Swept(), Swept())


async def test_sessions_are_listed_with_their_state(history: History, clock: Clock) -> None:
    """The newest is first."""
    clock.now = 2000
    await history.begin_session("s2")
    clock.now = 3000
    await history.end_session("s1", "the user left")
    await history.end_session("s1", "again")
    first = SessionRecord("s1", "ended", 1000, "main", "ada", "/w", 3000, "the user left")
    assert await history.sessions() == (SessionRecord("s2", "open", 2000), first)
    assert await history.session("s1") == first
    assert await history.session("s3") is None


async def test_a_session_id_is_used_once_unless_it_is_resumed(history: History) -> None:
    """Two conversations must not end up in one."""
    with pytest.raises(HistoryError) as caught:
        await history.begin_session("s1", resume=True)
    assert caught.value.code == "session_in_use"
    await history.end_session("s1")
    with pytest.raises(HistoryError) as caught:
        await history.begin_session("s1")
    assert caught.value.code == "session_exists"
    resumed = await history.begin_session("s1", resume=True)
    assert resumed == SessionRecord("s1", "open", 1000, "main", "ada", "/w")


async def test_deleting_a_session_removes_everything_of_it(history: History) -> None:
    """What people said can be forgotten."""
    number = await history.begin_call("s1", "c1", identity="local/a", name="a", arguments={})
    await history.end_call(
        number,
        content=[],
        is_error=False,
        panels=[PanelRevision("p", 1, {}, 5)],
        receipts=[Receipt("hook", {}, 5)],
    )
    await history.put_job("s1", JobRecord("j1", "exited", "ls", 5))
    assert await history.delete_session("s1")
    assert not await history.delete_session("s1")
    await history.begin_session("s1")
    for rows in (
        await history.calls("s1"),
        await history.panels("s1"),
        await history.receipts("s1"),
        await history.jobs("s1"),
    ):
        assert rows == ()


async def test_a_call_is_stored_with_its_result(history: History, clock: Clock) -> None:
    """Arguments first, the result when there is one."""
    number = await history.begin_call(
        "s1", "c1", identity="local/a", name="a", arguments={"x": [1, None]}
    )
    running = CallRecord(
        number, "s1", "c1", "local/a", "a", "model", {"x": [1, None]}, "running", 1000
    )
    assert await history.call("s1", "c1") == running
    clock.now = 1500
    content = [{"type": "text", "text": "größer"}]
    await history.end_call(number, content=content, is_error=True, code="timeout", stage="handler")
    done = CallRecord(
        *(number, "s1", "c1", "local/a", "a", "model", {"x": [1, None]}, "done", 1000),
        *(1500, True, "timeout", "handler", content),
    )
    assert await history.calls("s1") == (done,)
    assert await history.call("s1", "c2") is None


async def test_an_image_and_a_huge_result_leave_a_note(history: History) -> None:
    """A history is no place for 22 MiB of base64."""
    image = {"type": "image", "mimeType": "image/png", "data": "x" * 100}
    number = await history.begin_call("s1", "c1", identity="a", name="a", arguments=None)
    await history.end_call(number, content=[image], is_error=False)
    noted = {"type": "image", "mimeType": "image/png", "omitted_bytes": 100}
    found = await history.call("s1", "c1")
    assert found is not None
    assert found.content == [noted]
    huge = [{"type": "text", "text": "x" * MAX_STORED_BYTES}]
    number = await history.begin_call("s1", "c2", identity="a", name="a", arguments=huge)
    await history.end_call(number, content=huge, is_error=False)
    found = await history.call("s1", "c2")
    assert found is not None
    assert found.content == found.arguments == {"omitted_bytes": MAX_STORED_BYTES + 27}


async def test_panels_are_restored_at_their_newest_revision(history: History) -> None:
    """What a session shows again after a restart."""
    await history.commit_panels(
        "s1", "c1", [PanelRevision("a", 1, {"blocks": []}, 5), PanelRevision("b", 1, {"n": 1}, 5)]
    )
    await history.commit_panels("s1", None, [PanelRevision("a", 2, None, 6, "closed")])
    second = PanelRevision("a", 2, None, 6, "closed")
    assert await history.panels("s1") == (second, PanelRevision("b", 1, {"n": 1}, 5, "open", "c1"))
    first = PanelRevision("a", 1, {"blocks": []}, 5, "open", "c1")
    assert await history.panel_revisions("s1", "a") == (second, first)
    assert await history.panel_revisions("s1", "a", limit=1) == (second,)


async def test_only_the_last_revisions_of_a_panel_are_kept(history: History) -> None:
    """A panel with a progress bar has thousands."""
    revisions = [PanelRevision("a", n, {"n": n}, n) for n in range(1, KEPT_REVISIONS + 21)]
    await history.commit_panels("s1", None, revisions)
    kept = await history.panel_revisions("s1", "a", limit=1000)
    assert [item.revision for item in kept] == list(range(KEPT_REVISIONS + 20, 20, -1))


async def test_a_result_with_a_revision_that_exists_stores_nothing(history: History) -> None:
    """All or nothing: neither the result nor the receipts before the one that fails."""
    await history.commit_panels("s1", None, [PanelRevision("a", 1, {}, 5)])
    number = await history.begin_call("s1", "c1", identity="a", name="a", arguments={})
    with pytest.raises(HistoryError) as caught:
        await history.end_call(
            number,
            content=[],
            is_error=False,
            panels=[PanelRevision("b", 1, {}, 5), PanelRevision("a", 1, {}, 5)],
            receipts=[Receipt("hook", {}, 5)],
        )
    assert caught.value.code == "revision_exists"
    found = await history.call("s1", "c1")
    assert found is not None
    assert found.state == "running"
    assert [item.panel for item in await history.panels("s1")] == ["a"]
    assert await history.receipts("s1") == ()


async def test_receipts_are_found_by_call_and_kind(history: History) -> None:
    """The oldest first, and the last ones when there are too many."""
    hook = Receipt("hook", {"hook": "local/gate", "outcome": "deny"}, 5)
    panel = Receipt("panel_rejected", {"code": "panel_invalid"}, 6)
    await history.add_receipts("s1", "c1", [hook, panel])
    await history.add_receipts("s1", None, [hook])
    of_call = (
        Receipt("hook", hook.body, 5, "c1"),
        Receipt("panel_rejected", panel.body, 6, "c1"),
    )
    assert await history.receipts("s1") == (*of_call, hook)
    assert await history.receipts("s1", tool_call_id="c1") == of_call
    assert await history.receipts("s1", kind="hook") == (of_call[0], hook)
    assert await history.receipts("s1", limit=1) == (hook,)


async def test_a_job_is_changed_in_place(history: History) -> None:
    """Its row follows its state."""
    await history.put_job("s1", JobRecord("j1", "running", "sleep 9", 5, "nap"))
    ended = JobRecord("j1", "exited", "sleep 9", 5, "nap", 9, {"exit_code": 0})
    await history.put_job("s1", ended)
    assert await history.jobs("s1") == (ended,)


def test_the_live_states_of_jobs_are_those_of_the_job_service() -> None:
    """What a sweep calls lost is what was not finished."""
    assert set(LIVE_JOB_STATES) == {str(state) for state in JobState} - set(FINISHED)


QUESTION = InteractionRecord(
    *("ask_1", "nobody", 1, "c1", "local/a", "local/a#p", {"blocks": []}, 100, "pending", 1, 5, 9)
)


@pytest.mark.parametrize("what", ["call", "panel", "receipt", "job", "question"])
async def test_nothing_is_stored_of_a_session_that_did_not_begin(
    history: History, what: str
) -> None:
    """A misspelt ID must not make a session that nobody opens again."""
    writes: dict[str, Any] = {
        "call": lambda: history.begin_call("nobody", "c", identity="a", name="a", arguments={}),
        "panel": lambda: history.commit_panels("nobody", None, [PanelRevision("a", 1, {}, 5)]),
        "receipt": lambda: history.add_receipts("nobody", None, [Receipt("hook", {}, 5)]),
        "job": lambda: history.put_job("nobody", JobRecord("j", "running", "ls", 5)),
        "question": lambda: history.add_interaction(QUESTION),
    }
    with pytest.raises(HistoryError) as caught:
        await writes[what]()
    assert caught.value.code == "session_unknown"


async def test_a_closed_history_says_so(tmp_path: Path) -> None:
    """One clear error, not one of SQLite's."""
    async with open_history(tmp_path / "h.db") as history:
        pass
    with pytest.raises(HistoryError) as caught:
        await history.sessions()
    assert caught.value.code == "history_closed"
    with pytest.raises(HistoryError):
        await history.begin_session("s")
    await history.aclose()
