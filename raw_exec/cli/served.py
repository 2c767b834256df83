"""Tools of MCP servers for commands that only look at tools: the servers run meanwhile."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..config import Config
from ..tools import Tool, ToolRegistry, derive_server_plan, load_registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..sandbox import RuntimeFiles

__all__ = ["describe_server", "find_server_files", "load_all_tools"]


def load_all_tools(config: Config, cwd: str) -> ToolRegistry:
    """Load the selected tools; servers of selected MCP tools are started, asked and ended.

    Args:
        config: The configuration.
        cwd: Absolute working directory, for ``$CWD`` of their profiles.

    Raises:
        ConfigError: A selected tool can't be loaded, or two have one name.
    """
    registry = load_registry(config)
    if not registry.pending:
        return registry
    # Most configurations have none, and the commands should be quick there.
    from ..mcp_client import open_servers
    from ..pool import open_launcher
    from ..private_root import open_private_root
    from ..variables import open_variables
    from .running import run_async

    async def run() -> ToolRegistry:
        with open_private_root() as root:
            async with (
                open_launcher(scratch_parent=root) as launcher,
                open_variables(config, launcher) as variables,
                open_servers(config, launcher, variables, cwd=cwd, elicits=False) as servers,
            ):
                return await servers.select(registry)

    with _quiet():
        return run_async(run)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the log still: the command shows the registry's warnings itself."""
    log = logging.getLogger("raw_exec.mcp_client")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def find_server_files(config: Config, tool: Tool, cwd: str) -> RuntimeFiles | None:
    """Return the files that the server of a tool consists of; ``None`` if it runs elsewhere."""
    from ..mcp_client.program import find_server_program, start_directory
    from ..pool.oneshot import ProgramUnavailable

    if tool.mcp is None or config.mcp[tool.mcp.server].command is None:
        return None
    server = config.mcp[tool.mcp.server]
    plan = derive_server_plan(config, server, cwd)
    try:
        return find_server_program(config, server, start_directory(config, server, plan, cwd)).files
    except ProgramUnavailable:
        return None


def describe_server(config: Config, tool: Tool, cwd: str) -> dict[str, Any] | None:
    """Say which server runs a tool, and what files it consists of; no values of its settings."""
    if tool.mcp is None:
        return None
    server = config.mcp[tool.mcp.server]
    files = find_server_files(config, tool, cwd)
    return {
        "name": server.name,
        "tool": tool.mcp.tool,
        "type": server.type,
        "at": server.url if server.command is None else server.command,
        "files": [] if files is None else list(files.read),
    }
