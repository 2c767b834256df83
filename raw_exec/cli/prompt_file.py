"""``raw prompt file``: the templates of a prompt version."""

from __future__ import annotations

import click

from .lazy import LazyGroup
from .options import common_options, settings_of
from .registry_access import (
    chosen_text,
    content_options,
    registry_command,
    show,
    use_registry,
)
from .registry_database import plain

__all__ = ["create", "delete", "file_group", "get", "list_files", "set_entrypoint", "update"]

_FORMAT = click.Choice(("text", "yaml"), case_sensitive=False)


@click.group(
    "file",
    cls=LazyGroup,
    lazy={
        "list": ("prompt_file:list_files", "List the files of a version."),
        "get": ("prompt_file:get", "Print a file of a version."),
        "create": ("prompt_file:create", "Add a file to a draft."),
        "update": ("prompt_file:update", "Change a file of a draft, or rename it."),
        "delete": ("prompt_file:delete", "Delete a file from a draft."),
        "set-entrypoint": ("prompt_file:set_entrypoint", "Say whether a file is an entrypoint."),
    },
)
@common_options
def file_group() -> None:
    """List, add, change and delete the files of a draft.

    Files are Mustache templates; entrypoints can be rendered by themselves.
    """


@registry_command("list")
@click.argument("ref", metavar="@WS/NAME@VERSION")
@click.pass_context
def list_files(ctx: click.Context, registry: str | None, ref: str) -> None:
    """List the files of a version."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    with use_registry(settings, registry) as asked:
        found = asked.get_prompt_version(named.workspace, named.name, named.version)
    if settings.as_json:
        settings.output.json({"files": plain(found.files)})
        return
    settings.output.table(
        ("FILE", "ENTRYPOINT", "FORMAT", "CHARACTERS"),
        [
            (
                one.name,
                "yes" if one.is_entrypoint else "no",
                one.format.value,
                str(len(one.content)),
            )
            for one in found.files
        ],
    )
    for one in found.files:
        for warning in one.schema_warnings:
            settings.output.warning(f"{one.name}: {warning['path']}: {warning['message']}")


@registry_command("get")
@click.argument("ref", metavar="@WS/NAME@VERSION")
@click.argument("name", metavar="FILE")
@click.pass_context
def get(ctx: click.Context, registry: str | None, ref: str, name: str) -> None:
    """Print a file of a version."""
    from ..contracts.errors import NotFound
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    with use_registry(settings, registry) as asked:
        found = asked.get_prompt_version(named.workspace, named.name, named.version)
    for one in found.files:
        if one.name == name:
            if settings.as_json:
                settings.output.json(plain(one))
            else:
                settings.output.data(one.content)
            return
    raise NotFound(
        "file_unknown",
        f"{found.ref} has no file {name!a:.130}",
        hint=f"it has: {', '.join(one.name for one in found.files)}",
    )


@registry_command("create")
@click.argument("ref", metavar="@WS/NAME@draft")
@click.argument("name", metavar="FILE")
@content_options
@click.option("--entrypoint", is_flag=True, help="It can be rendered by itself.")
@click.option("--format", "kind", type=_FORMAT, default="text", help="What it is once rendered.")
@click.pass_context
def create(
    ctx: click.Context,
    registry: str | None,
    ref: str,
    name: str,
    content: str | None,
    file: str | None,
    entrypoint: bool,
    kind: str,
) -> None:
    """Add a file to a draft."""
    from ..contracts.model import FileFormat
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    text = chosen_text(content, file)
    with use_registry(settings, registry) as asked:
        made = asked.create_prompt_file(
            named.workspace,
            named.name,
            str(named.version),
            name,
            text,
            is_entrypoint=entrypoint,
            format=FileFormat(kind.upper()),
        )
    show(settings, made, f"added {made.name} to {ref}")


@registry_command("update")
@click.argument("ref", metavar="@WS/NAME@draft")
@click.argument("name", metavar="FILE")
@content_options
@click.option("--rename", "new_name", metavar="FILE", help="The new name.")
@click.option("--format", "kind", type=_FORMAT, help="What it is once rendered.")
@click.pass_context
def update(
    ctx: click.Context,
    registry: str | None,
    ref: str,
    name: str,
    content: str | None,
    file: str | None,
    new_name: str | None,
    kind: str | None,
) -> None:
    """Change a file of a draft, or rename it."""
    from ..contracts.model import UNSET, FileFormat
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    has_text = content is not None or file is not None
    if not has_text and new_name is None and kind is None:
        raise click.UsageError("nothing to change: give --content, --file, --rename or --format")
    text = chosen_text(content, file) if has_text else UNSET
    with use_registry(settings, registry) as asked:
        changed = asked.update_prompt_file(
            named.workspace,
            named.name,
            str(named.version),
            name,
            content=text,
            new_name=UNSET if new_name is None else new_name,
            format=UNSET if kind is None else FileFormat(kind.upper()),
        )
    show(settings, changed, f"updated {new_name or name} of {changed.ref}")


@registry_command("delete")
@click.argument("ref", metavar="@WS/NAME@draft")
@click.argument("name", metavar="FILE")
@click.pass_context
def delete(ctx: click.Context, registry: str | None, ref: str, name: str) -> None:
    """Delete a file from a draft."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    with use_registry(settings, registry) as asked:
        asked.delete_prompt_file(named.workspace, named.name, str(named.version), name)
    show(settings, {"deleted": True, "file": name, "ref": ref}, f"deleted {name} from {ref}")


@registry_command("set-entrypoint")
@click.argument("ref", metavar="@WS/NAME@draft")
@click.argument("name", metavar="FILE")
@click.option("--clear", is_flag=True, help="It is none.")
@click.pass_context
def set_entrypoint(
    ctx: click.Context, registry: str | None, ref: str, name: str, clear: bool
) -> None:
    """Say whether a file is an entrypoint."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    with use_registry(settings, registry) as asked:
        changed = asked.set_prompt_file_entrypoint(
            named.workspace, named.name, str(named.version), name, not clear
        )
    word = "no entrypoint any more" if clear else "an entrypoint"
    show(settings, changed, f"{name} of {changed.ref} is {word}")
