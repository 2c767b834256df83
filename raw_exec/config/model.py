"""The checked configuration, as frozen values.

Security: ``VarSource.value`` and ``McpServer.env`` may hold secrets. They are kept out of
``repr`` so that a log line or an assertion does not show them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..limits import Limits
from ..policy import RuleSet, parse_rules
from .sandbox import SandboxConfig

__all__ = [
    "AgentConfig",
    "Config",
    "ContractsConfig",
    "McpServer",
    "ProviderConfig",
    "ToolUse",
    "VarConfig",
    "VarSource",
]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One entry of ``tools.use``.

    Args:
        ref: Exact selection ID, for example ``"local/append_notes"``.
        as_name: Model-visible name instead of the manifest's.
        pointer: Where it stands in the configuration.
    """

    ref: str
    as_name: str | None = None
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """One agent: what it may use, and under which rules.

    Args:
        max_output_bytes: Text and JSON of one result, together.
        request_timeout_ms: Of model requests; kept for hosts that make them.
        rules: Checked rules, in order.
        raw_rules: The same as written.
        hooks_use: Ordered hook IDs.
        vars: Names of selected variables.
    """

    name: str
    rules: RuleSet
    raw_rules: tuple[Mapping[str, Any], ...] = ()
    tools_use: tuple[ToolUse, ...] = ()
    hooks_use: tuple[str, ...] = ()
    vars: tuple[str, ...] = ()
    max_output_bytes: int = 8192
    request_timeout_ms: int | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class VarSource:
    """Where a variable's value comes from.

    Args:
        kind: ``literal``, ``env``, ``file`` or ``provider``.
        value: Of a literal. Security: may be a secret.
        name: Environment variable or provider.
        path: File, relative to the configuration's folder unless absolute.
        format: ``text`` or ``json``, files only.
        params: For the provider, frozen.
    """

    kind: str
    value: Any = field(default=None, repr=False)
    name: str | None = None
    path: str | None = None
    format: str = "text"
    params: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class VarConfig:
    """One variable.

    Args:
        access: ``read`` (may be read and referenced) or ``use`` (referenced only).
        type: Declared JSON type, or ``"json"`` for any.
        cache_ttl_ms: How long a value is kept; 0 resolves at every call.
    """

    name: str
    description: str
    access: str
    source: VarSource
    type: str | None = None
    cache_ttl_ms: int = 0


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """One variable provider: an executable run without a shell.

    Args:
        cwd: Relative to the configuration's folder unless absolute.
        max_output_bytes: Standard output and error together.
    """

    name: str
    command: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    timeout_ms: int = 5000
    max_output_bytes: int = 65536


@dataclass(frozen=True, slots=True)
class McpServer:
    """One MCP server: a command (stdio) or a URL (streamable HTTP).

    Args:
        command: Of a stdio server.
        env: Extra environment of the command. Security: may hold secrets.
        env_vars: Environment names and the variables that their values come from.
        cwd: Where the command starts, relative to the configuration's folder unless absolute.
        sandbox: Profile of the command; its own files and nothing else when ``None``.
        headers: Of HTTP requests. Security: may hold secrets.
        header_vars: Header names and the variables that their values come from.
        start_ms: From the start to its list of tools, milliseconds.
        idle_ms: Of a call without a sign of progress, milliseconds.
        call_ms: Of a call, whatever its progress; ``limits.call_ms`` when ``None``.
    """

    START_MS: ClassVar[int] = 30_000
    IDLE_MS: ClassVar[int] = 60_000

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    env_vars: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    sandbox: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    header_vars: Mapping[str, str] = field(default_factory=dict)
    start_ms: int = START_MS
    idle_ms: int = IDLE_MS
    call_ms: int | None = None

    @property
    def type(self) -> str:
        """``stdio`` or ``streamable-http``."""
        return "stdio" if self.url is None else "streamable-http"

    @property
    def profile(self) -> str:
        """The profile that its tools are listed with; ``mcp-server`` is its own files only."""
        return "remote" if self.url is not None else self.sandbox or "mcp-server"


@dataclass(frozen=True, slots=True)
class ContractsConfig:
    """Where tool contracts come from.

    Args:
        registry: Base URL of a contract registry.
        store: Local database file, relative to the configuration's folder unless absolute.
    """

    registry: str | None = None
    store: str | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """A checked configuration with one agent chosen.

    Args:
        path: The file, absolute; ``None`` when defaults are used because there is none.
        directory: Folder that relative paths and the ``agent/`` roots belong to.
        agent: The chosen agent.
        agents: All agents by name.
        models: Kept as written; not needed to run tools.
        warnings: For the operator.
    """

    path: Path | None
    directory: Path
    agent: AgentConfig
    agents: Mapping[str, AgentConfig]
    default_agent: str | None
    models: Mapping[str, Any] = field(repr=False)
    sandbox: SandboxConfig
    limits: Limits
    vars: Mapping[str, VarConfig]
    var_providers: Mapping[str, ProviderConfig]
    mcp: Mapping[str, McpServer]
    contracts: ContractsConfig
    warnings: tuple[str, ...] = ()

    def profile_name(self, identity: str) -> str:
        """Return the name of the profile that a tool runs under; of an MCP tool, its server's."""
        source, _, rest = identity.partition("/")
        server = self.mcp.get(rest.partition("/")[0]) if source == "mcp" else None
        return self.sandbox.profile_name(identity) if server is None else server.profile

    def without_tools(self, *, hooks: bool) -> Config:
        """Return the same with an agent that selects no tools and has no rules.

        Args:
            hooks: Whether its hooks stay selected. Security: they must where a handler runs,
                since a gate that is not there lets calls through.
        """
        agent = dataclasses.replace(
            self.agent,
            tools_use=(),
            rules=parse_rules([]),
            raw_rules=(),
            hooks_use=self.agent.hooks_use if hooks else (),
        )
        return dataclasses.replace(self, agent=agent)
