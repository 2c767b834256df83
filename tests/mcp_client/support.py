"""Configurations with the fixture server."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

import raw_exec
from raw_exec.runtime import Runtime
from toolbox import write_config

FIXTURE = Path(__file__).parent / "fixture_server.py"


def fixture_server(*faults: str, **fields: Any) -> dict[str, Any]:
    """Return the configuration of the fixture server."""
    argv = [str(FIXTURE), *faults]
    return {"type": "stdio", "command": sys.executable, "args": argv, **fields}


def mcp_config(
    root: Path, tools: list[Any], servers: dict[str, Any], **fields: Any
) -> raw_exec.Config:
    """Write a configuration that selects tools of servers, in that order, and load it."""
    path = write_config(root, [], mcp={"servers": servers}, **fields)
    document = json.loads(path.read_text())
    document["agents"]["a"]["tools"]["use"] = tools
    path.write_text(json.dumps(document))
    return raw_exec.load_config(path)


@asynccontextmanager
async def runtime_of(
    root: Path, tools: list[Any], servers: dict[str, Any] | None = None, **fields: Any
) -> AsyncIterator[Runtime]:
    """Open a runtime; names without a source are tools of the fixture server ``s``."""
    options = {
        key: fields.pop(key)
        for key in ("approve", "interact", "history", "simulate", "audit")
        if key in fields
    }
    named = [f"mcp/s/{one}" if isinstance(one, str) and "/" not in one else one for one in tools]
    config = mcp_config(root, named, servers or {"s": fixture_server()}, **fields)
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=root, **options) as runtime:
            yield runtime
