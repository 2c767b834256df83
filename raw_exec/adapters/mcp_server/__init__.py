"""MCP server: the selected tools of an agent for any MCP client, over stdio and HTTP.

    async with open_host(facts) as host:
        await host.replace(lambda: open_runtime(config, approve=host.approve, interact=host, ...))
        await serve_stdio(host)

Nothing here imports an SDK.
"""

from __future__ import annotations

from .host import Host, open_host
from .protocol import ServerFacts
from .stdio import serve_pipes, serve_stdio
from .watching import ToolSource, watch_tools

__all__ = [
    "Host",
    "ServerFacts",
    "ToolSource",
    "open_host",
    "serve_pipes",
    "serve_stdio",
    "watch_tools",
]
