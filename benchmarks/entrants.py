"""Bring contestants to a table; one that can't come is named with the reason, not dropped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any

import trio

from .bare_echo import EchoProcess
from .claims import BenchmarkFailed
from .mcp_peers import open_mcp_peer
from .measure import Contestant, Round, Unavailable, describe_error, timed
from .report import Section

__all__ = [
    "MCP_PYTHON",
    "MCP_TYPESCRIPT",
    "TRIO_PARALLEL",
    "add_mcp_peers",
    "add_peer",
    "echo_round",
    "raw_round",
    "trio_parallel_call",
    "trio_parallel_round",
]

MCP_PYTHON = "MCP Python SDK, stdio"
MCP_TYPESCRIPT = "MCP TypeScript SDK, stdio"
TRIO_PARALLEL = "trio-parallel run_sync"


def add_peer(
    section: Section,
    contestants: list[Contestant],
    name: str,
    make: Callable[[], Round],
    *,
    calls: int = 0,
    rounds: int = 0,
    note: str = "",
) -> None:
    """Add a peer, or put down why it can't take part."""
    try:
        run = make()
    except Exception as exc:
        # A peer that breaks in any way must not take the table with it.
        section.unavailable[name] = describe_error(exc)
    else:
        contestants.append(
            Contestant(name, run, calls=calls, rounds=rounds, note=note, is_peer=True)
        )


def add_mcp_peers(
    section: Section,
    contestants: list[Contestant],
    stack: ExitStack,
    arguments: Mapping[str, Any],
    *,
    calls: int = 0,
) -> None:
    """Add both MCP servers; they are ended when the stack is."""
    for name, kind in ((MCP_TYPESCRIPT, "typescript"), (MCP_PYTHON, "python")):

        def make(kind: str = kind) -> Round:
            return stack.enter_context(open_mcp_peer(kind)).calls(arguments)

        add_peer(section, contestants, name, make, calls=calls)


def echo_round(echo: EchoProcess, arguments: Mapping[str, Any]) -> Round:
    """Return a round of the bare echo with a msgpack codec and an async handler."""

    async def call() -> None:
        value = await echo.call(arguments)
        if len(value["content"][0]["text"]) != len(arguments["text"]):
            raise BenchmarkFailed("the echo lost something")

    return timed(call)


def raw_round(echo: EchoProcess, body: bytes) -> Round:
    """Return a round of bytes there and back."""

    async def call() -> None:
        if len(await echo.exchange(body)) != len(body):
            raise BenchmarkFailed("the echo lost something")

    return timed(call)


def echo_in_this_process(arguments: dict[str, Any]) -> dict[str, Any]:
    """Do what the echo tool does; trio-parallel runs it in its worker."""
    return {"content": [{"type": "text", "text": arguments["text"]}]}


def trio_parallel_call(
    arguments: Mapping[str, Any], limiter: trio.CapacityLimiter | None = None
) -> Callable[[], Awaitable[object]]:
    """Return a call of trio-parallel, in as many workers as the limiter allows.

    Raises:
        Unavailable: It is not installed.
    """
    try:
        import trio_parallel
    except ImportError as exc:
        raise Unavailable(f"the package 'trio-parallel' is not installed: {exc}") from exc
    plain = dict(arguments)
    return lambda: trio_parallel.run_sync(echo_in_this_process, plain, limiter=limiter)


def trio_parallel_round(arguments: Mapping[str, Any]) -> Round:
    """Return a round of trio-parallel calls.

    Raises:
        Unavailable: It is not installed.
    """
    return timed(trio_parallel_call(arguments))
