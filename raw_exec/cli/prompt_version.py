"""``raw prompt version``: drafts, publications, and what is read of them."""

from __future__ import annotations

import json

import click

from .lazy import LazyGroup
from .options import common_options, settings_of
from .registry_access import (
    page_options,
    registry_command,
    show,
    show_page,
    status_option,
    use_registry,
    write_folder,
)
from .registry_database import plain

__all__ = ["delete", "draft", "dump", "get", "get_readme", "list_versions", "publish", "version"]


@click.group(
    "version",
    cls=LazyGroup,
    lazy={
        "draft": ("prompt_version:draft", "Open the next draft of a prompt."),
        "list": ("prompt_version:list_versions", "List the versions of a prompt."),
        "get": ("prompt_version:get", "Show a version."),
        "get-readme": ("prompt_version:get_readme", "Print the README of a version."),
        "dump": ("prompt_version:dump", "Write a version into a folder."),
        "set-metadata": ("prompt_content:set_metadata", "Set the metadata of a draft."),
        "delete-metadata": (
            "prompt_content:delete_metadata",
            "Remove keys from the metadata of a draft.",
        ),
        "set-output-schema": (
            "prompt_content:set_output_schema",
            "Set what a model has to answer with, on a draft.",
        ),
        "set-readme": ("prompt_content:set_readme", "Set the README of a draft."),
        "set-model-config": (
            "prompt_content:set_model_config",
            "Say which model a draft is written for.",
        ),
        "delete": ("prompt_version:delete", "Delete an open draft."),
        "publish": ("prompt_version:publish", "Publish the open draft; it never changes again."),
    },
)
@common_options
def version() -> None:
    """Draft, edit, publish and list versions."""


@registry_command("draft")
@click.argument("ref", metavar="@WS/NAME")
@click.pass_context
def draft(ctx: click.Context, registry: str | None, ref: str) -> None:
    """Open the next draft of a prompt.

    It starts as the last published version, files and pins included.
    """
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="forbidden")
    with use_registry(settings, registry) as asked:
        made = asked.create_prompt_draft(named.workspace, named.name)
    show(settings, made, f"opened {made.ref}")


@registry_command("list")
@click.argument("ref", metavar="@WS/NAME")
@status_option
@page_options
@click.pass_context
def list_versions(
    ctx: click.Context, registry: str | None, ref: str, status: str | None, limit: int, offset: int
) -> None:
    """List the versions of a prompt."""
    from ..contracts.model import Status
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="forbidden")
    chosen = None if status is None else Status(status.upper())
    with use_registry(settings, registry) as asked:
        page = asked.list_prompt_versions(
            named.workspace, named.name, skip=offset, take=limit, status=chosen
        )
    show_page(
        settings,
        page,
        ("VERSION", "STATUS", "TOOLS", "UPDATED"),
        lambda one: (
            one.version,
            one.status.value,
            str(len(one.pins) + one.hidden_pins),
            f"{one.updated_at:%Y-%m-%d %H:%M}Z",
        ),
        "no versions found",
    )


@registry_command("get")
@click.argument("ref", metavar="@WS/NAME@VERSION")
@click.pass_context
def get(ctx: click.Context, registry: str | None, ref: str) -> None:
    """Show a version."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    with use_registry(settings, registry) as asked:
        found = asked.get_prompt_version(named.workspace, named.name, named.version)
    if settings.as_json:
        settings.output.json(plain(found))
        return
    out = settings.output
    out.heading(f"{found.ref} ({found.status.value})")
    for one in found.files:
        kind = "entrypoint" if one.is_entrypoint else "partial"
        out.line(f"file:          {one.name} ({kind}, {len(one.content)} characters)")
    for pin in found.pins:
        out.line(f"tool:          {pin.alias} = {pin.tool_version.ref}")
    if found.model_config is not None:
        out.line(f"model:         {found.model_config.provider.value} {found.model_config.model}")
    out.line(f"metadata:      {json.dumps(found.metadata, sort_keys=True)}")
    out.line(f"output schema: {'set' if found.output_schema is not None else '(not set)'}")


@registry_command("get-readme")
@click.argument("ref", metavar="@WS/NAME@VERSION")
@click.pass_context
def get_readme(ctx: click.Context, registry: str | None, ref: str) -> None:
    """Print the README of a version."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    with use_registry(settings, registry) as asked:
        found = asked.get_prompt_version(named.workspace, named.name, named.version)
    if settings.as_json:
        settings.output.json({"ref": found.ref, "readme": found.readme})
    else:
        settings.output.data(found.readme)


@registry_command("dump")
@click.argument("ref", metavar="@WS/NAME@VERSION")
@click.option("--to", "folder", metavar="DIR", required=True, help="Where to write the files.")
@click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
@click.pass_context
def dump(ctx: click.Context, registry: str | None, ref: str, folder: str, force: bool) -> None:
    """Write a version into a folder.

    Templates go into files/, beside them output-schema.json, README.md, metadata.yaml,
    model-config.yaml, and tools.yaml with the pins, which is only for reading. With --force,
    what an earlier dump wrote and this version does not have is removed.
    """
    from ..contracts.names import check_file_name, parse_ref
    from ..contracts.yamltext import write_yaml

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    with use_registry(settings, registry) as asked:
        found = asked.get_prompt_version(named.workspace, named.name, named.version)
    # Security: a server may send any names; these become names of files.
    files = {f"files/{check_file_name(one.name)}.mustache": one.content for one in found.files}
    if found.output_schema is not None:
        text = json.dumps(found.output_schema, indent=2, sort_keys=True, ensure_ascii=False)
        files["output-schema.json"] = text + "\n"
    files["README.md"] = found.readme
    files["metadata.yaml"] = write_yaml(found.metadata)
    if found.model_config is not None:
        files["model-config.yaml"] = write_yaml(
            {
                "provider": found.model_config.provider.value.lower(),
                "model": found.model_config.model,
                "parameters": found.model_config.parameters or {},
            }
        )
    pins = [
        {
            "alias": pin.alias,
            "ref": pin.tool_version.tool.ref,
            "version": pin.tool_version.version,
            "status": pin.tool_version.status.value,
        }
        for pin in found.pins
    ]
    files["tools.yaml"] = write_yaml({"tools": pins})
    optional = ("output-schema.json", "model-config.yaml", "files/*.mustache")
    root = write_folder(folder, files, force=force, optional=optional)
    value = {
        "directory": str(root),
        "files": sorted(files),
        "prompt": found.prompt.ref,
        "version": found.version,
    }
    show(settings, value, f"wrote {found.ref} to {root} ({len(files)} files)")


@registry_command("delete")
@click.argument("ref", metavar="@WS/NAME@draft")
@click.pass_context
def delete(ctx: click.Context, registry: str | None, ref: str) -> None:
    """Delete an open draft."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    with use_registry(settings, registry) as asked:
        asked.delete_prompt_version(named.workspace, named.name, str(named.version))
    show(settings, {"deleted": True, "ref": ref}, f"deleted {ref}")


@registry_command("publish")
@click.argument("ref", metavar="@WS/NAME")
@click.argument("number", metavar="X.Y.Z")
@click.pass_context
def publish(ctx: click.Context, registry: str | None, ref: str, number: str) -> None:
    """Publish the open draft; it never changes again.

    It must not pin drafts. On a server, the workspace has to allow publishing from command
    lines.
    """
    from ..contracts.names import parse_ref
    from ..contracts.versions import Version

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="forbidden")
    wanted = str(Version.parse(number))
    with use_registry(settings, registry) as asked:
        made = asked.publish_prompt_version(named.workspace, named.name, wanted)
    show(settings, made, f"published {made.ref}")
