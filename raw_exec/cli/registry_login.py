"""``raw registry login``, ``logout`` and ``whoami``: this user and a server."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import click

from .options import settings_of
from .registry_access import credentials, registry_command, show, use_registry

if TYPE_CHECKING:
    from ..contracts.client import Login

__all__ = ["login", "logout", "whoami"]


@registry_command("login", asks=False)
@click.argument("url", metavar="URL")
@click.option("--label", metavar="TEXT", help="What the key is for. Default: this host's name.")
@click.option(
    "--plain-http",
    is_flag=True,
    help="Allow http to another machine. Whoever is on the way can read the key.",
)
@click.pass_context
def login(ctx: click.Context, url: str, label: str | None, plain_http: bool) -> None:
    """Log in to a server, and keep its key.

    Shows a code, and waits until whoever runs the server has approved it: raw registry device
    approve. The key is kept beside the configuration, readable by you alone, and sent to
    this server only.
    """
    from ..contracts.client import check_url, log_in

    settings = settings_of(ctx)
    out = settings.output
    base = check_url(url)
    known = credentials()
    if known.find(base) is not None:
        raise click.UsageError(
            f"there is a login for {base}; end it with: raw registry logout {base}"
        )

    def tell(started: Login) -> None:
        # Shown even with -q: without the code nobody can go on.
        click.echo(f"code: {_clean(started.user_code)}", err=True)
        click.echo(f"approve it: {_clean(started.verification_uri)}", err=True)
        out.note("waiting until it is approved (stop with Ctrl-C)")

    found = log_in(
        base, label=label or f"raw on {platform.node()}", tell=tell, allow_plain=plain_http
    )
    known.add(base, found)
    value = {"registry": base, "user_id": found.user_id, "key_id": found.key_id}
    show(settings, value, f"logged in to {base}")


def _clean(text: str) -> str:
    from ..text import escape_text

    return escape_text(text, keep_newlines=False)


@registry_command("logout", asks=False)
@click.argument("url", metavar="[URL]", required=False)
@click.option("--force", is_flag=True, help="Forget the key even if it can not be revoked.")
@click.pass_context
def logout(ctx: click.Context, url: str | None, force: bool) -> None:
    """Revoke the key of a login, and forget it.

    URL may be left out when there is one login.
    """
    from ..contracts.client import RemoteRegistry, Transport, check_url
    from ..contracts.errors import StoreError, Unauthenticated

    settings = settings_of(ctx)
    known = credentials()
    base = known.default() if url is None else check_url(url)
    if base is None:
        count = len(known.load())
        raise click.UsageError("not logged in" if count == 0 else "several logins; name the URL")
    found = known.find(base)
    if found is None:
        raise click.UsageError(f"there is no login for {base}")
    state = "revoked"
    try:
        if not RemoteRegistry(Transport(base, found.token)).revoke_key(found.key_id):
            state = "revoked already"
    except Unauthenticated:
        state = "not valid any more"
    except StoreError as exc:
        if not force:
            raise StoreError(
                exc.code,
                exc.message.removesuffix(f"; {exc.hint}"),
                hint="try again later, or forget the key here with --force; it stays valid then",
            ) from exc
        settings.output.warning(f"the key is still valid: {exc.message}")
        state = "not revoked"
    known.remove(base)
    value = {"registry": base, "key": state}
    show(settings, value, f"logged out of {base}; the key is {state}")


@registry_command("whoami")
@click.pass_context
def whoami(ctx: click.Context, registry: str | None) -> None:
    """Say which registry is asked, and as whom.

    Also shown are the workspaces of the user and the role in each.
    """
    from ..contracts.client import RemoteRegistry

    settings = settings_of(ctx)
    with use_registry(settings, registry) as asked:
        who = asked.me() if isinstance(asked, RemoteRegistry) else None
        address = asked.address
    if settings.as_json:
        settings.output.json({"registry": address, "user": who})
        return
    out = settings.output
    out.line(f"registry: {address}")
    if who is None:
        out.line("you:      whoever can open the database may do everything in it")
        return
    out.line(f"you:      {who['email']}")
    for one in who["memberships"]:
        out.line(f"          @{one['workspace']}: {one['role'].lower()}")
