"""Server-sent events: order, resuming, pings, and clients that vanish or never read."""

from __future__ import annotations

from typing import Any

import psutil
import trio

from raw_exec.adapters.http.events import EventLog

from .client import SentEvent
from .conftest import started


async def _collect(client: Any) -> list[SentEvent]:
    return [event async for event in client.events() if isinstance(event, SentEvent)]


async def test_a_stream_tells_of_the_call_its_panels_its_progress_and_its_result(
    serve, write
) -> None:
    """Server-sent events for progress and panels, with an id each."""
    async with serve(write("panel")) as served, served.connect() as client:
        body = {"name": "panel", "arguments": {"steps": 3}, "stream": True, "call_id": "p"}
        await client.send("POST", "/v1/call", body)
        events = await _collect(client)
        assert [event.id for event in events] == sorted({event.id for event in events})
        kinds = [event.kind for event in events]
        assert (kinds[0], kinds[-1]) == ("started", "result")
        assert events[0].data == {"call_id": "p"}
        last = [event.data for event in events if event.kind == "panel"][-1]
        assert (last["id"], last["document"]["progress"]) == (
            "agent/panel#work",
            {"done": 3, "total": 3},
        )
        assert last["revision"] == 4
        progress = [event.data for event in events if event.kind == "progress"][-1]
        assert (progress["done"], progress["total"]) == (3, 3)
        result = events[-1].data
        assert (result["content"][0]["text"], result["tool_call_id"]) == ("finished", "p")
        assert (await client.ask("GET", "/v1/calls/p")).json["result"] == result


async def test_accept_asks_for_a_stream_and_stream_false_for_none(serve, write) -> None:
    """Accept: text/event-stream, or "stream": true."""
    accept = {"Accept": "text/event-stream"}
    async with serve(write("echo")) as served, served.connect() as client:
        body = {"name": "echo", "arguments": {"text": "x"}}
        await client.send("POST", "/v1/call", body, accept)
        assert [event.kind for event in await _collect(client)] == ["started", "result"]
    async with serve(write("echo")) as served, served.connect() as client:
        answer = await client.ask("POST", "/v1/call", body | {"stream": False}, accept)
        assert answer.json["content"][0]["text"] == "x"


async def test_a_reader_that_was_away_goes_on_where_it_was(serve, write) -> None:
    """Last-Event-ID; a reader that comes late sees the present state, once."""
    async with serve(write("panel")) as served:
        async with served.connect() as client:
            await client.call("panel", {"steps": 2}, call_id="p")
            await client.send("GET", "/v1/calls/p/events")
            events = await _collect(client)
        assert [event.kind for event in events] == ["started", "panel", "progress", "result"]
        for seen in events:
            async with served.connect() as client:
                headers = {"Last-Event-ID": str(seen.id)}
                await client.send("GET", "/v1/calls/p/events", None, headers)
                assert await _collect(client) == [e for e in events if e.id > seen.id]
        async with served.connect() as client:
            wrong = await client.ask("GET", "/v1/calls/p/events", None, {"Last-Event-ID": "x"})
            assert wrong.error[:2] == (400, "request_invalid")


async def test_a_stream_with_nothing_to_say_pings(serve, write) -> None:
    """A comment, so that what is between does not close the connection."""
    limits = {"ping_seconds": 0.02}
    async with serve(write("gate"), limits=limits) as served, served.connect() as client:
        await client.send("POST", "/v1/call", {"name": "gate", "arguments": {}, "stream": True})
        seen = []
        async for event in client.events():
            seen.append(event)
            if seen.count(": ping") == 2:
                (served.cwd / "gate").touch()
        assert isinstance(seen[-1], SentEvent)
        assert seen[-1].data["content"][0]["text"] == "through"


async def test_a_client_that_vanishes_ends_its_call(serve, write) -> None:
    """Client vanishes mid-call, plain and streaming: aborted, tree dead."""
    async with serve(write("wait")) as served:
        for name, stream in (("plain", False), ("streaming", True)):
            async with served.connect() as client:
                body = {
                    "name": "wait",
                    "arguments": {"name": name},
                    "stream": stream,
                    "call_id": name,
                }
                await client.send("POST", "/v1/call", body)
                await started(served.cwd, name)
                assert len(psutil.Process().children(recursive=True)) > 1
            async with served.connect() as client:
                while (found := (await client.ask("GET", f"/v1/calls/{name}")).json)[
                    "state"
                ] != "done":
                    await trio.sleep(0.005)
                assert found["result"]["code"] == "aborted"
                assert found["result"]["detail"] == {"reason": "client_gone"}
                metrics = (await client.ask("GET", "/metrics")).raw.decode()
                assert "raw_process_trees 0.0" in metrics


async def test_a_follower_that_vanishes_ends_nothing(serve, write) -> None:
    """The paired claim: following is not owning."""
    async with serve(write("gate")) as served:
        async with served.connect() as client:
            await client.call("gate", {}, call_id="g", **{"async": True})
            await client.send("GET", "/v1/calls/g/events")
            async for event in client.events():
                assert isinstance(event, SentEvent)
                break
        (served.cwd / "gate").touch()
        async with served.connect() as client:
            await client.send("GET", "/v1/calls/g/events")
            assert (await _collect(client))[-1].data["content"][0]["text"] == "through"


async def test_a_client_that_never_reads_grows_nothing(serve, write) -> None:
    """200 updates, one panel kept; the others of the service go on."""
    arguments = {"steps": 199, "size": 15_000}
    async with (
        serve(write("panel", "echo"), limits={"kept_calls": 8}) as served,
        served.connect() as deaf,
        served.connect() as client,
    ):
        await deaf.send(
            "POST",
            "/v1/call",
            {"name": "panel", "arguments": arguments, "stream": True, "call_id": "p"},
        )
        most = 0
        while True:
            answer = await client.ask("GET", "/v1/calls/p")
            text = (await client.ask("GET", "/metrics")).raw.decode()
            kept = next(line for line in text.splitlines() if line.startswith("raw_kept"))
            most = max(most, int(float(kept.split()[1])))
            if answer.status == 200 and answer.json["state"] == "done":
                break
            assert (await client.call("echo", {"text": "x"})).status == 200
        assert answer.json["result"]["content"][0]["text"] == "finished"
        # One panel document of 15 KB and some outcomes, not two documents and not 3 MB.
        assert most < 30_000


def test_the_log_keeps_the_latest_of_each_key_in_order() -> None:
    """Unit: what is kept is bounded by the number of keys, whatever is put."""
    log = EventLog()
    for number in range(1000):
        log.put("panel", f"p{number % 3}", b"%d" % number)
    log.put("result", "", b"r")
    log.end()
    log.put("panel", "late", b"!")
    assert [(e.number, e.data) for e in log.after(0)] == [
        (998, b"997"),
        (999, b"998"),
        (1000, b"999"),
        (1001, b"r"),
    ]
    assert log.after(1000)[0].encode() == b"id: 1001\nevent: result\ndata: r\n\n"
    assert log.size == 10
