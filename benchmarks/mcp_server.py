"""A call through ``raw mcp``, beside servers of the official SDKs that do the same work.

Twice: with the official Python client, as an application does it, and with a thin one, a line
to a pipe and a line from a pipe. The official client takes longer than any of the servers.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import trio

from .claims import Bench, BenchmarkFailed, Claim
from .entrants import add_peer
from .mcp_peers import open_mcp_peer, server_command
from .measure import Contestant, Round, interleave_into, timed
from .report import Goal, Section, ratio_goal
from .workspace import (
    ARGUMENTS,
    ECHO,
    PYTHON_ECHO,
    Workspace,
    call_tool,
    open_bench_runtime,
    write_workspace,
)

BASE = "official client: TypeScript SDK's server"
OWN = "official client: raw mcp, sandboxed ESM"
OFFICIAL_CHILD = "official client: TypeScript SDK's server, tool in a child"
OFFICIAL_PYTHON = "official client: Python SDK's server"
ESM = "thin client: raw mcp, sandboxed ESM"
PYTHON = "thin client: raw mcp, sandboxed Python"
THIN_TYPESCRIPT = "thin client: TypeScript SDK's server"
THIN_CHILD = "thin client: TypeScript SDK's server, tool in a child"
THIN_PYTHON = "thin client: Python SDK's server"
IN_PROCESS = "raw_exec, the same ESM call without MCP"
STATELESS = "thin client: raw mcp, sandboxed ESM, 2026-07-28"

_ROOT = Path(__file__).parent.parent
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class ThinClient:
    """Talks to one server over its pipes, in the thread that calls it."""

    def __init__(self, to_server: Any, from_server: Any) -> None:
        self._to = to_server
        # Buffered for reading only: a line that is written must leave at once.
        self._lines = io.BufferedReader(from_server)
        self._count = 0

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        self._count += 1
        self._send({"id": self._count, "method": method, "params": params})
        message = json.loads(self._lines.readline())
        if message.get("id") != self._count or "result" not in message:
            raise BenchmarkFailed(f"{method}: {str(message)[:300]}")
        result: dict[str, Any] = message["result"]
        return result

    def _send(self, message: dict[str, Any]) -> None:
        self._to.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def initialize(self) -> None:
        """Do the handshake."""
        client = {"name": "bench", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self.ask("initialize", params)
        self._send({"method": "notifications/initialized"})

    def calls(self, name: str, meta: dict[str, Any] | None = None) -> Round:
        """Return a round of calls of a tool that echoes."""
        params: dict[str, Any] = {"name": name, "arguments": dict(ARGUMENTS)}
        if meta is not None:
            params["_meta"] = meta

        def work(calls: int) -> list[float]:
            samples = []
            for _ in range(calls):
                start = time.perf_counter()
                result = self.ask("tools/call", params)
                samples.append(time.perf_counter() - start)
                if result.get("isError") or result["content"][0]["text"] != ARGUMENTS["text"]:
                    raise BenchmarkFailed(f"{name}: {str(result)[:300]}")
            return samples

        async def run(calls: int) -> list[float]:
            return await trio.to_thread.run_sync(work, calls)

        return run


@contextmanager
def open_client(command: list[str]) -> Iterator[ThinClient]:
    """Start a server and connect to it."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        cwd=_ROOT,
    )
    try:
        client = ThinClient(process.stdin, process.stdout)
        client.initialize()
        yield client
    finally:
        process.terminate()
        process.wait()


def _own_command(space: Workspace) -> list[str]:
    options = ["--config", str(space.config), "--cwd", str(space.cwd)]
    return [sys.executable, "-m", "raw_exec", "mcp", *options]


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    space = write_workspace(bench, "mcp_server", {"echo": ECHO, "python": PYTHON_ECHO})
    contestants: list[Contestant] = []
    with ExitStack() as stack:
        own = stack.enter_context(open_client(_own_command(space)))
        contestants.append(Contestant(ESM, own.calls("echo")))
        contestants.append(Contestant(STATELESS, own.calls("echo", _META)))
        contestants.append(Contestant(PYTHON, own.calls("python")))
        thin = (
            (THIN_TYPESCRIPT, "typescript"),
            (THIN_CHILD, "typescript-child"),
            (THIN_PYTHON, "python"),
        )
        for name, kind in thin:

            def make(kind: str = kind) -> Round:
                return stack.enter_context(open_client(server_command(kind))).calls("echo")

            add_peer(section, contestants, name, make)
        commands = (
            (OWN, _own_command(space)),
            (BASE, "typescript"),
            (OFFICIAL_CHILD, "typescript-child"),
            (OFFICIAL_PYTHON, "python"),
        )
        for name, server in commands:

            def make_official(server: str | list[str] = server) -> Round:
                kind, command = (server, None) if isinstance(server, str) else ("", server)
                # The protocol that the TypeScript SDK speaks, for all of them.
                peer = stack.enter_context(open_mcp_peer(kind, command, mode="legacy"))
                return peer.calls(ARGUMENTS)

            add_peer(section, contestants, name, make_official, calls=bench.size(30, 10))
        async with open_bench_runtime(bench, space) as runtime:
            call = timed(lambda: call_tool(runtime, "echo", ARGUMENTS))
            contestants.append(Contestant(IN_PROCESS, call))
            await interleave_into(
                section,
                contestants,
                rounds=bench.round_count(40, 10),
                calls=bench.size(60, 20),
                warm_up=bench.size(100, 30),
                scale=1e3,
            )
    section.notes.append(
        "the servers of the SDKs run the tool in their own process, or a child, unprotected"
    )


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    goal = "a call through raw mcp, vs the TypeScript SDK's server"
    child = f"{goal} with the tool in a child"
    return [
        ratio_goal(section, f"{goal}, official client", OWN, limit=1.0),
        ratio_goal(section, f"{goal}, thin client", ESM, limit=1.0, base=THIN_TYPESCRIPT),
        ratio_goal(section, f"{child}, official client", OWN, limit=1.0, base=OFFICIAL_CHILD),
        ratio_goal(section, f"{child}, thin client", ESM, limit=1.0, base=THIN_CHILD),
    ]


CLAIM = Claim("mcp_server", "A call over MCP stdio", "ms", BASE, run, judge)
