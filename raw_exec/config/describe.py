"""A static description of a configuration for ``raw config list``: no values, no secrets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from .model import AgentConfig, Config, McpServer, ToolUse, VarConfig

__all__ = ["describe_config"]


class _Tool(Protocol):
    @property
    def identity(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def profile(self) -> str: ...
    @property
    def hidden(self) -> bool: ...


class _Registry(Protocol):
    @property
    def tools(self) -> Iterable[_Tool]: ...
    @property
    def pending(self) -> Iterable[ToolUse]: ...
    def pending_names(self) -> Mapping[str, str]: ...
    @property
    def cache_key(self) -> str: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...


def describe_config(config: Config, registry: _Registry | None = None) -> dict[str, Any]:
    """Describe what is configured, as JSON-compatible data.

    Args:
        registry: The loaded tools of the chosen agent; they add names and languages.
    """
    warnings = list(config.warnings)
    out: dict[str, Any] = {
        "path": None if config.path is None else str(config.path),
        "directory": str(config.directory),
        "agent": config.agent.name,
        "default_agent": config.default_agent,
        "agents": {name: _agent(config, agent) for name, agent in config.agents.items()},
        "models": sorted(config.models),
        "sandbox": {
            "default": config.sandbox.default,
            "profiles": {
                name: _plain(dataclasses.asdict(profile))
                for name, profile in config.sandbox.profiles.items()
            },
            "tools": dict(config.sandbox.tools),
        },
        "limits": dataclasses.asdict(config.limits),
        "vars": {name: _var(var) for name, var in config.vars.items()},
        "var_providers": sorted(config.var_providers),
        "mcp_servers": {name: _server(server) for name, server in sorted(config.mcp.items())},
        "contracts": dataclasses.asdict(config.contracts),
    }
    if registry is not None:
        warnings += [text for text in registry.warnings if text not in warnings]
        out["cache_key"] = registry.cache_key
        out["tools"] = _tools(config, registry)
    out["warnings"] = warnings
    return out


def _tools(config: Config, registry: _Registry) -> list[dict[str, Any]]:
    """Describe the selected tools in order; of those of servers only what is configured."""
    rows = {
        tool.identity: {
            "identity": tool.identity,
            "name": tool.name,
            "language": tool.language,
            "profile": tool.profile,
            "hidden": tool.hidden,
        }
        for tool in registry.tools
    }
    for ref, name in registry.pending_names().items():
        rows[ref] = {
            "identity": ref,
            "name": name,
            "language": "mcp",
            "profile": config.profile_name(ref),
            "hidden": None,
        }
    order = {use.ref: index for index, use in enumerate(config.agent.tools_use)}
    return sorted(rows.values(), key=lambda row: order.get(row["identity"], len(order)))


def _server(server: McpServer) -> dict[str, Any]:
    """Describe a server without its arguments and values, any of which may be a secret."""
    return {
        "type": server.type,
        "command": server.command,
        "url": server.url,
        "profile": server.profile,
        "env": sorted({*server.env, *server.env_vars}),
        "headers": sorted({*server.headers, *server.header_vars}),
        "start_ms": server.start_ms,
        "idle_ms": server.idle_ms,
        "call_ms": server.call_ms,
    }


def _agent(config: Config, agent: AgentConfig) -> dict[str, Any]:
    return {
        "tools": [
            {
                "ref": use.ref,
                "as": use.as_name,
                "profile": config.profile_name(use.ref),
            }
            for use in agent.tools_use
        ],
        "rules": [dict(rule) for rule in agent.raw_rules],
        "hooks": list(agent.hooks_use),
        "vars": list(agent.vars),
        "max_output_bytes": agent.max_output_bytes,
        "request_timeout_ms": agent.request_timeout_ms,
        "model": agent.model,
    }


def _var(var: VarConfig) -> dict[str, Any]:
    return {"access": var.access, "type": var.type, "source": var.source.kind}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}
