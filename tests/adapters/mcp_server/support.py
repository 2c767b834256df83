"""A server in the test's own loop, and a client that can be as rude as a test wants."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

import raw_exec
from raw_exec.adapters.mcp_server import Host, ServerFacts, ToolSource, open_host, serve_pipes
from raw_exec.adapters.mcp_server.eras import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from raw_exec.adapters.mcp_server.http import McpApp
from raw_exec.serving import LocalOnly, allowed_hosts, open_listener, serve_app, url_of
from toolbox import write_config, write_tool

INFO = {"name": "raw-exec", "version": "1"}
NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}

ECHO = """
def handler(args, context):
    return {"content": [{"type": "text", "text": args["text"]}]}
"""
# Says that it runs, and ends only with its process.
HANG = """
import os, time


def handler(args, context):
    with open(os.path.join(context.cwd, "running"), "a") as file:
        file.write("running\\n")
    while True:
        time.sleep(60)
"""
PANEL = [{"id": "work", "title": "Work", "placement": "chat"}]
PROGRESS = """
export async function handler({ steps }, context) {
  for (let done = 0; done <= steps; done++) {
    await context.panels.update("work", {
      op: "replace",
      document: { progress: { done, total: steps }, summary: `step ${done}`, blocks: [] },
    });
  }
  return { content: [{ type: "text", text: "done" }] };
}
"""
ASK = """
export async function handler(_args, context) {
  const fields = [
    { id: "name", label: "Your\\u202e name", kind: "text" },
    { id: "size", label: "Size", kind: "single_select",
      options: [{ id: "s", label: "Small" }, { id: "l", label: "Large" }] },
    { id: "tags", label: "Tags", kind: "multi_select", required: false,
      options: [{ id: "a", label: "A" }, { id: "b", label: "B" }] },
  ];
  const form = { id: "order", kind: "form", fields };
  try {
    const { answers } = await context.interactions.request({
      panel: "work", document: { title: "Your order", blocks: [form] },
    });
    return { content: [{ type: "json", value: answers }] };
  } catch (error) {
    return { content: [{ type: "text", text: error.code }], isError: true, code: error.code };
  }
}
"""
DATA = """
export async function handler({ kind }) {
  const value = { object: { a: 1 }, list: [1, 2], failed: { a: 1 } }[kind];
  return { content: [{ type: "json", value }], ...(kind === "failed" ? { isError: true } : {}) };
}
"""


def write_tools(root: Path, *more: str, **fields: Any) -> Path:
    """Write the tools of these tests and a configuration that selects them."""
    write_tool(root, "echo", ECHO, language="python", schema=TEXT)
    write_tool(root, "hang", HANG, language="python", schema=NO_ARGUMENTS)
    write_tool(root, "progress", PROGRESS, panels=PANEL)
    write_tool(root, "ask", ASK, panels=PANEL, schema=NO_ARGUMENTS)
    write_tool(root, "data", DATA)
    write_tool(root, "guarded", ECHO, language="python", schema=TEXT)
    (root / "cwd").mkdir(exist_ok=True)
    names = ["echo", "hang", "progress", "ask", "data", "guarded", *more]
    fields.setdefault("rules", [{"match": "agent/guarded", "effect": "ask"}])
    fields.setdefault("limits", {"grace_ms": 50})
    return write_config(root, names, **fields)


@asynccontextmanager
async def open_server(root: Path, cache: Path, *, changes: bool = False) -> AsyncIterator[Host]:
    """Open a host that serves the configuration in ``root``."""
    async with open_host(ServerFacts(INFO, changes=changes)) as host:
        await source_of(host, root, cache).serve(host)
        yield host


def source_of(host: Host, root: Path, cache: Path) -> ToolSource:
    """Return where a host's tools come from."""

    def opening(config: raw_exec.Config) -> Any:
        return partial(
            raw_exec.open_runtime,
            config,
            cwd=root / "cwd",
            cache_dir=cache,
            approve=host.approve,
            interact=host,
        )

    load = partial(raw_exec.load_config, root / "config.json")
    return ToolSource(load, opening, keeps_history=False)


class Wire:
    """The client's end of two pipes: lines of JSON."""

    def __init__(self, to_server: int, from_server: int) -> None:
        self._to = trio.lowlevel.FdStream(to_server)
        self._from = trio.lowlevel.FdStream(from_server)
        self._rest = b""
        self._ids = itertools.count(1)

    async def send_bytes(self, data: bytes) -> None:
        await self._to.send_all(data)

    async def send(self, message: dict[str, Any]) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message})
        await self.send_bytes(text.encode() + b"\n")

    async def request(self, method: str, **params: Any) -> int:
        """Send a request; return its ID."""
        request_id = next(self._ids)
        await self.send({"id": request_id, "method": method, "params": params})
        return request_id

    async def receive(self) -> dict[str, Any]:
        """Return the next message."""
        while b"\n" not in self._rest:
            data = await self._from.receive_some(1024 * 1024)
            if not data:
                raise EOFError("the server closed its output")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        assert message.pop("jsonrpc") == "2.0"
        return message

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return the message that answers it, which must come next."""
        request_id = await self.request(method, **params)
        message = await self.receive()
        assert message.get("id") == request_id, message
        return message

    async def initialize(self, version: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
        """Do the handshake; return what the server said."""
        answer = await self.ask(
            "initialize",
            protocolVersion=version,
            capabilities=capabilities,
            clientInfo={"name": "test", "version": "1"},
        )
        await self.send({"method": "notifications/initialized"})
        result: dict[str, Any] = answer["result"]
        return result

    async def close_input(self) -> None:
        await self._to.aclose()

    async def close_output(self) -> None:
        await self._from.aclose()


def stateless(**capabilities: Any) -> dict[str, Any]:
    """Return ``_meta`` of a stateless request."""
    return {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: capabilities}


@asynccontextmanager
async def open_wire(host: Host) -> AsyncIterator[Wire]:
    """Connect to a host by pipes; at the end of the block the client is gone."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    wire = Wire(to_write, from_read)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_serve, host, to_read, from_write)
            try:
                yield wire
            finally:
                with trio.CancelScope(shield=True):
                    await wire.close_input()
                    await wire.close_output()
    finally:
        os.close(to_read)


async def _serve(host: Host, incoming: int, outgoing: int) -> None:
    try:
        await serve_pipes(host, incoming, outgoing)
    finally:
        os.close(outgoing)  # so that the client sees the end


@asynccontextmanager
async def open_http(host: Host) -> AsyncIterator[str]:
    """Serve a host over HTTP in this loop; yield the endpoint."""
    stop = trio.Event()
    with open_listener("127.0.0.1", 0) as listener:
        url, port = url_of(listener), listener.getsockname()[1]
        inner = McpApp(host, stop)
        app = LocalOnly(inner, allowed_hosts("127.0.0.1", port))
        async with trio.open_nursery() as nursery:
            serving = partial(serve_app, app, listener, stop=stop, graceful_seconds=1.0)
            await nursery.start(serving)
            try:
                yield f"{url}/mcp"
            finally:
                stop.set()
                inner.close()


async def wait_file(path: Path, lines: int = 1) -> None:
    """Return once a file has that many lines."""
    file = trio.Path(path)
    while not await file.exists() or len((await file.read_text()).splitlines()) < lines:
        await trio.sleep(0.01)


async def wait_dead(host: Host) -> None:
    """Return once no call runs, and no process of one."""
    while host.calls or host.generation.runtime.statistics().live_trees:
        await trio.sleep(0.01)
