"""What a selected tool is granted in a working directory, and what an MCP server is.

A stdio server without a profile of its own may read the files that it consists of, and the
``cwd`` that its configuration names; it writes nothing but its private scratch, has no network
and starts no other program. Its process serves all its tools and every call, so that ``$CWD``
of its profile is the working directory that the runtime was opened with.

Not covered: a server that runs elsewhere. Nothing can be enforced on it.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from ..config import Config, McpServer
from ..sandbox import SandboxPlan, derive_plan
from .registry import Tool

__all__ = ["derive_server_plan", "derive_tool_plan", "server_cwd"]


def derive_tool_plan(config: Config, tool: Tool, cwd: str) -> SandboxPlan:
    """Derive the sandbox plan of a tool for an absolute working directory.

    Raises:
        SandboxError: The profile grants something that can't be granted.
    """
    if tool.mcp is not None:
        return derive_server_plan(config, config.mcp[tool.mcp.server], cwd)
    return derive_plan(
        config.sandbox,
        tool_identity=tool.identity,
        profile=tool.profile,
        cwd=cwd,
        config_directory=str(config.directory),
        home=str(Path.home()),
        limits=config.limits,
    )


def server_cwd(config: Config, server: McpServer) -> str | None:
    """Return the absolute directory that a server's configuration names, if it does."""
    return None if server.cwd is None else os.path.abspath(config.directory / server.cwd)


def derive_server_plan(config: Config, server: McpServer, cwd: str) -> SandboxPlan:
    """Derive what the process of an MCP server may do, its own files apart.

    Args:
        config: The configuration.
        server: One of its servers.
        cwd: Absolute working directory of the runtime.

    Raises:
        SandboxError: The profile grants something that can't be granted.
    """
    if server.url is not None:
        host = urlsplit(server.url).hostname
        return _bare_plan(
            config,
            server.profile,
            network="host",
            sandbox=False,
            warnings=(f"runs at {host}, where nothing can be enforced",),
        )
    if server.sandbox is not None:
        return derive_plan(
            config.sandbox,
            tool_identity=f"mcp/{server.name}",
            profile=server.sandbox,
            cwd=cwd,
            config_directory=str(config.directory),
            home=str(Path.home()),
            limits=config.limits,
        )
    directory = server_cwd(config, server)
    return _bare_plan(config, server.profile, read=() if directory is None else (directory,))


def _bare_plan(
    config: Config,
    profile: str,
    *,
    read: tuple[str, ...] = (),
    network: str = "none",
    sandbox: bool = True,
    warnings: tuple[str, ...] = (),
) -> SandboxPlan:
    return SandboxPlan(
        profile=profile,
        read=read,
        write=(),
        network=network,
        processes=False,
        tier="baseline",
        isolation="pooled",
        effects="declared",
        sandbox=sandbox,
        memory_bytes=config.limits.memory_bytes,
        scratch_bytes=config.limits.scratch_bytes,
        warnings=warnings,
    )
