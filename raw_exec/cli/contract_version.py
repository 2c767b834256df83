"""``raw contract version``."""

from __future__ import annotations

import json
from typing import Any

import click

from .lazy import LazyGroup
from .options import common_options, settings_of
from .registry_access import (
    chosen_text,
    content_options,
    page_options,
    registry_command,
    show,
    show_page,
    status_option,
    use_registry,
)
from .registry_database import plain
from .registry_metadata import metadata_change, metadata_options

__all__ = [
    "delete",
    "draft",
    "get",
    "list_versions",
    "publish",
    "set_description",
    "set_metadata",
    "set_readme",
    "version",
]

_MODULE = "contract_version"


@click.group(
    "version",
    cls=LazyGroup,
    lazy={
        "draft": (f"{_MODULE}:draft", "Open the next draft of a tool contract."),
        "list": (f"{_MODULE}:list_versions", "List the versions of a tool contract."),
        "get": (f"{_MODULE}:get", "Show a version."),
        "set-description": (f"{_MODULE}:set_description", "Set what the model reads, on a draft."),
        "set-readme": (f"{_MODULE}:set_readme", "Set the README of a draft."),
        "set-metadata": (f"{_MODULE}:set_metadata", "Set the metadata of a draft."),
        "delete": (f"{_MODULE}:delete", "Delete an open draft."),
        "publish": (f"{_MODULE}:publish", "Publish the open draft; it never changes again."),
    },
)
@common_options
def version() -> None:
    """Draft, edit, publish and list versions."""


@registry_command("draft")
@click.argument("ref", metavar="@WS/NAME")
@click.pass_context
def draft(ctx: click.Context, registry: str | None, ref: str) -> None:
    """Open the next draft of a tool contract.

    It starts as the last published version; there is one draft at a time.
    """
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="forbidden")
    with use_registry(settings, registry) as asked:
        made = asked.create_tool_draft(tool.workspace, tool.name)
    show(settings, made, f"opened {made.ref}")


@registry_command("list")
@click.argument("ref", metavar="@WS/NAME")
@status_option
@page_options
@click.pass_context
def list_versions(
    ctx: click.Context, registry: str | None, ref: str, status: str | None, limit: int, offset: int
) -> None:
    """List the versions of a tool contract."""
    from ..contracts.model import Status
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="forbidden")
    chosen = None if status is None else Status(status.upper())
    with use_registry(settings, registry) as asked:
        page = asked.list_tool_versions(
            tool.workspace, tool.name, skip=offset, take=limit, status=chosen
        )
    show_page(
        settings,
        page,
        ("VERSION", "STATUS", "UPDATED"),
        lambda one: (one.version, one.status.value, f"{one.updated_at:%Y-%m-%d %H:%M}Z"),
        "no versions found",
    )


@registry_command("get")
@click.argument("ref", metavar="@WS/NAME@VERSION")
@click.pass_context
def get(ctx: click.Context, registry: str | None, ref: str) -> None:
    """Show a version."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="required")
    with use_registry(settings, registry) as asked:
        found = asked.get_tool_version(tool.workspace, tool.name, tool.version)
    if settings.as_json:
        settings.output.json(plain(found))
        return
    out = settings.output
    out.heading(f"{found.ref} ({found.status.value})")
    for title, value in (
        ("model description", found.model_description),
        ("input schema", found.input_schema),
        ("output schema", found.output_schema),
        ("metadata", found.metadata),
    ):
        out.line(f"{title}:")
        text = value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True)
        for line in (text if value not in (None, "") else "(not set)").split("\n"):
            out.line(f"  {line}")


@registry_command("set-description")
@click.argument("ref", metavar="@WS/NAME@draft")
@content_options
@click.pass_context
def set_description(
    ctx: click.Context, registry: str | None, ref: str, content: str | None, file: str | None
) -> None:
    """Set what the model reads, on a draft.

    This text decides when the model calls the tool. It is not the catalogue's description,
    which raw contract update sets.
    """
    text = chosen_text(content, file)
    _set(ctx, registry, ref, "the model description", model_description=text)


@registry_command("set-readme")
@click.argument("ref", metavar="@WS/NAME@draft")
@content_options
@click.pass_context
def set_readme(
    ctx: click.Context, registry: str | None, ref: str, content: str | None, file: str | None
) -> None:
    """Set the README of a draft."""
    _set(ctx, registry, ref, "the README", readme=chosen_text(content, file))


def _set(ctx: click.Context, registry: str | None, ref: str, what: str, **changes: Any) -> None:
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="required")
    with use_registry(settings, registry) as asked:
        changed = asked.update_tool_version(tool.workspace, tool.name, str(tool.version), **changes)
    show(settings, changed, f"set {what} on {changed.ref}")


@registry_command("set-metadata")
@click.argument("ref", metavar="@WS/NAME@draft")
@metadata_options
@click.pass_context
def set_metadata(
    ctx: click.Context,
    /,
    registry: str | None,
    ref: str,
    from_file: str | None,
    **keys: tuple[str, ...],
) -> None:
    """Set the metadata of a draft.

    --from-file replaces all of it. The other options change single keys in one step, so two
    people who do so at the same time lose nothing.
    """
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="required")
    change = metadata_change(from_file, keys)
    where = (tool.workspace, tool.name, str(tool.version))
    with use_registry(settings, registry) as asked:
        if change.whole:
            changed = asked.update_tool_version(*where, metadata=change.values)
        else:
            changed = asked.patch_tool_metadata(*where, set=change.values, delete=change.delete)
    show(settings, changed, f"{changed.ref} has {len(changed.metadata)} metadata key(s)")


@registry_command("delete")
@click.argument("ref", metavar="@WS/NAME@draft")
@click.pass_context
def delete(ctx: click.Context, registry: str | None, ref: str) -> None:
    """Delete an open draft."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="required")
    with use_registry(settings, registry) as asked:
        asked.delete_tool_version(tool.workspace, tool.name, str(tool.version))
    show(settings, {"deleted": True, "ref": ref}, f"deleted {ref}")


@registry_command("publish")
@click.argument("ref", metavar="@WS/NAME")
@click.argument("number", metavar="X.Y.Z")
@click.pass_context
def publish(ctx: click.Context, registry: str | None, ref: str, number: str) -> None:
    """Publish the open draft; it never changes again.

    On a server, the workspace has to allow publishing from command lines.
    """
    from ..contracts.names import parse_ref
    from ..contracts.versions import Version

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="forbidden")
    wanted = str(Version.parse(number))
    with use_registry(settings, registry) as asked:
        made = asked.publish_tool_version(tool.workspace, tool.name, wanted)
    show(settings, made, f"published {made.ref}")
