"""Hosts that are killed, and hosts that share a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from raw_exec.history import HistoryError, PanelRevision, Swept, open_history
from tests.history.hosts import host

pytestmark = pytest.mark.slow

BUSY = """
await history.begin_session("s1")
await history.begin_call("s1", "c1", identity="local/a", name="a", arguments={})
await history.put_job("s1", JobRecord("j1", "running", "sleep 9", 5))
await history.put_job("s1", JobRecord("j2", "exited", "ls", 5))
await history.add_interaction(InteractionRecord(
    "ask_1", "s1", history.host_id, "c1", "local/a", "local/a#p", {"blocks": []}, 100, "pending",
    1, 5, 9))
say("busy")
await trio.to_thread.run_sync(stop)
"""


async def states(path: Path) -> tuple[object, ...]:
    """Open the history, and return what it found and what it says of the host's things."""
    async with open_history(path, clock=lambda: 77) as history:
        question = await history.interaction("ask_1")
        call = await history.call("s1", "c1")
        session = await history.session("s1")
        assert question is not None
        assert call is not None
        assert session is not None
        return (
            history.found,
            (question.state, question.revision, question.settled_at),
            (call.state, call.ended_at),
            [(job.job_id, job.state, job.ended_at) for job in await history.jobs("s1")],
            (session.state, session.ended_at),
        )


async def test_what_a_killed_host_left_is_settled_by_the_next(tmp_path: Path) -> None:
    """Contract: pending questions become interrupted, live jobs lost; a second open finds none."""
    path = tmp_path / "h.db"
    with host(path, BUSY) as first:
        first.wait_for("busy")
        first.kill()
    settled = (
        ("interrupted", 2, 77),
        ("interrupted", 77),
        [("j1", "lost", 77), ("j2", "exited", None)],
        ("interrupted", 77),
    )
    found = Swept(("ask_1",), (("s1", "j1"),), (("s1", "c1"),), ("s1",))
    assert await states(path) == (found, *settled)
    assert await states(path) == (Swept(), *settled)


async def test_a_second_host_leaves_the_first_ones_things_until_it_dies(tmp_path: Path) -> None:
    """Two hosts on one file: only a dead one's questions are interrupted."""
    path = tmp_path / "h.db"
    alive = (
        ("pending", 1, None),
        ("running", None),
        [("j1", "running", None), ("j2", "exited", None)],
        ("open", None),
    )
    with host(path, BUSY) as first:
        first.wait_for("busy")
        assert await states(path) == (Swept(), *alive)
        async with open_history(path) as second:
            assert await second.sweep() == Swept()
            with pytest.raises(HistoryError) as caught:
                await second.begin_session("s1", resume=True)
            assert caught.value.code == "session_in_use"
            first.kill()
            found = Swept(("ask_1",), (("s1", "j1"),), (("s1", "c1"),), ("s1",))
            assert await second.sweep() == found
            assert (await second.begin_session("s1", resume=True)).state == "open"


async def test_a_host_in_the_same_process_counts_as_another(tmp_path: Path) -> None:
    """POSIX locks would say that both are one."""
    path = tmp_path / "h.db"
    async with open_history(path) as first:
        await first.begin_session("s1")
        async with open_history(path) as second:
            assert second.found == Swept()
            assert second.host_id != first.host_id
        async with open_history(path) as third:
            assert third.found == Swept()


async def test_a_host_that_closes_settles_its_own_things(tmp_path: Path) -> None:
    """The pair of a kill: nothing is left for the next to find."""
    path = tmp_path / "h.db"
    with host(path, BUSY) as first:
        first.wait_for("busy")
        first.go_on()
        assert first.process.wait(timeout=30) == 0
    found, question, call, jobs, session = await states(path)
    assert found == Swept()
    assert isinstance(question, tuple)
    assert question[:2] == ("interrupted", 2)
    assert isinstance(call, tuple)
    assert call[0] == "interrupted"
    assert isinstance(jobs, list)
    assert [job[:2] for job in jobs] == [("j1", "lost"), ("j2", "exited")]
    assert isinstance(session, tuple)
    assert session[0] == "interrupted"


async def test_a_host_killed_inside_a_transaction_leaves_nothing_of_it(tmp_path: Path) -> None:
    """Committed or not there: the result, its panels and its receipts together."""
    path = tmp_path / "h.db"
    body = """
    await history.begin_session("s1")
    await history.commit_panels("s1", None, [PanelRevision("a", 1, {"n": 1}, 5)])
    number = await history.begin_call("s1", "c1", identity="a", name="a", arguments={})
    def work(db):
        revisions = [PanelRevision("a", 2, {"n": 2}, 6), PanelRevision("b", 1, {"n": 3}, 6)]
        receipts = [Receipt("hook", {}, 6)]
        rows.end_call(db, "", number, 9, ([], False, None, None), revisions, receipts)
        say("inside")
        stop()
    await history._write(work, durable=True)
    """
    with host(path, body) as first:
        first.wait_for("inside")
        first.kill()
    async with open_history(path) as history:
        assert await history.panels("s1") == (PanelRevision("a", 1, {"n": 1}, 5),)
        assert await history.receipts("s1") == ()
        call = await history.call("s1", "c1")
        assert call is not None
        assert (call.state, call.content) == ("interrupted", None)


@pytest.mark.parametrize("commits", [1, 7, 23])
async def test_a_killed_host_loses_no_committed_revision(tmp_path: Path, commits: int) -> None:
    """Contract: whatever it said it had committed is there, whole."""
    path = tmp_path / "h.db"
    body = """
    await history.begin_session("s1")
    n = 0
    while True:
        n += 1
        number = await history.begin_call("s1", f"c{n}", identity="a", name="a", arguments={})
        revisions = [PanelRevision(p, n, {"n": n, "x": "y" * 20000}, 5) for p in ("a", "b")]
        await history.end_call(number, content=[], is_error=True, panels=revisions)
        say(f"committed {n}")
    """
    with host(path, body) as first:
        first.wait_for(f"committed {commits}")
        first.kill()
    async with open_history(path) as history:
        for panel in ("a", "b"):
            kept = await history.panel_revisions("s1", panel, limit=1000)
            numbers = [item.revision for item in reversed(kept)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) >= commits
            assert all(item.document == {"n": item.revision, "x": "y" * 20000} for item in kept)
        a, b = await history.panels("s1")
        assert a.revision == b.revision
        calls = await history.calls("s1", limit=1000)
        done = [call for call in calls if call.state == "done"]
        assert len(done) == a.revision
        assert {call.state for call in calls} <= {"done", "interrupted"}


async def test_hosts_that_make_one_file_at_the_same_time_all_open_it(tmp_path: Path) -> None:
    """The first makes the tables; nobody sees them half-made."""
    path = tmp_path / "h.db"
    hosts: list[int] = []

    async def one(n: int) -> None:
        async with open_history(path) as history:
            hosts.append(history.host_id)
            await history.begin_session(f"s{n}")
            assert history.found == Swept()
            await barrier.wait()

    barrier = trio.Event()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for n in range(6):
                nursery.start_soon(one, n)
            while len(hosts) < 6:
                await trio.testing.wait_all_tasks_blocked(0.01)
            barrier.set()
    assert sorted(hosts) == [1, 2, 3, 4, 5, 6]
    async with open_history(path) as history:
        assert len(await history.sessions()) == 6
