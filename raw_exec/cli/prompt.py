"""``raw prompt``: prompts in a registry, and what they pin."""

from __future__ import annotations

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
)
from .registry_database import plain

__all__ = ["create", "get", "list_prompts", "prompt", "update"]


@click.group(
    "prompt",
    cls=LazyGroup,
    lazy={
        "create": ("prompt:create", "Create a prompt with an open draft."),
        "list": ("prompt:list_prompts", "List the prompts of a workspace."),
        "get": ("prompt:get", "Show a prompt and its versions."),
        "update": ("prompt:update", "Change what the catalogue shows of a prompt."),
        "tools": ("prompt_tools:tools", "Pin tool contracts to a draft, and list the pins."),
        "file": ("prompt_file:file_group", "List, add, change and delete the files of a draft."),
        "version": ("prompt_version:version", "Draft, edit, publish and list versions."),
    },
)
@common_options
def prompt() -> None:
    """Author prompts, and pin tool contracts to them.

    A prompt's version holds templates, and the versions of the tools that it was written for.
    References look like @acme/daily-brief, versions like @acme/daily-brief@1.0.0 or
    @acme/daily-brief@draft.
    """


@registry_command("create")
@click.argument("ref", metavar="@WS/NAME")
@click.option("--description", metavar="TEXT", help="For the catalogue.")
@click.option(
    "--kind",
    type=click.Choice(("llm", "system-one")),
    default="llm",
    show_default=True,
    help="Which kind of model it is for.",
)
@click.pass_context
def create(
    ctx: click.Context, registry: str | None, ref: str, description: str | None, kind: str
) -> None:
    """Create a prompt with an open draft.

    The draft has two empty files, systemPrompt and userPrompt.
    """
    from ..contracts.model import PromptKind
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="forbidden")
    chosen = PromptKind(kind.upper().replace("-", "_"))
    with use_registry(settings, registry) as asked:
        made = asked.create_prompt(
            named.workspace, named.name, description=description, kind=chosen
        )
    show(settings, made, f"created {made.ref} ({made.visibility.value}) with a draft version")


@registry_command("list")
@click.argument("workspace", metavar="@WS")
@click.option("--search", metavar="TEXT", help="Part of a name or description.")
@page_options
@click.pass_context
def list_prompts(
    ctx: click.Context,
    registry: str | None,
    workspace: str,
    search: str | None,
    limit: int,
    offset: int,
) -> None:
    """List the prompts of a workspace."""
    from ..contracts.names import parse_workspace_ref

    settings = settings_of(ctx)
    name = parse_workspace_ref(workspace)
    with use_registry(settings, registry) as asked:
        page = asked.list_prompts(name, skip=offset, take=limit, search=search or None)
    show_page(
        settings,
        page,
        ("PROMPT", "VISIBILITY", "KIND", "UPDATED"),
        lambda one: (
            one.ref,
            one.visibility.value,
            one.kind.value,
            f"{one.updated_at:%Y-%m-%d}",
        ),
        "no prompts found",
    )


@registry_command("get")
@click.argument("ref", metavar="@WS/NAME")
@click.pass_context
def get(ctx: click.Context, registry: str | None, ref: str) -> None:
    """Show a prompt and its versions."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="forbidden")
    with use_registry(settings, registry) as asked:
        found = asked.get_prompt(named.workspace, named.name)
        versions = asked.list_prompt_versions(named.workspace, named.name, take=100)
    if settings.as_json:
        settings.output.json({**plain(found), "versions": brief_versions(versions)})
        return
    out = settings.output
    out.heading(found.ref)
    out.line(f"visibility:  {found.visibility.value}")
    out.line(f"kind:        {found.kind.value}")
    if found.description:
        out.line(f"description: {found.description}")
    show_versions(settings, versions)


@registry_command("update")
@click.argument("ref", metavar="@WS/NAME")
@click.option(
    "--description", metavar="TEXT", required=True, help='For the catalogue; "" removes it.'
)
@click.pass_context
def update(ctx: click.Context, registry: str | None, ref: str, description: str) -> None:
    """Change what the catalogue shows of a prompt."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="forbidden")
    with use_registry(settings, registry) as asked:
        changed = asked.update_prompt(named.workspace, named.name, description=description or None)
    show(settings, changed, f"updated {changed.ref}")
