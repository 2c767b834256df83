"""Streamable HTTP: sessions, stateless requests, streams, and who may ask at all."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from raw_exec.adapters.mcp_server import Host
from raw_exec.adapters.mcp_server import http as http_module
from raw_exec.adapters.mcp_server import http_sessions as sessions_module
from raw_exec.adapters.mcp_server.host import MAX_RUNNING
from toolbox import write_tool

from .support import ECHO, open_http, open_server, stateless, wait_dead, wait_file, write_tools

HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
ANSWERS = {"action": "accept", "content": {"name": "Ada", "size": "s"}}


class Web:
    """An HTTP client of one endpoint."""

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self.client = client
        self.url = url
        self.session: dict[str, str] = {}

    async def post(self, message: Any, **headers: str) -> httpx2.Response:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(
            self.url, content=body, headers={**HEADERS, **self.session, **named}
        )

    @asynccontextmanager
    async def stream(self, message: Any, **headers: str) -> AsyncIterator[AsyncIterator[Any]]:
        """Post a message and yield the messages of the answer, which is a stream."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.stream(
            "POST", self.url, json=message, headers={**HEADERS, **self.session, **named}
        ) as response:
            assert response.headers["content-type"] == "text/event-stream"
            yield events(response)

    async def begin(self, **capabilities: Any) -> None:
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
        answer = await self.post(request("initialize", **params))
        self.session = {"mcp-session-id": answer.headers["mcp-session-id"]}
        notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.post(notice)).status_code == 202

    async def modern(self, method: str, *, meta: Any = None, **params: Any) -> httpx2.Response:
        """Send a stateless request with the headers that belong to it."""
        message = request(method, _meta=stateless() if meta is None else meta, **params)
        return await self.post(message, **modern_headers(message))


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def modern_headers(message: dict[str, Any]) -> dict[str, str]:
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": message["method"]}
    name = message["params"].get("name")
    return headers if name is None else {**headers, "mcp_name": name}


async def events(response: httpx2.Response) -> AsyncIterator[Any]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


@pytest.fixture
async def web(host: Host) -> AsyncIterator[Web]:
    async with open_http(host) as url, httpx2.AsyncClient(timeout=20) as client:
        yield Web(client, url)


async def test_a_session_lists_calls_and_ends(web: Web) -> None:
    """Spec 2025-11-25: the header names it; after DELETE it is not found."""
    await web.begin()
    listed = (await web.post(request("tools/list"))).json()
    assert listed["result"]["tools"][0]["name"] == "echo"
    call = request("tools/call", name="echo", arguments={"text": "hi"})
    answer = await web.post(call, mcp_protocol_version="2025-11-25")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["content"][0]["text"] == "hi"
    ended = await web.client.delete(web.url, headers={**HEADERS, **web.session})
    assert ended.status_code == 200
    assert (await web.post(call)).status_code == 404
    web.session = {}
    assert (await web.post(call)).status_code == 400


async def test_a_stateless_request_needs_nothing_before_it(web: Web) -> None:
    """Spec 2026-07-28: headers that agree with the body, and no session."""
    answer = await web.modern("tools/call", name="echo", arguments={"text": "hi"})
    assert answer.json()["result"]["content"][0]["text"] == "hi"
    assert "mcp-session-id" not in answer.headers
    missing = await web.modern("prompts/list")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, -32601)
    message = request("tools/call", _meta=stateless(), name="echo", arguments={"text": "hi"})
    other = await web.post(message, **{**modern_headers(message), "mcp_name": "hang"})
    assert (other.status_code, other.json()["error"]["code"], other.json()["id"]) == (
        400,
        -32020,
        1,
    )
    unknown = await web.post(request("tools/list"), mcp_protocol_version="1999-01-01")
    assert unknown.status_code == 400


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"init', {}, 400),
        (b"\xff\xfe", {}, 400),
        (b"[]", {}, 400),
        (b"{}", {"content_type": "text/plain"}, 415),
        (b"{}", {"accept": "text/html"}, 406),
        (b"{}", {"host": "evil.example"}, 421),
        (b"{}", {"origin": "http://evil.example"}, 403),
        (b"{}", {"mcp_session_id": "nobody's"}, 400),
    ],
)
async def test_what_is_no_request_is_refused(
    web: Web, body: bytes, headers: dict[str, str], status: int
) -> None:
    """Half a JSON body; a page of another site, whatever name it gave itself."""
    assert (await web.post(body, **headers)).status_code == status
    assert (await web.post(request("nothing"), mcp_session_id="nobody's")).status_code == 404


async def test_a_body_over_the_limit_is_not_kept(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 MB are 413 whatever they hold, as is too much of everybody together 503."""
    assert (await web.post(b" " * 64_000_000)).status_code == 413
    monkeypatch.setattr(http_module, "MAX_READING_BYTES", 1000)
    assert (await web.post(b" " * 2000)).status_code == 503
    answer = await web.modern("tools/call", name="echo", arguments={"text": "hi"})
    assert answer.status_code == 200


async def test_progress_makes_the_answer_a_stream(web: Web) -> None:
    """Both eras; without a token there is nothing to tell, and the answer is JSON."""
    await web.begin()
    arguments = {"steps": 2}
    message = request(
        "tools/call", name="progress", arguments=arguments, _meta={"progressToken": 7}
    )
    meta = {**stateless(), "progressToken": 7}
    modern = request("tools/call", name="progress", arguments=arguments, _meta=meta)
    for sent, headers in ((message, {}), (modern, modern_headers(modern))):
        async with web.stream(sent, **headers) as stream:
            seen = [item async for item in stream]
        assert {item["params"]["progressToken"] for item in seen[:-1]} == {7}
        assert seen[-2]["params"]["progress"] == 2
        assert seen[-1]["result"]["content"][0]["text"] == "done"
    plain = await web.post(request("tools/call", name="progress", arguments=arguments))
    assert plain.headers["content-type"] == "application/json"


async def test_a_question_comes_in_the_stream_and_its_answer_in_a_post(web: Web) -> None:
    """Spec 2025-11-25: the answer to a server's request is a request of its own."""
    await web.begin(elicitation={})
    async with web.stream(request("tools/call", name="ask", arguments={})) as stream:
        asked = await anext(stream)
        assert asked["method"] == "elicitation/create"
        reply = {"jsonrpc": "2.0", "id": asked["id"], "result": ANSWERS}
        assert (await web.post(reply)).status_code == 202
        (answer,) = [item async for item in stream]
    assert answer["result"]["structuredContent"] == ANSWERS["content"]
    # A client that takes no stream for this request can't be asked in it.
    unasked = await web.post(
        request("tools/call", name="ask", arguments={}), accept="application/json"
    )
    assert unasked.json()["result"]["_meta"] == {"raw/code": "interaction_cancelled"}


async def test_the_question_of_a_cancelled_call_is_taken_back(web: Web, host: Host) -> None:
    """In the stream of the call, which then ends without an answer."""
    await web.begin(elicitation={})
    call = request("tools/call", name="ask", arguments={})
    async with web.stream(call) as stream:
        asked = await anext(stream)
        cancel = {"method": "notifications/cancelled", "params": {"requestId": call["id"]}}
        assert (await web.post({"jsonrpc": "2.0", **cancel})).status_code == 202
        (told,) = [item async for item in stream]
    assert told["method"] == "notifications/cancelled"
    assert told["params"]["requestId"] == asked["id"]
    while host.calls:
        await trio.sleep(0.01)
    assert host.statistics().open_questions == 0


async def test_a_session_that_ends_while_it_asks_ends_cleanly(
    web: Web, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    """What becomes of the call is stored before its session is closed."""
    await web.begin(elicitation={})
    async with web.stream(request("tools/call", name="ask", arguments={})) as stream:
        await anext(stream)
        await web.client.delete(web.url, headers={**HEADERS, **web.session})
        assert [item["method"] async for item in stream] == ["notifications/cancelled"]
    while host.calls:
        await trio.sleep(0.01)
    assert [record.getMessage() for record in caplog.records if record.levelno > 20] == []


async def test_a_stateless_question_outlives_its_request(web: Web, host: Host) -> None:
    """Spec 2026-07-28: any connection may bring the answer."""
    meta = stateless(elicitation={})
    first = (await web.modern("tools/call", meta=meta, name="ask", arguments={})).json()["result"]
    assert first["resultType"] == "input_required"
    assert host.calls == 1
    async with httpx2.AsyncClient() as client:
        done = await Web(client, web.url).modern(
            "tools/call",
            meta=meta,
            name="ask",
            arguments={},
            requestState=first["requestState"],
            inputResponses={"order": ANSWERS},
        )
    assert done.json()["result"]["structuredContent"] == ANSWERS["content"]
    assert host.calls == 0


# ---------------------------------------------------------------- ends


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_closed_connection_aborts_its_call(
    web: Web, host: Host, tmp_path: Path, era: str
) -> None:
    """A client that vanishes in the middle of a call leaves nothing running."""
    call = request("tools/call", name="hang", arguments={})
    headers = {}
    if era == "session":
        await web.begin()
    else:
        call["params"]["_meta"] = stateless()
        headers = modern_headers(call)
    async with trio.open_nursery() as nursery:

        async def post() -> None:
            await web.post(call, **headers)

        nursery.start_soon(post)
        await wait_file(tmp_path / "cwd" / "running")
        nursery.cancel_scope.cancel()
    await wait_dead(host)
    assert (await web.modern("tools/list")).status_code == 200


@pytest.mark.parametrize("how", ["cancelled", "delete"])
async def test_a_session_can_end_its_calls(web: Web, host: Host, tmp_path: Path, how: str) -> None:
    """A notice for one of them, DELETE for all; the waiting request gets no result."""
    await web.begin()
    responses: list[httpx2.Response] = []
    async with trio.open_nursery() as nursery:

        async def post() -> None:
            responses.append(await web.post(request("tools/call", name="hang", arguments={})))

        nursery.start_soon(post)
        await wait_file(tmp_path / "cwd" / "running")
        if how == "delete":
            await web.client.delete(web.url, headers={**HEADERS, **web.session})
        else:
            notice = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
            await web.post({**notice, "params": {"requestId": 1}})
    await wait_dead(host)
    assert [(response.status_code, response.content) for response in responses] == [(202, b"")]


def _raw_request(message: dict[str, Any], port: int) -> bytes:
    """Return a stateless request as bytes, for a client that is ruder than a library."""
    body = json.dumps(message).encode()
    named = {name.replace("_", "-"): text for name, text in modern_headers(message).items()}
    lines = [
        "POST /mcp HTTP/1.1",
        f"host: 127.0.0.1:{port}",
        "connection: close",
        f"content-length: {len(body)}",
        *(f"{name}: {value}" for name, value in {**HEADERS, **named}.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def test_a_client_that_never_reads_holds_up_nobody_else(tmp_path: Path, cache: Path) -> None:
    """Its answer waits in the socket, and is dropped with it."""
    source = ECHO.replace('args["text"]', '"x" * 12_000_000')
    write_tool(tmp_path, "big", source, language="python")
    write_tools(tmp_path, "big", agent={"max_output_bytes": 16_000_000})
    async with open_server(tmp_path, cache) as host, open_http(host) as url:
        port = httpx2.URL(url).port or 0
        async with httpx2.AsyncClient(timeout=20) as client:
            web = Web(client, url)
            message = request("tools/call", _meta=stateless(), name="big", arguments={})
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            async with stream:
                await stream.send_all(_raw_request(message, port))
                while host.statistics().served == 0 or host.calls:
                    await trio.sleep(0.01)
                # The call is over; its answer fills the socket, and nothing takes it.
                answer = await web.modern("tools/call", name="echo", arguments={"text": "hi"})
                assert answer.json()["result"]["content"][0]["text"] == "hi"
                while host.statistics().served > 1:
                    await trio.sleep(0.01)
                assert host.statistics().served == 1
            while host.statistics().served:
                await trio.sleep(0.01)


async def test_a_thousand_requests_at_once_all_get_an_answer(web: Web, host: Host) -> None:
    """Bounded, none lost."""
    texts: list[str] = []
    port = httpx2.URL(web.url).port or 0
    most = 0

    async def call(number: int) -> None:
        nonlocal most
        message = request(
            "tools/call", _meta=stateless(), name="echo", arguments={"text": f"{number}"}
        )
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(_raw_request(message, port))
            data = b"".join([part async for part in stream])
        most = max(most, host.calls)
        head, _, rest = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        texts.append(json.loads(rest)["result"]["content"][0]["text"])

    async with trio.open_nursery() as nursery:
        for number in range(1000):
            nursery.start_soon(call, number)
    assert sorted(texts, key=int) == [f"{number}" for number in range(1000)]
    assert 1 < most <= MAX_RUNNING


async def test_sessions_are_bounded_and_the_longest_unused_makes_room(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security: whoever begins sessions can't fill the memory with them."""
    monkeypatch.setattr(sessions_module, "MAX_SESSIONS", 2)
    sessions = []
    for _ in range(3):
        web.session = {}
        await web.begin()
        sessions.append(web.session)
    statuses = []
    for session in sessions:
        web.session = session
        statuses.append((await web.post(request("tools/list"))).status_code)
    assert statuses == [404, 200, 200]


async def test_a_stream_too_many_is_refused(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the request's own ID, so that a client knows which one."""
    wanted = {"toolsListChanged": True}
    monkeypatch.setattr(http_module, "MAX_STREAMS", 0)
    full = await web.modern("subscriptions/listen", notifications=wanted)
    assert (full.status_code, full.json()["error"]["code"], full.json()["id"]) == (503, -32000, 1)


async def test_a_session_has_one_stream_and_its_end_ends_it(web: Web) -> None:
    """Spec 2025-11-25: GET is where notices come; DELETE closes it."""
    await web.begin()
    headers = {**HEADERS, **web.session}
    async with web.client.stream("GET", web.url, headers=headers) as stream:
        assert stream.status_code == 200
        assert (await web.client.get(web.url, headers=headers)).status_code == 409
        await web.client.delete(web.url, headers=headers)
        assert [event async for event in events(stream)] == []
    stateless_get = {**HEADERS, "mcp-protocol-version": "2026-07-28"}
    assert (await web.client.get(web.url, headers=stateless_get)).status_code == 405
    assert (await web.client.put(web.url, headers=headers)).status_code == 405
    assert (await web.client.get(web.url + "/other")).status_code == 404
