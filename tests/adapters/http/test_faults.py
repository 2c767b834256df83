"""What goes wrong between a client and the service: floods, bodies, races, the end."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import pytest
import trio

from .client import Answer
from .conftest import Served, started


async def test_of_a_thousand_calls_at_once_each_has_an_outcome_or_is_sent_away(
    serve, write
) -> None:
    """None lost; those over the limit get 429 and are told when to come back."""
    answers: list[Answer] = []
    go = trio.Event()
    limits = {"running": 2, "queued": 100}
    async with serve(write("echo"), limits=limits) as served:

        async def one(number: int, task_status: trio.TaskStatus[None]) -> None:
            async with served.connect() as client:
                task_status.started()
                await go.wait()
                text = {"text": str(number)}
                answer = await client.call("echo", text, call_id=f"c{number}")
                if answer.status == 200:
                    assert answer.json["content"][0]["text"] == str(number)
                answers.append(answer)

        async with trio.open_nursery() as nursery:
            for number in range(1000):
                await nursery.start(one, number)
            go.set()
        statuses = Counter(answer.status for answer in answers)
        assert statuses[200] + statuses[429] == 1000
        assert statuses[200] >= 102
        for answer in answers:
            if answer.status == 429:
                assert answer.json["error"]["code"] == "too_many_calls"
                assert 1 <= int(answer.headers["retry-after"]) <= 30
        async with served.connect() as client:
            text = (await client.ask("GET", "/metrics")).raw.decode()
            assert f'raw_calls_total{{code="ok",tool="agent/echo"}} {statuses[200]}.0' in text
            assert "raw_calls_running 0.0" in text
            assert "raw_calls_queued 0.0" in text
            assert (await client.call("echo", {"text": "x"})).status == 200


async def test_a_result_of_31_megabytes_arrives_whole_or_is_refused(serve, write) -> None:
    """Within the configured limit it is delivered, over it there is an outcome."""
    arguments = {"text": 15_000_000, "image": 12_000_000}
    limits = {"result_bytes": 48 * 1024 * 1024}
    async with serve(write("big", limits=limits)) as served, served.connect() as client:
        answer = await client.call("big", arguments, max_output_bytes=16 * 1024 * 1024)
        assert len(answer.raw) > 31_000_000
        text, image = answer.json["content"]
        assert (len(text["text"]), image["type"]) == (15_000_000, "image")
    async with serve(write("big")) as served, served.connect() as client:
        answer = await client.call("big", arguments, max_output_bytes=16 * 1024 * 1024)
        assert (answer.status, answer.json["code"]) == (200, "output_limit")


async def test_a_body_of_64_megabytes_is_refused_without_being_kept(serve, write) -> None:
    """413, and memory stays where it was."""
    size = 64 * 1024 * 1024
    async with serve(write("echo")) as served, served.connect() as client:
        tracemalloc.start()
        head = (
            f"POST /v1/call HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
        )
        await client.stream.send_all(head.encode())
        tracemalloc.reset_peak()
        piece = b"x" * 65536
        for _ in range(size // len(piece)):
            await client.stream.send_all(piece)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += await client.stream.receive_some()
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert peak < 24 * 1024 * 1024  # the limit is 8 MiB, and a buffer doubles as it grows
        async with served.connect() as other:
            assert (await other.call("echo", {"text": "x"})).status == 200


async def test_half_a_body_gives_its_place_back(serve, write) -> None:
    """A client that stops or vanishes inside a body holds nothing for ever."""
    limits = {"running": 1, "queued": 0, "body_seconds": 0.1}
    async with serve(write("echo"), limits=limits) as served:
        head = (
            f"POST /v1/call HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
            'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"name": "echo'
        )
        async with served.connect() as slow:
            await slow.stream.send_all(head.encode())
            answer = await slow.stream.receive_some()
            assert answer.startswith(b"HTTP/1.1 408 ")
        async with served.connect() as gone:
            await gone.stream.send_all(head.encode())
        async with served.connect() as client:
            with trio.fail_after(20):
                while (await client.call("echo", {"text": "x"})).status != 200:
                    pass
            text = (await client.ask("GET", "/metrics")).raw.decode()
            assert "raw_calls_queued 0.0" in text


async def test_an_abort_that_races_with_completion_gets_the_truth(serve, write) -> None:
    """Whatever was quicker, every place tells the same, and nothing runs on."""
    codes: Counter[str | None] = Counter()

    async def race(served: Served, first: int) -> None:
        # How long the abort waits follows the outcomes, so that it stays near the end.
        steps = 1.0
        async with served.connect() as client:
            for number in range(first, 240, 6):
                place = f"/v1/calls/c{number}"
                text = {"text": f"{number}"}
                made = await client.call("echo", text, call_id=f"c{number}", **{"async": True})
                assert made.status == 202
                for _ in range(int(steps)):
                    await client.ask("GET", "/healthz")
                answer = (await client.ask("DELETE", place)).json
                assert answer["state"] == "done"
                result = answer["result"]
                codes[result["code"]] += 1
                steps = steps * 1.3 + 1 if result["code"] else steps * 0.6
                if result["code"] is None:
                    assert result["content"] == [{"type": "text", "text": f"{number}"}]
                else:
                    assert result["content"][0]["text"] == "the caller gave the call up"
                assert (await client.ask("GET", place)).json == answer

    async with serve(write("echo"), limits={"kept_calls": 1000}) as served:
        async with trio.open_nursery() as nursery:
            for first in range(6):
                nursery.start_soon(race, served, first)
        async with served.connect() as client:
            text = (await client.ask("GET", "/metrics")).raw.decode()
            counted: Counter[str | None] = Counter()
            for line in text.splitlines():
                if line.startswith("raw_calls_total"):
                    code = line.split('code="')[1].split('"')[0]
                    counted[None if code == "ok" else code] += int(float(line.split()[1]))
            assert counted == codes
            assert set(codes) == {None, "aborted"}
            idle = next(x for x in text.splitlines() if x.startswith("raw_workers_idle"))
            alive = next(x for x in text.splitlines() if x.startswith("raw_workers "))
            assert idle.split()[1] == alive.split()[1]


async def test_a_rate_is_kept_for_each_holder_of_a_key(serve, write) -> None:
    """Per-key rate limit."""
    async with (
        serve(write("echo"), limits={"per_second": 0.5}) as served,
        served.connect() as client,
    ):
        assert (await client.ask("GET", "/v1/tools")).status == 200
        refused = await client.ask("GET", "/v1/tools")
        assert refused.error[:2] == (429, "rate_limited")
        assert refused.headers["retry-after"] == "2"
        assert (await client.ask("GET", "/healthz")).status == 200


async def test_stopping_lets_calls_end_and_takes_no_new_ones(serve, write) -> None:
    """``/readyz`` turns 503, new calls 503 with Retry-After, running ones go on."""
    limits = {"drain_seconds": 60.0}
    async with (
        serve(write("gate", "echo"), limits=limits) as served,
        served.connect() as busy,
        served.connect() as client,
    ):
        assert (await client.ask("GET", "/readyz")).status == 200
        await busy.send("POST", "/v1/call", {"name": "gate", "arguments": {}, "call_id": "g"})
        while (await client.ask("GET", "/v1/calls/g")).status == 404:
            pass
        served.stop.set()
        while (ready := await client.ask("GET", "/readyz")).status == 200:
            pass
        assert ready.json == {"ready": False, "problems": ["it is stopping"]}
        refused = await client.call("echo", {"text": "x"})
        assert refused.error[:2] == (503, "draining")
        assert refused.headers["retry-after"] == "60"
        assert (await client.ask("POST", "/v1/sessions", {})).status == 503
        assert (await client.ask("GET", "/healthz")).status == 200
        (served.cwd / "gate").touch()
        assert (await busy.read()).json["content"][0]["text"] == "through"


@pytest.mark.parametrize("stream", [False, True])
async def test_stopping_aborts_what_takes_too_long_and_says_so(serve, write, stream) -> None:
    """After --drain-seconds they are aborted truthfully."""
    async with (
        serve(write("wait"), limits={"drain_seconds": 0.05}) as served,
        served.connect() as client,
    ):
        body = {"name": "wait", "arguments": {"name": "a"}, "stream": stream}
        await client.send("POST", "/v1/call", body)
        await started(served.cwd, "a")
        served.stop.set()
        if stream:
            *_, last = [event async for event in client.events()]
            result = last.data
        else:
            result = (await client.read()).json
        assert (result["code"], result["detail"]) == ("aborted", {"reason": "stopping"})


async def test_what_the_host_can_not_enforce_makes_the_service_unready(serve, write) -> None:
    """``/readyz`` says when the launcher can't enforce the default tier."""
    config = write("echo", sandbox={"profiles": {"workspace": {"tier": "namespaces"}}})
    async with serve(config, simulate=("no-userns",)) as served, served.connect() as client:
        ready = await client.ask("GET", "/readyz")
        assert ready.status == 503
        assert "tier 'namespaces' can not be enforced here" in ready.json["problems"][0]
        refused = await client.call("echo", {"text": "x"})
        assert (refused.status, refused.json["code"]) == (200, "sandbox_unavailable")


async def test_a_body_that_is_no_call_may_be_small_only(serve, write) -> None:
    """Security: only where a place was taken may a body hold memory."""
    async with serve(write("echo", "gate")) as served, served.connect() as client:
        await client.call("gate", {}, call_id="g", **{"async": True})
        for path in ("/v1/sessions", "/v1/calls/g/answers", "/v1/calls/g/approval"):
            async with served.connect() as other:
                answer = await other.ask("POST", path, {"reason": "x" * 100_000})
                assert answer.error[:2] == (413, "body_too_large")
        assert (await client.call("echo", {"text": "x" * 100_000})).status == 200
