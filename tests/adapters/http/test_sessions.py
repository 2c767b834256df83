"""Sessions over HTTP: panels, background processes, closing, idleness."""

from __future__ import annotations

import sqlite3

import trio

import raw_exec
from toolbox import write_config

from .conftest import started


async def test_a_session_keeps_panels_between_calls(serve, write) -> None:
    """POST /v1/sessions, the field session, DELETE."""
    async with serve(write("panel", "echo")) as served, served.connect() as client:
        made = await client.ask("POST", "/v1/sessions", {"session": "s1"})
        assert (made.status, made.headers["location"]) == (201, "/v1/sessions/s1")
        again = await client.ask("POST", "/v1/sessions", {"session": "s1"})
        assert again.error[:2] == (409, "session_exists")
        for steps in (1, 2):
            assert (await client.call("panel", {"steps": steps}, session="s1")).status == 200
        found = (await client.ask("GET", "/v1/sessions/s1")).json
        (panel,) = found["panels"]
        assert (panel["revision"], panel["committed"]) == (5, True)
        assert found["questions"] == []
        assert (await client.ask("DELETE", "/v1/sessions/s1")).status == 204
        closed = await client.call("echo", {"text": "x"}, session="s1")
        assert closed.error == (404, "session_unknown", "/session")
        unnamed = (await client.ask("POST", "/v1/sessions", {})).json
        assert unnamed["session"].startswith("session_")
        assert unnamed["cwd"] == str(served.cwd)


async def test_closing_a_session_aborts_its_calls_first(serve, write) -> None:
    """Nothing runs on behalf of a session that is closed."""
    async with serve(write("wait")) as served, served.connect() as client:
        await client.ask("POST", "/v1/sessions", {"session": "s"})
        await client.call("wait", {"name": "a"}, session="s", call_id="c", **{"async": True})
        await started(served.cwd, "a")
        assert (await client.ask("DELETE", "/v1/sessions/s")).status == 204
        result = (await client.ask("GET", "/v1/calls/c")).json["result"]
        assert (result["code"], result["stage"]) == ("aborted", "handler")
        assert result["detail"] == {"reason": "session_closed"}


async def test_background_processes_end_with_their_session(serve, tmp_path) -> None:
    """Sessions have jobs; two sessions do not see each other's."""
    config = raw_exec.load_config(write_config(tmp_path, ["builtin/process"]))
    async with serve(config) as served, served.connect() as client:
        for name in ("one", "two"):
            await client.ask("POST", "/v1/sessions", {"session": name})
        begun = await client.call(
            "process", {"action": "start", "command": "exec sleep 1000"}, session="one"
        )
        assert begun.json["is_error"] is False, begun.json
        lists = [
            str((await client.call("process", {"action": "list"}, session=name)).json["content"])
            for name in ("one", "two")
        ]
        assert "sleep 1000" in lists[0]
        assert "sleep 1000" not in lists[1]
        await client.ask("DELETE", "/v1/sessions/one")
        with trio.fail_after(20):
            while True:
                text = (await client.ask("GET", "/metrics")).raw.decode()
                trees = next(x for x in text.splitlines() if x.startswith("raw_process_trees"))
                workers = next(x for x in text.splitlines() if x.startswith("raw_workers "))
                if trees.split()[1] == workers.split()[1]:
                    break


async def test_sessions_are_bounded_and_idle_ones_are_closed(serve, write, monkeypatch) -> None:
    """Our choice: what nobody uses is let go, the runtime last."""
    monkeypatch.setattr("raw_exec.adapters.http.homes._TIDY_SECONDS", 0.02)
    config = write("echo")
    async with serve(config, limits={"sessions": 2}) as served, served.connect() as client:
        statuses = [(await client.ask("POST", "/v1/sessions", {})).status for _ in range(3)]
        assert statuses == [201, 201, 429]
    limits = {"session_idle_seconds": 0.1, "runtime_idle_seconds": 0.1}
    async with serve(config, limits=limits) as served, served.connect() as client:
        assert (await client.call("echo", {"text": "x"})).json["is_error"] is False
        assert (await client.ask("POST", "/v1/sessions", {})).status == 201
        with trio.fail_after(20):
            while True:
                text = (await client.ask("GET", "/metrics")).raw.decode()
                if "raw_sessions_open 0.0" in text and "raw_runtimes_open 0.0" in text:
                    break
        # The workers of a runtime that is closed by now still count.
        started_workers = text.split("\nraw_workers_started_total ")[1].split("\n")[0]
        assert float(started_workers) >= 1
        assert (await client.call("echo", {"text": "x"})).json["is_error"] is False


async def test_a_call_with_panels_and_no_session_leaves_no_session(serve, write, tmp_path) -> None:
    """A session made for one call is forgotten with it, also where a history is kept."""
    history = tmp_path / "history.db"
    async with (
        serve(write("panel"), history=str(history)) as served,
        served.connect() as client,
    ):
        assert (await client.call("panel", {"steps": 1})).json["is_error"] is False
        await client.ask("POST", "/v1/sessions", {"session": "kept"})
    with sqlite3.connect(history) as db:
        rows = db.execute("SELECT id FROM sessions").fetchall()
    db.close()
    assert rows == [("default/kept",)]
