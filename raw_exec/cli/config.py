"""``raw config``."""

from __future__ import annotations

from typing import Any

import click

from .hooks import event_text
from .lazy import LazyGroup
from .options import Settings, command, common_options, settings_of

__all__ = ["config", "init", "list_config"]


@click.group(
    "config",
    cls=LazyGroup,
    lazy={
        "init": ("config:init", "Write a starter configuration; never overwrites."),
        "list": ("config:list_config", "Check the configuration and show what it says."),
    },
)
@common_options
def config() -> None:
    """Write and show the configuration."""


@command("init")
@click.argument("path", required=False, type=click.Path())
@click.pass_context
def init(ctx: click.Context, path: str | None) -> None:
    """Write a starter configuration; never overwrites.

    PATH is the file to write; by default the one that --config names, else the implicit one.
    It gets mode 0600, since it may come to hold secrets.
    """
    from ..config import init_config

    settings = settings_of(ctx)
    written = init_config(path or settings.config)
    if settings.as_json:
        settings.output.json({"path": str(written)})
    else:
        settings.output.data(str(written))
    settings.output.note("next: add tool IDs to agents.main.tools.use, then: raw config list")


@command("list")
@click.pass_context
def list_config(ctx: click.Context) -> None:
    """Check the configuration and show what it says.

    Everything is checked statically: the file, and the folders and rules of the chosen
    agent's tools and hooks. No code of a tool or hook runs, no MCP server is started, and no
    value of a variable is shown.
    """
    from ..config import describe_config, load_config
    from ..hooks import describe_hook, load_hooks
    from ..tools import load_registry

    settings = settings_of(ctx)
    loaded = load_config(settings.config, agent=settings.agent)
    registry = load_registry(loaded)
    hooks = load_hooks(loaded, registry.tools, pending=[use.ref for use in registry.pending])
    described = describe_config(loaded, registry)
    described["hooks"] = [describe_hook(loaded, hook) for hook in hooks.hooks]
    described["warnings"] += hooks.warnings
    if settings.as_json:
        settings.output.json(described)
        return
    for text in described["warnings"]:
        settings.output.warning(text)
    _print(settings, described)


def _print(settings: Settings, described: dict[str, Any]) -> None:
    out = settings.output
    path = described["path"]
    out.line(f"configuration: {path or 'none; defaults are used'}")
    out.line(f"agent:         {described['agent']}")
    others = [name for name in described["agents"] if name != described["agent"]]
    if others:
        out.line(f"other agents:  {', '.join(others)}")
    out.line(f"cache key:     {described['cache_key']}")
    agent = described["agents"][described["agent"]]
    out.line()
    out.heading(f"tools ({len(described['tools'])})")
    if described["tools"]:
        out.table(
            ("IDENTITY", "NAME", "LANGUAGE", "PROFILE", "VISIBLE"),
            [
                (
                    tool["identity"],
                    tool["name"],
                    tool["language"],
                    tool["profile"],
                    {True: "denied", False: "yes", None: "server not asked"}[tool["hidden"]],
                )
                for tool in described["tools"]
            ],
        )
    out.line()
    out.heading(f"rules ({len(agent['rules'])}); the last one that matches decides")
    if agent["rules"]:
        out.table(
            ("#", "EFFECT", "MATCH", "WHEN"),
            [
                (str(i), str(rule.get("effect")), str(rule.get("match")), _when(rule.get("when")))
                for i, rule in enumerate(agent["rules"])
            ],
        )
    if described["hooks"]:
        out.line()
        out.heading(f"hooks ({len(described['hooks'])}); they run in this order")
        for hook in described["hooks"]:
            events = "; ".join(event_text(event) for event in hook["events"])
            out.line(f"  {hook['hook']} (profile {hook['profile']}): {events}")
    servers = [
        f"{name}: {server['command'] or server['url']} ({server['type']}, {server['profile']})"
        for name, server in described["mcp_servers"].items()
    ]
    for title, lines in (("variables", agent["vars"]), ("MCP servers", servers)):
        if lines:
            out.line()
            out.heading(f"{title} ({len(lines)})")
            for line in lines:
                out.line(f"  {line}")


def _when(when: Any) -> str:
    if not isinstance(when, dict):
        return "always"
    return f"{when.get('source')} {when.get('any')} matches {when.get('regex')!r}"
