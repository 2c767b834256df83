"""``raw registry``: serve a registry of tool contracts, and administer it."""

from __future__ import annotations

import click

from .lazy import LazyGroup
from .options import command, common_options, settings_of
from .registry_database import (
    database_option,
    open_database,
    registry_extra_missing,
    shown_database,
)

__all__ = ["registry", "serve"]

_PORT = 8930
_PER_SECOND = 20.0


@click.group(
    "registry",
    cls=LazyGroup,
    lazy={
        "serve": ("registry:serve", "Serve a registry until it is interrupted."),
        "user": ("registry_people:user", "Add and list the users of a registry."),
        "workspace": ("registry_people:workspace", "Add, change and list workspaces."),
        "member": ("registry_people:member", "Say who belongs to a workspace, and as what."),
        "device": ("registry_keys:device", "Approve or deny programs that want to log in."),
        "key": ("registry_keys:key", "Make, list and revoke API keys."),
        "login": ("registry_login:login", "Log in to a server, and keep its key."),
        "logout": ("registry_login:logout", "Revoke the key of a login, and forget it."),
        "whoami": ("registry_login:whoami", "Say which registry is asked, and as whom."),
    },
)
@common_options
def registry() -> None:
    """Serve a registry of tool contracts, and administer it.

    Administration works on the database itself, with and without a server: whoever can open
    the database may do everything in it.
    """


@command("serve")
@database_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="0 takes any free one.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. Other machines reach more than loopback, without encryption.",
)
@click.option(
    "--public-url",
    metavar="URL",
    help="Where people reach the server, for example behind a proxy. Default: its own address.",
)
@click.option(
    "--rate",
    metavar="N",
    type=click.FloatRange(0, min_open=True),
    default=_PER_SECOND,
    show_default=True,
    help="Requests per second that one key may send in the long run.",
)
@click.pass_context
def serve(
    ctx: click.Context, db: str | None, port: int, host: str, public_url: str | None, rate: float
) -> None:
    """Serve a registry until it is interrupted.

    GraphQL is at /graphql, device logins at /oauth/device. Prints the address once it
    accepts connections. SIGINT and SIGTERM let requests under way finish; a second signal
    ends the server at once.
    """
    settings = settings_of(ctx)
    try:
        from ..contracts.server import ServerLimits, make_app
        from ..serving import is_loopback, open_listener, run_server, url_of
    except ModuleNotFoundError as exc:
        raise registry_extra_missing(exc) from exc

    with open_database(db) as store, open_listener(host, port) as listener:
        url = url_of(listener)
        if not is_loopback(host):
            settings.output.warning(
                f"{host} is reached from other machines, and keys travel unencrypted; "
                "put a proxy with TLS in front"
            )
        base = (public_url or url).rstrip("/")
        app = make_app(store, public_url=base, limits=ServerLimits(per_second=rate))

        def announce() -> None:
            if settings.as_json:
                settings.output.json({"url": url, "graphql": f"{url}/graphql", "public_url": base})
            else:
                settings.output.data(url)
            settings.output.note(f"serving {shown_database(db)} (stop with Ctrl-C)")

        run_server(app, listener, on_ready=announce)
    settings.output.note("stopped")
