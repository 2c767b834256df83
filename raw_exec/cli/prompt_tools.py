"""``raw prompt tools``: what a prompt version pins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .lazy import LazyGroup
from .options import Settings, common_options, settings_of
from .registry_access import registry_command, use_registry
from .registry_database import plain

if TYPE_CHECKING:
    from ..contracts.model import PromptVersion

__all__ = ["add", "list_pins", "remove", "rename", "tools"]


@click.group(
    "tools",
    cls=LazyGroup,
    lazy={
        "list": ("prompt_tools:list_pins", "List what a version pins."),
        "add": ("prompt_tools:add", "Pin one version of a tool contract to a draft."),
        "rename": ("prompt_tools:rename", "Give a pinned tool another wire name."),
        "remove": ("prompt_tools:remove", "Remove a pin from a draft."),
    },
)
@common_options
def tools() -> None:
    """Pin tool contracts to a draft, and list the pins.

    A pin is one concrete version. It is chosen when the pin is made and moves no more, except
    that a pinned draft becomes what it is published as.
    """


@registry_command("list")
@click.argument("prompt", metavar="@WS/PROMPT@VERSION")
@click.pass_context
def list_pins(ctx: click.Context, registry: str | None, prompt: str) -> None:
    """List what a version pins."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(prompt, kind="prompt", version="required")
    with use_registry(settings, registry) as asked:
        found = asked.get_prompt_version(named.workspace, named.name, named.version)
    _show(settings, found)


def _show(settings: Settings, version: PromptVersion) -> None:
    if settings.as_json:
        settings.output.json(
            {
                "prompt": version.prompt.ref,
                "version": version.version,
                "tools": [_pin(one) for one in version.pins],
                "hidden": version.hidden_pins,
            }
        )
        return
    rows = [
        (
            pin.alias,
            pin.tool_version.tool.ref,
            pin.tool_version.version,
            pin.tool_version.status.value,
        )
        for pin in version.pins
    ]
    if rows:
        settings.output.table(("WIRE NAME", "TOOL", "VERSION", "STATUS"), rows)
    else:
        settings.output.note("no tools pinned")
    if version.hidden_pins:
        settings.output.note(f"and {version.hidden_pins} that you may not read")


def _pin(pin: Any) -> dict[str, Any]:
    return {
        "wire_name": pin.alias,
        "tool": pin.tool_version.tool.ref,
        "version": pin.tool_version.version,
        "status": plain(pin.tool_version.status),
        "model_description": pin.tool_version.model_description,
    }


@registry_command("add")
@click.argument("prompt", metavar="@WS/PROMPT@draft")
@click.argument("tool", metavar="@WS/TOOL@VERSION")
@click.option("--as", "alias", metavar="NAME", help="The wire name. Default: the tool's own name.")
@click.pass_context
def add(
    ctx: click.Context, registry: str | None, prompt: str, tool: str, alias: str | None
) -> None:
    """Pin one version of a tool contract to a draft.

    VERSION is a version, draft, or a constraint like ^1.2.0, which is resolved now and for
    good. Printed is what it resolved to.
    """
    from ..contracts.names import check_wire_name, parse_ref
    from ..contracts.versions import check_constraint

    settings = settings_of(ctx)
    named = parse_ref(prompt, kind="prompt", version="required")
    pinned = parse_ref(tool, version="required")
    constraint = check_constraint(str(pinned.version))
    if alias is not None:
        check_wire_name(alias)
    with use_registry(settings, registry) as asked:
        changed = asked.link_tool(
            named.workspace,
            named.name,
            str(named.version),
            tool_workspace=pinned.workspace,
            tool_name=pinned.name,
            constraint=constraint,
            alias=alias,
        )
    for pin in changed.pins:
        if (pin.tool_version.tool.workspace, pin.tool_version.tool.name) == (
            pinned.workspace,
            pinned.name,
        ):
            settings.output.note(f"pinned {pin.tool_version.ref} to {changed.ref}")
    _show(settings, changed)


@registry_command("rename")
@click.argument("prompt", metavar="@WS/PROMPT@draft")
@click.argument("tool", metavar="@WS/TOOL")
@click.option("--as", "alias", metavar="NAME", required=True, help="The new wire name.")
@click.pass_context
def rename(ctx: click.Context, registry: str | None, prompt: str, tool: str, alias: str) -> None:
    """Give a pinned tool another wire name."""
    from ..contracts.names import check_wire_name, parse_ref

    settings = settings_of(ctx)
    named = parse_ref(prompt, kind="prompt", version="required")
    pinned = parse_ref(tool)
    check_wire_name(alias)
    with use_registry(settings, registry) as asked:
        changed = asked.rename_pin(
            named.workspace,
            named.name,
            str(named.version),
            tool_workspace=pinned.workspace,
            tool_name=pinned.name,
            alias=alias,
        )
    settings.output.note(f"renamed @{pinned.workspace}/{pinned.name} to {alias} on {changed.ref}")
    _show(settings, changed)


@registry_command("remove")
@click.argument("prompt", metavar="@WS/PROMPT@draft")
@click.argument("tool", metavar="@WS/TOOL")
@click.pass_context
def remove(ctx: click.Context, registry: str | None, prompt: str, tool: str) -> None:
    """Remove a pin from a draft."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(prompt, kind="prompt", version="required")
    pinned = parse_ref(tool)
    with use_registry(settings, registry) as asked:
        changed = asked.unlink_tool(
            named.workspace,
            named.name,
            str(named.version),
            tool_workspace=pinned.workspace,
            tool_name=pinned.name,
        )
    settings.output.note(f"removed @{pinned.workspace}/{pinned.name} from {changed.ref}")
    _show(settings, changed)
