"""MCP over stdio as a peer: the Python SDK's client, with its own and the TypeScript server.

The client runs on asyncio, which is its faster event loop, in a thread of its own; the main
thread waits meanwhile and runs nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, TextIO

import trio

from .host import node_path
from .measure import Round, Unavailable

__all__ = ["McpPeer", "install_npm_peers", "open_mcp_peer", "server_command", "start_and_call"]

PEERS = Path(__file__).parent / "peers"
_INSTALL_SECONDS = 120


@cache
def install_npm_peers() -> None:
    """Install the npm packages that peers need, as locked, if they are not there.

    Raises:
        Unavailable: There is no npm, or it failed.
    """
    marker = PEERS / "node_modules" / ".package-lock.json"
    if marker.is_file() and marker.stat().st_mtime >= (PEERS / "package-lock.json").stat().st_mtime:
        return
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is not installed, which installs the peer")
    print("installing the npm peers, once …", file=sys.stderr)
    try:
        done = subprocess.run(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=PEERS,
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Unavailable(f"npm ci failed: {exc}") from exc
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        raise Unavailable(f"npm ci failed: {lines[0]:.200}")
    marker.touch()


def server_command(kind: str) -> list[str]:
    """Return the command line of a server.

    Args:
        kind: ``"python"``, ``"typescript"``, or ``"typescript-child"``, whose tool runs in a
            process of its own.

    Raises:
        Unavailable: It can't be had here.
    """
    try:
        import mcp  # noqa: F401 - it takes a second, so only when asked for
    except ImportError as exc:
        raise Unavailable(f"the package 'mcp' is not installed: {exc}") from exc
    if kind == "python":
        return [sys.executable, str(PEERS / "mcp_server.py")]
    install_npm_peers()
    name = "mcp_server_child.mjs" if kind == "typescript-child" else "mcp_server.mjs"
    return [node_path(), str(PEERS / name)]


class McpPeer:
    """A connected client in its own event loop."""

    def __init__(self, portal: Any, client: Any) -> None:
        self._portal = portal
        self._client = client

    def calls(self, arguments: Mapping[str, Any]) -> Round:
        """Return a round that calls the server's echo tool with these arguments."""

        async def in_its_loop(calls: int) -> list[float]:
            samples = []
            for _ in range(calls):
                start = time.perf_counter()
                result = await self._client.call_tool("echo", dict(arguments))
                samples.append(time.perf_counter() - start)
                _check(result, arguments)
            return samples

        async def run(calls: int) -> list[float]:
            work = partial(self._portal.call, in_its_loop, calls)
            samples: list[float] = await trio.to_thread.run_sync(work)
            return samples

        return run


def _check(result: Any, arguments: Mapping[str, Any]) -> None:
    if result.is_error or result.content[0].text != arguments["text"]:
        raise Unavailable(f"its echo tool answered {str(result)[:200]}")


@contextmanager
def open_mcp_peer(
    kind: str, command: list[str] | None = None, *, mode: str = "auto"
) -> Iterator[McpPeer]:
    """Start a server and connect to it.

    Args:
        kind: As ``server_command`` takes it.
        command: Another server's command line instead.
        mode: Of the client: ``"auto"`` takes the newest protocol that both speak.

    Raises:
        Unavailable: It can't be had here.
    """
    command = server_command(kind) if command is None else command
    with (
        _portal_and_log() as (portal, log),
        _connect(portal, command, log, mode) as client,
    ):
        yield McpPeer(portal, client)


@contextmanager
def _portal_and_log() -> Iterator[tuple[Any, TextIO]]:
    from anyio.from_thread import start_blocking_portal

    with open(os.devnull, "w", encoding="utf-8") as log, start_blocking_portal("asyncio") as portal:
        yield portal, log


@contextmanager
def _connect(portal: Any, command: list[str], log: TextIO, mode: str = "auto") -> Iterator[Any]:
    from mcp import Client, StdioServerParameters, stdio_client

    parameters = StdioServerParameters(command=command[0], args=command[1:])

    async def connect() -> Any:
        return Client(stdio_client(parameters, errlog=log), mode=mode)

    with portal.wrap_async_context_manager(portal.call(connect)) as client:
        yield client


def start_and_call(kind: str, arguments: Mapping[str, Any]) -> float:
    """Return the seconds from starting a server to its first answer; its end is not timed.

    Raises:
        Unavailable: It can't be had here.
    """
    command = server_command(kind)
    with _portal_and_log() as (portal, log):
        start = time.perf_counter()
        with _connect(portal, command, log) as client:
            result = portal.call(partial(client.call_tool, "echo", dict(arguments)))
            seconds = time.perf_counter() - start
    _check(result, arguments)
    return seconds
