"""A server with the tools of these tests, and a client at its pipes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from raw_exec.adapters.mcp_server import Host
from toolbox import footprint

from .support import Wire, open_server, open_wire, write_tools


@pytest.fixture
async def host(tmp_path: Path, cache: Path) -> AsyncIterator[Host]:
    """Return a host; at the end nothing of it is left."""
    write_tools(tmp_path)
    before = footprint()
    with trio.fail_after(30):
        async with open_server(tmp_path, cache) as opened:
            yield opened
    assert footprint() == before


@pytest.fixture
async def wire(host: Host) -> AsyncIterator[Wire]:
    """Return a client that has said nothing yet."""
    async with open_wire(host) as client:
        yield client
