"""``raw registry device`` and ``raw registry key``: who may act as whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from .lazy import LazyGroup
from .options import command, common_options, settings_of
from .registry_database import ask_database, database_option, plain, read_database
from .registry_people import bare

__all__ = ["approve", "create", "deny", "device", "key", "list_keys", "revoke"]


@click.group(
    "device",
    cls=LazyGroup,
    lazy={
        "approve": ("registry_keys:approve", "Let the program that shows CODE log in as a user."),
        "deny": ("registry_keys:deny", "Tell the program that shows CODE that it may not log in."),
    },
)
@common_options
def device() -> None:
    """Approve or deny programs that want to log in."""


@command("approve")
@database_option
@click.option("--user", "email", metavar="EMAIL", required=True, help="Whom it will act as.")
@click.argument("code")
@click.pass_context
def approve(ctx: click.Context, db: str | None, email: str, code: str) -> None:
    """Let the program that shows CODE log in as a user.

    Make sure that it is this user who asks: the program gets a key that does all the user may.
    """
    from ..contracts import service
    from ..contracts.model import Principal

    settings = settings_of(ctx)
    operator = Principal.operator()
    ask_database(db, lambda s: service.approve_device(s, operator, code, email=email))
    if settings.as_json:
        settings.output.json({"approved": True, "user": email})
    else:
        settings.output.line(f"approved; the program that shows {code} acts as {email}")


@command("deny")
@database_option
@click.argument("code")
@click.pass_context
def deny(ctx: click.Context, db: str | None, code: str) -> None:
    """Tell the program that shows CODE that it may not log in."""
    from ..contracts import service
    from ..contracts.model import Principal

    settings = settings_of(ctx)
    ask_database(db, lambda s: service.deny_device(s, Principal.operator(), code))
    if settings.as_json:
        settings.output.json({"denied": True})
    else:
        settings.output.line(f"denied; the program that shows {code} is told so")


@click.group(
    "key",
    cls=LazyGroup,
    lazy={
        "create": ("registry_keys:create", "Make a key and print it, this one time."),
        "list": ("registry_keys:list_keys", "List keys, without their secrets."),
        "revoke": ("registry_keys:revoke", "Revoke a key for good."),
    },
)
@common_options
def key() -> None:
    """Make, list and revoke API keys."""


@command("create")
@database_option
@click.option("--user", "email", metavar="EMAIL", help="For a key that does all this user may.")
@click.option("--workspace", metavar="NAME", help="For a key that reads this workspace.")
@click.option("--label", metavar="TEXT", default="", help="What it is for.")
@click.option("--days", type=click.IntRange(1, 36500), help="After that many it expires.")
@click.pass_context
def create(
    ctx: click.Context,
    db: str | None,
    email: str | None,
    workspace: str | None,
    label: str,
    days: int | None,
) -> None:
    """Make a key and print it, this one time.

    The registry keeps only a digest of it. Give either --user or --workspace.
    """
    from ..contracts import service
    from ..contracts.model import Principal

    if (email is None) == (workspace is None):
        raise click.UsageError("give either --user or --workspace")
    settings = settings_of(ctx)
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
    made = ask_database(
        db,
        lambda s: service.create_key(
            s,
            Principal.operator(),
            email=email,
            workspace=None if workspace is None else bare(workspace),
            label=label,
            expires_at=expires_at,
        ),
    )
    if settings.as_json:
        settings.output.json({**plain(made.key), "token": made.token})
    else:
        settings.output.data(made.token)
    settings.output.note(
        f"key {made.key.id}; revoke it with: raw registry key revoke {made.key.id}"
    )


@command("list")
@database_option
@click.option("--workspace", metavar="NAME", help="Only the keys of this workspace.")
@click.pass_context
def list_keys(ctx: click.Context, db: str | None, workspace: str | None) -> None:
    """List keys, without their secrets."""
    from ..contracts import service
    from ..contracts.model import Principal

    settings = settings_of(ctx)
    operator = Principal.operator()
    name = None if workspace is None else bare(workspace)
    found = read_database(db, lambda s: service.list_keys(s, operator, workspace=name))
    if settings.as_json:
        settings.output.json({"keys": plain(found)})
        return
    rows = []
    for one in found:
        state = "revoked" if one.revoked_at else "valid"
        if not one.revoked_at and one.expires_at:
            state = f"until {one.expires_at:%Y-%m-%d %H:%M}Z"
        holder = f"@{one.workspace}" if one.workspace else str(one.user_id)
        rows.append((one.id, holder, state, one.label))
    settings.output.table(("ID", "HOLDER", "STATE", "LABEL"), rows)


@command("revoke")
@database_option
@click.argument("key_id", metavar="KEY_ID")
@click.pass_context
def revoke(ctx: click.Context, db: str | None, key_id: str) -> None:
    """Revoke a key for good.

    KEY_ID is the key's id, not its secret. Whoever uses the key is refused at its next step.
    """
    from ..contracts import service
    from ..contracts.model import Principal

    settings = settings_of(ctx)
    operator = Principal.operator()
    was_valid = ask_database(db, lambda s: service.revoke_key(s, operator, key_id))
    if settings.as_json:
        settings.output.json({"revoked": True, "was_revoked_already": not was_valid})
    else:
        settings.output.line("revoked" if was_valid else "this key was revoked already")
