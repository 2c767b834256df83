"""``raw contract``: tool contracts in a registry."""

from __future__ import annotations

import json

import click

from .lazy import LazyGroup
from .options import common_options, settings_of
from .registry_access import (
    brief_versions,
    page_options,
    registry_command,
    show,
    show_page,
    show_versions,
    use_registry,
    write_folder,
)
from .registry_database import plain

__all__ = ["contract", "create", "dump", "get", "list_tools", "update"]


@click.group(
    "contract",
    cls=LazyGroup,
    lazy={
        "create": ("contract:create", "Create a tool contract with an open draft."),
        "list": ("contract:list_tools", "List the tool contracts of a workspace."),
        "get": ("contract:get", "Show a tool contract and its versions."),
        "update": ("contract:update", "Change what the catalogue shows of a tool contract."),
        "dump": ("contract:dump", "Write a version into a folder, to edit it there."),
        "schema": ("contract_schema:schema", "Read and set the schemas of a version."),
        "version": ("contract_version:version", "Draft, edit, publish and list versions."),
        "check": ("contract_compare:check", "Compare a tool folder with a contract."),
        "export": ("contract_compare:export", "Write a tool folder that fits a contract."),
        "diff": (
            "contract_compare:diff",
            "Say what two versions differ in, and what breaks.",
        ),
    },
)
@common_options
def contract() -> None:
    """Author tool contracts, and compare tools with them.

    A contract is what a model is told of a tool: its name, a description and the JSON Schema
    of its arguments, in versions. References look like @acme/fetch-page, versions like
    @acme/fetch-page@1.2.0 or @acme/fetch-page@draft.
    """


@registry_command("create")
@click.argument("ref", metavar="@WS/NAME")
@click.option("--description", metavar="TEXT", help="For the catalogue; no model reads it.")
@click.pass_context
def create(ctx: click.Context, registry: str | None, ref: str, description: str | None) -> None:
    """Create a tool contract with an open draft."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="forbidden")
    with use_registry(settings, registry) as asked:
        made = asked.create_tool(tool.workspace, tool.name, description=description)
    show(settings, made, f"created {made.ref} ({made.visibility.value}) with a draft version")


@registry_command("list")
@click.argument("workspace", metavar="@WS")
@click.option("--search", metavar="TEXT", help="Part of a name or description.")
@page_options
@click.pass_context
def list_tools(
    ctx: click.Context,
    registry: str | None,
    workspace: str,
    search: str | None,
    limit: int,
    offset: int,
) -> None:
    """List the tool contracts of a workspace."""
    from ..contracts.names import parse_workspace_ref

    settings = settings_of(ctx)
    name = parse_workspace_ref(workspace)
    with use_registry(settings, registry) as asked:
        page = asked.list_tools(name, skip=offset, take=limit, search=search or None)
    show_page(
        settings,
        page,
        ("TOOL", "VISIBILITY", "UPDATED", "DESCRIPTION"),
        lambda one: (
            one.ref,
            one.visibility.value,
            f"{one.updated_at:%Y-%m-%d}",
            (one.description or "").split("\n")[0][:60],
        ),
        "no tools found",
    )


@registry_command("get")
@click.argument("ref", metavar="@WS/NAME")
@click.pass_context
def get(ctx: click.Context, registry: str | None, ref: str) -> None:
    """Show a tool contract and its versions.

    Also counted are the published prompt versions that pin it.
    """
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="forbidden")
    with use_registry(settings, registry) as asked:
        found = asked.get_tool(tool.workspace, tool.name)
        versions = asked.list_tool_versions(tool.workspace, tool.name, take=100)
        dependents = asked.dependent_count(tool.workspace, tool.name)
    if settings.as_json:
        value = {
            **plain(found),
            "dependent_count": dependents,
            "versions": brief_versions(versions),
        }
        settings.output.json(value)
        return
    out = settings.output
    out.heading(found.ref)
    out.line(f"visibility:  {found.visibility.value}")
    if found.description:
        out.line(f"description: {found.description}")
    if found.tags:
        out.line(f"tags:        {', '.join(found.tags)}")
    out.line(f"dependents:  {dependents} published prompt version(s)")
    show_versions(settings, versions)


@registry_command("update")
@click.argument("ref", metavar="@WS/NAME")
@click.option("--description", metavar="TEXT", help='For the catalogue; "" removes it.')
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Replace the tags by these.")
@click.pass_context
def update(
    ctx: click.Context,
    registry: str | None,
    ref: str,
    description: str | None,
    tags: tuple[str, ...],
) -> None:
    """Change what the catalogue shows of a tool contract.

    What the model reads is on the version: raw contract version set-description.
    """
    from ..contracts.model import UNSET
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="forbidden")
    if description is None and not tags:
        raise click.UsageError("nothing to change: give --description or --tag")
    with use_registry(settings, registry) as asked:
        changed = asked.update_tool(
            tool.workspace,
            tool.name,
            description=UNSET if description is None else description or None,
            tags=tags or UNSET,
        )
    show(settings, changed, f"updated {changed.ref}")


@registry_command("dump")
@click.argument("ref", metavar="@WS/NAME@VERSION")
@click.option("--to", "folder", metavar="DIR", required=True, help="Where to write the files.")
@click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
@click.pass_context
def dump(ctx: click.Context, registry: str | None, ref: str, folder: str, force: bool) -> None:
    """Write a version into a folder, to edit it there.

    Six files: input-schema.json, output-schema.json (when there is one), description.md,
    README.md, metadata.yaml, and tool.yaml, which is only for reading. Each goes back with a
    command of its own. With --force, an output-schema.json of an earlier dump is removed when
    the version has none.
    """
    from ..contracts.names import parse_ref
    from ..contracts.yamltext import write_yaml

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="required")
    with use_registry(settings, registry) as asked:
        found = asked.get_tool_version(tool.workspace, tool.name, tool.version)
    files = {"input-schema.json": _json(found.input_schema)}
    if found.output_schema is not None:
        files["output-schema.json"] = _json(found.output_schema)
    files |= {
        "description.md": found.model_description,
        "README.md": found.readme,
        "metadata.yaml": write_yaml(found.metadata),
        "tool.yaml": write_yaml(
            {
                "name": found.tool.name,
                "description": found.tool.description or "",
                "visibility": found.tool.visibility.value,
                "tags": list(found.tool.tags),
                "version": found.version,
                "status": found.status.value,
            }
        ),
    }
    root = write_folder(folder, files, force=force, optional=("output-schema.json",))
    value = {
        "directory": str(root),
        "files": sorted(files),
        "tool": found.tool.ref,
        "version": found.version,
    }
    show(settings, value, f"wrote {found.ref} to {root} ({len(files)} files)")


def _json(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
