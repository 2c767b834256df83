"""``raw hooks``."""

from __future__ import annotations

from typing import Any

import click

from .lazy import LazyGroup
from .options import command, common_options, settings_of

__all__ = ["event_text", "hooks", "list_hooks"]


@click.group(
    "hooks",
    cls=LazyGroup,
    lazy={
        "list": ("hooks:list_hooks", "List the selected hooks in the order they run."),
        "check": ("hooks_check:check", "Check hooks without running them."),
        "test": ("hooks_test:test", "Run a hook on a made-up event and show its decision."),
    },
)
@common_options
def hooks() -> None:
    """List, check and try the hooks of an agent."""


@command("list")
@click.option("--all", "everything", is_flag=True, help="Also folders that are not selected.")
@click.pass_context
def list_hooks(ctx: click.Context, everything: bool) -> None:
    """List the selected hooks in the order they run.

    With events, command, time limit and sandbox profile. Every selected hook and its
    conditions are checked; none runs. Of folders that are not selected only the names are
    read.
    """
    from ..config import load_config
    from ..hooks import describe_hook, load_hooks
    from ..tools import load_registry

    settings = settings_of(ctx)
    config = load_config(settings.config, agent=settings.agent)
    tools = load_registry(config)
    found = load_hooks(config, tools.tools, pending=[use.ref for use in tools.pending])
    rows = [describe_hook(config, hook) for hook in found.hooks]
    unselected = _unselected(config) if everything else []
    if settings.as_json:
        data: dict[str, Any] = {"agent": config.agent.name, "hooks": rows}
        if everything:
            data["unselected"] = unselected
        data["warnings"] = list(found.warnings)
        settings.output.json(data)
        return
    out = settings.output
    for text in found.warnings:
        out.warning(text)
    if rows:
        out.table(
            ("HOOK", "TIMEOUT", "PROFILE", "COMMAND", "EVENTS"),
            [
                (
                    row["hook"],
                    f"{row['timeout_ms']} ms",
                    row["profile"],
                    " ".join([row["command"], *row["args"]]),
                    ", ".join(event_text(event) for event in row["events"]),
                )
                for row in rows
            ],
        )
    else:
        out.note("no hooks are selected; add IDs to hooks.use of the agent")
    if unselected:
        out.line()
        out.heading("not selected")
        for item in unselected:
            out.line(f"  {item}")


def event_text(event: dict[str, Any]) -> str:
    """Return one entry of ``events`` in words."""
    text = str(event["event"])
    if event["match"] is not None:
        text += f" {event['match']}"
    when = event["when"]
    if when is not None:
        text += f" when {when['source']} {when['any']} matches {when['regex']!r}"
    return text


def _unselected(config: Any) -> list[str]:
    from ..hooks import discover_hooks, hook_roots

    selected = set(config.agent.hooks_use)
    roots = hook_roots(config)
    sources = [("local", roots.local)]
    if roots.agent != roots.local:
        sources.insert(0, ("agent", roots.agent))
    else:
        # Beside the implicit configuration file both are one folder.
        selected |= {f"local/{ref.partition('/')[2]}" for ref in selected}
    return [
        f"{source}/{name}"
        for source, root in sources
        for name in discover_hooks(root)
        if f"{source}/{name}" not in selected
    ]
