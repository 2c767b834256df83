"""``raw tools list``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import Settings, command, settings_of

if TYPE_CHECKING:
    from ..config import Config
    from ..tools import MissingTool, Tool, ToolRegistry

__all__ = ["list_tools"]


@command("list")
@click.option("--all", "everything", is_flag=True, help="Also folders that are not selected.")
@click.pass_context
def list_tools(ctx: click.Context, everything: bool) -> None:
    """List the selected tools.

    In the order of the configuration, with identity, model-visible name, version, language
    and sandbox profile. A tool that a rule denies is listed, though no model sees it. Servers
    of selected MCP tools are started, asked and ended; a tool that its server does not offer
    is listed as unavailable. Of folders that are not selected only the names are read.
    """
    from ..config import load_config
    from ..dispatch.options import resolve_cwd
    from .served import load_all_tools

    settings = settings_of(ctx)
    config = load_config(settings.config, agent=settings.agent)
    registry = load_all_tools(config, resolve_cwd("."))
    rows = [_describe(tool) for tool in registry.tools]
    missing = [_describe_missing(config, tool) for tool in registry.missing]
    unselected = _unselected(config, registry) if everything else []
    if settings.as_json:
        data: dict[str, Any] = {"agent": config.agent.name, "tools": rows}
        if missing:
            data["missing"] = missing
        if everything:
            data["unselected"] = unselected
        data["warnings"] = [*config.warnings, *registry.warnings]
        settings.output.json(data)
        return
    for text in (*config.warnings, *registry.warnings):
        settings.output.warning(text)
    _print(settings, [*rows, *missing], unselected, everything, config.path)


def _describe(tool: Tool) -> dict[str, Any]:
    rule = tool.policy.hidden
    return {
        "identity": tool.identity,
        "name": tool.name,
        "version": tool.manifest.version,
        "language": tool.language,
        "profile": tool.profile,
        "visible": rule is None,
        "denied_by": None if rule is None else {"index": rule.index, "match": rule.match},
        "folder": str(tool.snapshot.source),
        "digest": tool.snapshot.digest,
    }


def _describe_missing(config: Config, tool: MissingTool) -> dict[str, Any]:
    return {
        "identity": tool.identity,
        "name": tool.name,
        "version": None,
        "language": "mcp",
        "profile": config.profile_name(tool.identity),
        "visible": False,
        "reason": tool.reason,
        "hint": tool.hint,
    }


def _visibility(row: dict[str, Any]) -> str:
    if "reason" in row:
        return "unavailable"
    return "yes" if row["visible"] else f"denied by rule {row['denied_by']['index']}"


def _unselected(config: Config, registry: ToolRegistry) -> list[dict[str, str]]:
    from ..tools import discover, tool_roots

    selected = {tool.identity for tool in registry.tools}
    roots = tool_roots(config)
    sources = [("local", roots.local), ("builtin", roots.builtin)]
    if roots.agent != roots.local:
        # Beside the implicit configuration file both are one folder.
        sources.insert(0, ("agent", roots.agent))
    else:
        selected |= {f"local/{t.manifest.id}" for t in registry.tools if t.source == "agent"}
    return [
        {"identity": f"{source}/{name}", "folder": str(root / name)}
        for source, root in sources
        for name in discover(root)
        if f"{source}/{name}" not in selected
    ]


def _print(
    settings: Settings,
    rows: list[dict[str, Any]],
    unselected: list[dict[str, str]],
    everything: bool,
    path: Path | None,
) -> None:
    out = settings.output
    if rows:
        out.table(
            ("IDENTITY", "NAME", "VERSION", "LANGUAGE", "PROFILE", "VISIBLE"),
            [
                (
                    row["identity"],
                    row["name"],
                    row["version"] or "-",
                    row["language"],
                    row["profile"],
                    _visibility(row),
                )
                for row in rows
            ],
        )
    else:
        where = f"in {path}" if path is not None else "and there is no configuration file"
        out.note(f"no tools are selected {where}")
        if path is None:
            out.note("write one with: raw config init")
    if unselected:
        out.line()
        out.heading("not selected")
        out.table(("IDENTITY", "FOLDER"), [(row["identity"], row["folder"]) for row in unselected])
    elif everything:
        out.note("there are no other tool folders")
