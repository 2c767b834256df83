"""The MCP servers of a runtime: their selected tools, and calls of those."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from ..config import Config
from ..errors import ManifestError
from ..fields import did_you_mean
from ..pool import Launcher
from ..pool.nursery import open_service_nursery
from ..tools import MissingTool, ToolRegistry
from ..tools.mcp import load_definition, split_ref
from ..tools.registry import Found
from ..variables import VariableService
from .calls import ServerCall
from .failures import ServerFailure
from .results import convert_result, is_large
from .server import Server

if TYPE_CHECKING:
    from .protocol import Listing

__all__ = ["McpService", "open_servers"]

_log = logging.getLogger(__name__)
_MAX_KNOWN = 20


class McpService:
    """The servers of one runtime. Use ``open_servers``."""

    def __init__(
        self,
        config: Config,
        launcher: Launcher,
        variables: VariableService,
        nursery: trio.Nursery,
        *,
        cwd: str,
        elicits: bool,
    ) -> None:
        self._config = config
        self._launcher = launcher
        self._variables = variables
        self._nursery = nursery
        self._cwd = cwd
        self._elicits = elicits
        self._servers: dict[str, Server] = {}

    async def select(self, registry: ToolRegistry) -> ToolRegistry:
        """Start the servers of the pending tools, all at once, and complete the registry.

        A server that fails is no error: its tools are missing, and a warning says why.

        Raises:
            ConfigError: ``tool_conflict``: two tools have one name.
        """
        if not registry.pending:
            return registry
        wanted: dict[str, list[str]] = {}
        for use in registry.pending:
            server, tool = split_ref(use.ref)
            wanted.setdefault(server, []).append(tool)
        for name in wanted:
            self._servers[name] = Server(
                self._config,
                self._config.mcp[name],
                self._launcher,
                self._variables,
                self._nursery,
                cwd=self._cwd,
                elicits=self._elicits,
            )
        names = registry.pending_names()
        found: dict[str, Found] = {}

        async def ask(name: str) -> None:
            offered = await self._servers[name].start()
            for tool in wanted[name]:
                ref = f"mcp/{name}/{tool}"
                found[ref] = self._take(name, tool, names[ref], offered)

        async with trio.open_nursery() as nursery:
            for name in wanted:
                nursery.start_soon(ask, name)
        completed = registry.with_servers(self._config, found)
        for text in (*map(str, completed.missing), *self.warnings()):
            _log.warning("%s", text)
        return completed

    def warnings(self) -> tuple[str, ...]:
        """Return what the operator should know of the running servers."""
        return tuple(text for server in self._servers.values() for text in server.warnings())

    async def call(self, call: ServerCall) -> dict[str, Any]:
        """Make one call; return ``{content, isError}`` as the contract has it.

        If cancelled, the call is withdrawn, and ``Cancelled`` goes on when nothing of it does.

        Raises:
            CallRefused: There is no result.
        """
        server = self._servers[call.origin.server]
        raw = await server.call(call)

        def convert() -> dict[str, Any]:
            return convert_result(call.identity, call.origin, server.clean(raw))

        # One server's result must not hold up the calls of all others.
        return await trio.to_thread.run_sync(convert) if is_large(raw) else convert()

    def _take(self, server: str, tool: str, name: str, offered: Listing | ServerFailure) -> Found:
        identity = f"mcp/{server}/{tool}"
        if isinstance(offered, ServerFailure):
            hint = self._servers[server].hint() or offered.hint
            reason = f"MCP server {server!r} {offered.reason}"
            return MissingTool(identity, name, reason, hint, offered.detail)
        definition = offered.tools.get(tool)
        if definition is None:
            reason = offered.refused.get(tool) or _no_such_tool(tool, offered.tools)
            return MissingTool(identity, name, reason)
        try:
            return load_definition(
                self._config.mcp[server],
                name,
                definition,
                version=self._servers[server].version,
            )
        except ManifestError as exc:
            problems = [
                {"pointer": problem.pointer, "message": problem.message} for problem in exc.problems
            ]
            reason = f"its definition is refused: {exc.message}"
            return MissingTool(identity, name, reason, exc.hint, {"problems": problems})

    async def close(self) -> None:
        """End every server, all at once; return when nothing is left of them."""
        async with trio.open_nursery() as nursery:
            for server in self._servers.values():
                nursery.start_soon(server.close)


def _no_such_tool(tool: str, known: Mapping[str, Any]) -> str:
    near = did_you_mean(tool, known)
    listed = ", ".join(repr(name) for name in list(known)[:_MAX_KNOWN]) or "none"
    return f"its server has no tool {tool!r}{near or f'; it has {listed:.500}'}"


@asynccontextmanager
async def open_servers(
    config: Config,
    launcher: Launcher,
    variables: VariableService,
    *,
    cwd: str,
    elicits: bool,
) -> AsyncIterator[McpService]:
    """Open the MCP servers of a runtime. Starts nothing until tools are selected.

    On exit every server is ended and reaped.

    Args:
        cwd: Absolute working directory of the runtime.
        elicits: Whether there may be a person to ask.
    """
    async with open_service_nursery() as nursery:
        service = McpService(config, launcher, variables, nursery, cwd=cwd, elicits=elicits)
        try:
            yield service
        finally:
            with trio.CancelScope(shield=True):
                await service.close()
            nursery.cancel_scope.cancel()
