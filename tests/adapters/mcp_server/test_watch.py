"""Tools that change while they are served."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from raw_exec.adapters.mcp_server import Host, ServerFacts, open_host, watch_tools
from raw_exec.adapters.mcp_server import watching as watching_module
from raw_exec.adapters.mcp_server.eras import SUBSCRIPTION_ID
from toolbox import footprint, write_tool

from .support import (
    ECHO,
    INFO,
    NO_ARGUMENTS,
    TEXT,
    open_http,
    open_wire,
    source_of,
    stateless,
    wait_file,
    write_tools,
)
from .test_http import Web, events, modern_headers, request

CHANGED = {"method": "notifications/tools/list_changed"}


@asynccontextmanager
async def open_watching(root: Path, cache: Path) -> AsyncIterator[Host]:
    """Serve the tools in ``root`` and look at them often."""
    before = footprint()
    with trio.fail_after(30):
        async with open_host(ServerFacts(INFO, changes=True)) as host:
            source = source_of(host, root, cache)
            await source.serve(host)
            async with trio.open_nursery() as nursery:
                watch = lambda: watch_tools(host, source, interval_seconds=0.05)  # noqa: E731
                nursery.start_soon(watch)
                yield host
                nursery.cancel_scope.cancel()
    assert footprint() == before


def select(root: Path, *names: str) -> None:
    """Let the configuration select other tools."""
    path = root / "config.json"
    document: dict[str, Any] = json.loads(path.read_text())
    document["agents"]["a"]["tools"] = {"use": [f"agent/{name}" for name in names]}
    path.write_text(json.dumps(document))


async def test_a_change_is_told_and_served(tmp_path: Path, cache: Path) -> None:
    """List-changed, in both eras at once, on one pipe."""
    write_tools(tmp_path)
    async with open_watching(tmp_path, cache) as host, open_wire(host) as wire:
        said = await wire.initialize()
        assert said["capabilities"] == {"tools": {"listChanged": True}}
        wanted = {"toolsListChanged": True, "promptsListChanged": True}
        listen = await wire.request("subscriptions/listen", _meta=stateless(), notifications=wanted)
        acknowledged = await wire.receive()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"] == {
            "notifications": {"toolsListChanged": True},
            "_meta": {SUBSCRIPTION_ID: listen},
        }
        write_tool(tmp_path, "added", ECHO, language="python", schema=TEXT)
        select(tmp_path, "echo", "added")
        notices = [await wire.receive(), await wire.receive()]
        assert CHANGED in notices
        assert {**CHANGED, "params": {"_meta": {SUBSCRIPTION_ID: listen}}} in notices
        listed = (await wire.ask("tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["echo", "added"]
        answer = await wire.ask("tools/call", name="added", arguments={"text": "new"})
        assert answer["result"]["content"][0]["text"] == "new"


async def test_other_code_is_served_without_a_notice(tmp_path: Path, cache: Path) -> None:
    """The list is as it was; only what the tool does has changed."""
    write_tools(tmp_path)
    async with open_watching(tmp_path, cache) as host, open_wire(host) as wire:
        await wire.initialize()
        before = host.generation
        source = ECHO.replace('args["text"]', '"other"')
        write_tool(tmp_path, "echo", source, language="python", schema=TEXT)
        while host.generation is before:
            await trio.sleep(0.01)
        answer = await wire.ask("tools/call", name="echo", arguments={"text": "x"})
        assert answer["result"]["content"][0]["text"] == "other"


async def test_a_broken_edit_keeps_the_tools_and_warns(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A slip while editing does not take the tools away."""
    write_tools(tmp_path)
    caplog.set_level(logging.INFO, "raw_exec.adapters.mcp_server")
    async with open_watching(tmp_path, cache) as host, open_wire(host) as wire:
        await wire.initialize()
        (tmp_path / "tools" / "echo" / "tool.json").write_text("{")
        while "the tools are as before" not in caplog.text:
            await trio.sleep(0.01)
        answer = await wire.ask("tools/call", name="echo", arguments={"text": "still"})
        assert answer["result"]["content"][0]["text"] == "still"
        shutil.rmtree(tmp_path / "tools" / "echo")
        write_tool(tmp_path, "echo", ECHO, language="python", schema=TEXT)
        while "were read again" not in caplog.text:
            await trio.sleep(0.01)


async def test_what_is_not_looked_at_is_told(
    tmp_path: Path,
    cache: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bound on files must not look like tools that never change."""
    monkeypatch.setattr(watching_module, "_MAX_FILES", 2)
    write_tools(tmp_path)
    async with open_watching(tmp_path, cache):
        while "only 2 files" not in caplog.text:
            await trio.sleep(0.01)


async def test_a_call_under_way_finishes_as_it_began(tmp_path: Path, cache: Path) -> None:
    """And its runtime is gone once it has."""
    waiting = """
import os, time


def handler(args, context):
    open(os.path.join(context.cwd, "running"), "w").write("running\\n")
    while not os.path.exists(os.path.join(context.cwd, "go")):
        time.sleep(0.01)
    return {"content": [{"type": "text", "text": "old"}]}
"""
    write_tool(tmp_path, "wait", waiting, language="python", schema=NO_ARGUMENTS)
    write_tools(tmp_path, "wait")
    async with open_watching(tmp_path, cache) as host, open_wire(host) as wire:
        await wire.initialize()
        call = await wire.request("tools/call", name="wait", arguments={})
        await wait_file(tmp_path / "cwd" / "running")
        old = host.generation
        select(tmp_path, "echo")
        assert await wire.receive() == CHANGED
        gone = await wire.ask("tools/call", name="wait", arguments={})
        assert gone["error"]["code"] == -32602
        (tmp_path / "cwd" / "go").write_text("")
        answer = await wire.receive()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (call, "old")
        with trio.fail_after(10):
            await old.wait_finished()


async def test_streams_of_http_tell_of_changes_until_they_are_closed(
    tmp_path: Path, cache: Path
) -> None:
    """GET for a session; a subscription for a stateless client, which ends with an answer."""
    write_tools(tmp_path)
    got: list[Any] = []
    acknowledged = trio.Event()
    async with (
        open_watching(tmp_path, cache) as host,
        trio.open_nursery() as nursery,
        httpx2.AsyncClient(timeout=20) as client,
    ):
        async with open_http(host) as url:
            web = Web(client, url)
            wanted = {"toolsListChanged": True}
            message = request("subscriptions/listen", _meta=stateless(), notifications=wanted)

            async def listen() -> None:
                async with web.stream(message, **modern_headers(message)) as stream:
                    async for item in stream:
                        got.append(item)
                        acknowledged.set()

            nursery.start_soon(listen)
            await acknowledged.wait()
            session = Web(client, url)
            await session.begin()
            headers = {"accept": "text/event-stream", **session.session}
            async with client.stream("GET", url, headers=headers) as stream:
                select(tmp_path, "echo")
                reader = events(stream)
                assert await anext(reader) == {"jsonrpc": "2.0", **CHANGED}
                await client.delete(url, headers=headers)
                assert [item async for item in reader] == []
            while len(got) < 2:
                await trio.sleep(0.01)
        while len(got) < 3:
            await trio.sleep(0.01)
    assert got[1]["params"] == {"_meta": {SUBSCRIPTION_ID: 1}}
    assert got[2]["result"]["_meta"][SUBSCRIPTION_ID] == 1
