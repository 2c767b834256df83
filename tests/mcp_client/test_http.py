"""Servers over streamable HTTP, on loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.mcp_client.http_server import serving
from tests.mcp_client.support import runtime_of

# The SDK leaves a stream that has given its answer to the collector, which trio does not like.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")


async def test_tools_of_a_server_elsewhere_are_called_with_its_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secrets reach the server and are in no result; the protocol's own headers are ours."""
    monkeypatch.setenv("API_TOKEN", "Bearer tok-4711-secret")
    source = {"kind": "env", "name": "API_TOKEN"}
    variables = {"token": {"description": "d", "access": "use", "source": source}}
    with serving() as server:
        web = {"url": server.url, "headers": {"Authorization": {"var": "token"}, "X-Plain": "1"}}
        tools = ["mcp/web/headers", "mcp/web/stream"]
        async with runtime_of(tmp_path, tools, {"web": web}, vars=variables) as runtime:
            result = await runtime.registry.dispatch("web__headers", {})
            told = json.loads(result.text)
            assert told["authorization"] == "[redacted Authorization]"
            assert told["x-plain"] == "1"
            assert result.enforced == {}
            assert (await runtime.registry.dispatch("web__stream", {})).text == "streamed"
            assert runtime.statistics().live_trees == 0


async def test_a_redirect_to_another_host_is_not_followed(tmp_path: Path) -> None:
    """Headers and arguments were meant for the configured server; one of its own paths is fine."""
    with serving() as other, serving(redirect_to=other.url) as server:
        web = {"url": server.url, "headers": {"X-Key": "literal-secret"}}
        async with runtime_of(tmp_path, ["mcp/web/moved"], {"web": web}) as runtime:
            refused = await runtime.registry.dispatch("web__moved", {})
            assert refused.is_error
            assert "not followed" in refused.text
            assert other.seen == []
            server.redirect_to = "/other"
            followed = await runtime.registry.dispatch("web__moved", {})
            assert followed.is_error  # it leads to itself, for ever
            assert "/other" in {message["path"] for message in server.seen}


async def test_an_answer_has_a_bound(tmp_path: Path) -> None:
    """The same limit as on a pipe, and the connection goes on."""
    with serving() as server:
        limits = {"result_bytes": 1_000_000}
        tools = ["mcp/web/big", "mcp/web/stream"]
        web = {"web": {"url": server.url}}
        async with runtime_of(tmp_path, tools, web, limits=limits) as runtime:
            result = await runtime.registry.dispatch("web__big", {})
            assert result.code == "output_limit"
            assert (await runtime.registry.dispatch("web__stream", {})).text == "streamed"


async def test_what_a_server_elsewhere_goes_on_doing_is_not_claimed_to_be_stopped(
    tmp_path: Path,
) -> None:
    """A timeout is reported; that it may go on is said."""
    with serving() as server:
        web = {"web": {"url": server.url, "idle_ms": 300}}
        async with runtime_of(tmp_path, ["mcp/web/hang", "mcp/web/stream"], web) as runtime:
            result = await runtime.registry.dispatch("web__hang", {})
            assert (result.code, result.detail["stopped"]) == ("timeout", False)
            assert "may still be working" in result.text
            assert (await runtime.registry.dispatch("web__stream", {})).text == "streamed"


async def test_a_server_that_is_away_is_found_again(tmp_path: Path) -> None:
    """Its tools are withheld when it is not there; a connection that broke is opened anew."""
    with serving() as server:
        web = {"web": {"url": server.url}, "gone": {"url": "http://127.0.0.1:1/mcp"}}
        tools = ["mcp/web/vanish", "mcp/web/stream", "mcp/gone/x"]
        async with runtime_of(tmp_path, tools, web) as runtime:
            assert "could not be reached" in runtime.loaded.missing[0].reason
            broken = await runtime.registry.dispatch("web__vanish", {})
            assert broken.code == "mcp_unavailable"
            assert (await runtime.registry.dispatch("web__stream", {})).text == "streamed"


class Official:
    """A server of the official SDK, which speaks both eras."""

    def __init__(self) -> None:
        from mcp.server.subscriptions import InMemorySubscriptionBus

        self.required: list[str] = []
        self.bus = InMemorySubscriptionBus()

    async def list_tools(self, _context: Any, _params: Any) -> Any:
        import mcp_types as types

        properties = {"text": {"type": "string"}}
        shout = {"type": "object", "properties": properties, "required": self.required}
        tools = [
            types.Tool(name="shout", input_schema=shout),
            types.Tool(name="greet", input_schema={"type": "object"}),
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, _context: Any, params: Any) -> Any:
        import mcp_types as types

        if params.name == "shout":
            text = params.arguments["text"].upper()
        elif not params.input_responses:
            schema = {"type": "object", "properties": {"name": {"type": "string"}}}
            question = types.ElicitRequestFormParams(message="Who?", requested_schema=schema)
            return types.InputRequiredResult(
                input_requests={"who": types.ElicitRequest(params=question)}, request_state="s1"
            )
        else:
            answer = params.input_responses["who"]
            text = f"{params.request_state}: {answer.action} {answer.content}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    async def change(self) -> None:
        from mcp.shared.subscriptions import ToolsListChanged

        self.required = ["text"]
        await self.bus.publish(ToolsListChanged())

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        import hypercorn.trio
        from hypercorn.config import Config
        from mcp.server.lowlevel import Server
        from mcp.server.subscriptions import ListenHandler

        server = Server(
            "official",
            version="2",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_subscriptions_listen=ListenHandler(self.bus),
        )
        config = Config()
        config.bind = ["127.0.0.1:0"]
        config.loglevel = "ERROR"
        async with trio.open_nursery() as nursery:
            urls = await nursery.start(hypercorn.trio.serve, server.streamable_http_app(), config)
            yield f"{urls[0]}/mcp"
            nursery.cancel_scope.cancel()


class Person:
    """Answers every question with a name."""

    def can_ask(self, session: str) -> bool:
        return True

    async def ask(self, _question: Any, reply: Any) -> None:
        await reply.answer({"f0": "Ada"})


async def test_the_official_server_is_called_in_its_newest_era(tmp_path: Path) -> None:
    """No handshake; questions are results; changes come on a stream that was asked for."""
    official = Official()
    tools = ["mcp/web/shout", "mcp/web/greet"]
    async with (
        official.serving() as url,
        runtime_of(tmp_path, tools, {"web": {"url": url}}, interact=Person()) as runtime,
    ):
        server = runtime.servers._servers["web"]
        assert server._connection is not None
        session = server._connection.session
        assert session._session.protocol_version == "2026-07-28"
        result = await runtime.registry.dispatch("web__shout", {"text": "hey"})
        assert (result.text, result.is_error) == ("HEY", False)
        async with runtime.open_session() as opened:
            greeted = await opened.dispatch("web__greet", {})
            assert greeted.text == "s1: accept {'name': 'Ada'}"
        await official.change()
        while not session.list_changed:
            await trio.sleep(0.01)
        changed = await runtime.registry.dispatch("web__shout", {"text": "hey"})
        assert (changed.code, changed.detail["changed"]) == ("mcp_unavailable", True)
