"""``raw registry user``, ``workspace`` and ``member``."""

from __future__ import annotations

from typing import Any

import click

from .lazy import LazyGroup
from .options import command, common_options, settings_of
from .registry_database import ask_database, database_option, plain, read_database

__all__ = [
    "add_user",
    "add_workspace",
    "list_members",
    "list_users",
    "list_workspaces",
    "member",
    "remove_member",
    "set_member",
    "set_workspace",
    "user",
    "workspace",
]


def bare(name: str) -> str:
    """Return a workspace's bare name; people write it with and without the @."""
    return name.removeprefix("@")


@click.group(
    "user",
    cls=LazyGroup,
    lazy={
        "add": ("registry_people:add_user", "Add a user."),
        "list": ("registry_people:list_users", "List the users."),
    },
)
@common_options
def user() -> None:
    """Add and list the users of a registry."""


@command("add")
@database_option
@click.argument("email")
@click.pass_context
def add_user(ctx: click.Context, db: str | None, email: str) -> None:
    """Add a user.

    EMAIL only tells users apart; nothing is sent to it.
    """
    from ..contracts import service
    from ..contracts.model import Principal

    operator = Principal.operator()
    added = ask_database(db, lambda s: service.add_user(s, operator, email))
    _tell(ctx, added, f"added user {added.email}")


@command("list")
@database_option
@click.pass_context
def list_users(ctx: click.Context, db: str | None) -> None:
    """List the users."""
    from ..contracts import service
    from ..contracts.model import Principal

    settings = settings_of(ctx)
    users = read_database(db, lambda s: service.list_users(s, Principal.operator()))
    if settings.as_json:
        settings.output.json({"users": plain(users)})
    else:
        settings.output.table(("EMAIL", "ID"), [(one.email, one.id) for one in users])


@click.group(
    "workspace",
    cls=LazyGroup,
    lazy={
        "add": ("registry_people:add_workspace", "Add a workspace with its first owner."),
        "set": ("registry_people:set_workspace", "Change the settings of a workspace."),
        "list": ("registry_people:list_workspaces", "List the workspaces."),
    },
)
@common_options
def workspace() -> None:
    """Add, change and list workspaces."""


@command("add")
@database_option
@click.argument("name")
@click.option("--owner", metavar="EMAIL", required=True, help="A user of this registry.")
@click.option("--display-name", metavar="TEXT", help="For lists.")
@click.option("--description", metavar="TEXT", help="For lists.")
@click.pass_context
def add_workspace(
    ctx: click.Context,
    db: str | None,
    name: str,
    owner: str,
    display_name: str | None,
    description: str | None,
) -> None:
    """Add a workspace with its first owner.

    Command lines may not publish in it until 'raw registry workspace set' lets them.
    """
    from ..contracts import service
    from ..contracts.model import Principal

    added = ask_database(
        db,
        lambda s: service.add_workspace(
            s,
            Principal.operator(),
            bare(name),
            owner=owner,
            display_name=display_name,
            description=description,
        ),
    )
    _tell(ctx, added, f"added workspace @{added.name}")


@command("set")
@database_option
@click.argument("name")
@click.option(
    "--cli-publishing",
    type=click.Choice(["on", "off"]),
    help="Whether command lines and agents may publish in it.",
)
@click.option("--display-name", metavar="TEXT", help="For lists; empty clears it.")
@click.option("--description", metavar="TEXT", help="For lists; empty clears it.")
@click.pass_context
def set_workspace(
    ctx: click.Context,
    db: str | None,
    name: str,
    cli_publishing: str | None,
    display_name: str | None,
    description: str | None,
) -> None:
    """Change the settings of a workspace.

    What is not given stays.
    """
    from ..contracts import service
    from ..contracts.model import UNSET, Principal

    if cli_publishing is None and display_name is None and description is None:
        raise click.UsageError("nothing to set: give --cli-publishing on, or another option")
    changed = ask_database(
        db,
        lambda s: service.set_workspace(
            s,
            Principal.operator(),
            bare(name),
            cli_publishing=UNSET if cli_publishing is None else cli_publishing == "on",
            display_name=UNSET if display_name is None else display_name or None,
            description=UNSET if description is None else description or None,
        ),
    )
    state = "on" if changed.cli_publishing else "off"
    _tell(ctx, changed, f"workspace @{changed.name}: publishing from command lines is {state}")


@command("list")
@database_option
@click.pass_context
def list_workspaces(ctx: click.Context, db: str | None) -> None:
    """List the workspaces."""
    from ..contracts import service
    from ..contracts.model import Principal

    settings = settings_of(ctx)
    found = read_database(db, lambda s: service.list_workspaces(s, Principal.operator()))
    if settings.as_json:
        settings.output.json({"workspaces": plain(found)})
    else:
        settings.output.table(
            ("WORKSPACE", "CLI PUBLISHING", "DISPLAY NAME"),
            [
                (f"@{one.name}", "on" if one.cli_publishing else "off", one.display_name or "")
                for one in found
            ],
        )


@click.group(
    "member",
    cls=LazyGroup,
    lazy={
        "set": ("registry_people:set_member", "Add a member, or give one another role."),
        "remove": ("registry_people:remove_member", "Remove a member."),
        "list": ("registry_people:list_members", "List the members of a workspace."),
    },
)
@common_options
def member() -> None:
    """Say who belongs to a workspace, and as what."""


@command("set")
@database_option
@click.argument("workspace_name", metavar="WORKSPACE")
@click.argument("email")
@click.option(
    "--role",
    type=click.Choice(["owner", "admin", "member"]),
    default="member",
    show_default=True,
    help="Members read, author and publish; admins also manage; owners make owners.",
)
@click.pass_context
def set_member(
    ctx: click.Context, db: str | None, workspace_name: str, email: str, role: str
) -> None:
    """Add a member, or give one another role."""
    from ..contracts import service
    from ..contracts.model import Principal, Role

    name = bare(workspace_name)
    found = ask_database(
        db,
        lambda s: service.set_member(s, Principal.operator(), name, email, Role(role.upper())),
    )
    _tell(ctx, found, f"{found.user.email} is {role} of @{name}")


@command("remove")
@database_option
@click.argument("workspace_name", metavar="WORKSPACE")
@click.argument("email")
@click.pass_context
def remove_member(ctx: click.Context, db: str | None, workspace_name: str, email: str) -> None:
    """Remove a member.

    The last owner stays.
    """
    from ..contracts import service
    from ..contracts.model import Principal

    name = bare(workspace_name)
    settings = settings_of(ctx)
    was_one = ask_database(
        db, lambda s: service.remove_member(s, Principal.operator(), name, email)
    )
    if settings.as_json:
        settings.output.json({"removed": was_one})
    else:
        done = "was removed from" if was_one else "was no member of"
        settings.output.line(f"{email} {done} @{name}")


@command("list")
@database_option
@click.argument("workspace_name", metavar="WORKSPACE")
@click.pass_context
def list_members(ctx: click.Context, db: str | None, workspace_name: str) -> None:
    """List the members of a workspace."""
    from ..contracts import service
    from ..contracts.model import Principal

    settings = settings_of(ctx)
    found = read_database(
        db, lambda s: service.list_members(s, Principal.operator(), bare(workspace_name))
    )
    if settings.as_json:
        settings.output.json({"members": plain(found)})
    else:
        settings.output.table(
            ("EMAIL", "ROLE"), [(one.user.email, one.role.value.lower()) for one in found]
        )


def _tell(ctx: click.Context, value: Any, text: str) -> None:
    settings = settings_of(ctx)
    if settings.as_json:
        settings.output.json(plain(value))
    else:
        settings.output.line(text)
