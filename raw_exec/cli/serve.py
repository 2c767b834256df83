"""``raw serve``: the agent's tools for other programs, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import ConfigError
from ..limits import MAX_ARGUMENT_BYTES
from .failures import extra_missing
from .lazy import LazyGroup
from .options import Settings, command, common_options, settings_of

if TYPE_CHECKING:
    from ..adapters.http import KeyFile, KeyRing

__all__ = ["key", "list_keys", "new", "remove", "serve"]

_F = TypeVar("_F", bound=Callable[..., Any])
_MAX_BODY_BYTES = MAX_ARGUMENT_BYTES + 4 * 1024 * 1024
"""The largest arguments that a call may have, and room for the rest of the body."""


@click.group(
    "serve",
    cls=LazyGroup,
    invoke_without_command=True,
    lazy={"key": ("serve:key", "Make, list and remove the keys of the service.")},
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve HTTP at this port; 0 takes any free one.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. More than loopback needs --keys, and travels unencrypted.",
)
@click.option(
    "--keys",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Who may call, as raw serve key writes it. Default: one key, made up at every start.",
)
@click.option("--no-auth", is_flag=True, help="Ask for no key. On a loopback address only.")
@click.option(
    "--cwd",
    type=click.Path(),
    metavar="DIR",
    default=".",
    help="Directory that relative paths mean, and that calls may work in. Default: here.",
)
@click.option(
    "--allow-cwd",
    type=click.Path(),
    metavar="DIR",
    multiple=True,
    help="A further directory that a call may name as its cwd; repeatable.",
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Keep sessions in FILE (SQLite, made with mode 0600). Default: in memory.",
)
@click.option(
    "--audit",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Append a record of every call to FILE, one JSON object a line. Arguments are not in it.",
)
@click.option(
    "--approvals",
    is_flag=True,
    help="Let whoever made a call approve it when a rule asks. Default: such calls are refused.",
)
@click.option(
    "--max-calls",
    type=click.IntRange(1, 4096),
    metavar="N",
    default=16,
    show_default=True,
    help="Calls that run at the same time.",
)
@click.option(
    "--queue",
    type=click.IntRange(0, 100_000),
    metavar="N",
    default=128,
    show_default=True,
    help="Calls that wait their turn; over it the answer is 429.",
)
@click.option(
    "--per-key",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Calls of one holder of keys, running and waiting. Default with --keys: half of all.",
)
@click.option(
    "--rate",
    metavar="N",
    type=click.FloatRange(0, min_open=True),
    help="Requests per second of one holder of keys in the long run. Default: any number.",
)
@click.option(
    "--max-body-bytes",
    type=click.IntRange(1024, _MAX_BODY_BYTES),
    metavar="BYTES",
    default=8 * 1024 * 1024,
    show_default=True,
    help="Size of one request.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0),
    metavar="SECONDS",
    default=30.0,
    show_default=True,
    help="How long calls may go on after the signal to stop; then they are aborted.",
)
@click.option(
    "--allow-host",
    metavar="NAME",
    multiple=True,
    help="A further Host that requests may name, such as a proxy's; repeatable.",
)
@click.option(
    "--allow-origin",
    metavar="URL",
    multiple=True,
    help="A further Origin whose requests are answered; repeatable.",
)
@common_options
@click.pass_context
def serve(ctx: click.Context, /, port: int | None, **options: Any) -> None:
    """Serve the agent's tools to other programs.

    POST /v1/call calls a tool; GET /openapi.json describes the rest. Prints the address once
    connections are accepted. Every holder of keys has workers, sessions and calls of its own.

    SIGINT and SIGTERM let calls under way go on for a while and leave nothing behind; a
    second signal ends the service at once.
    """
    if ctx.invoked_subcommand is not None:
        return
    if port is None:
        raise click.UsageError("say where: --http PORT", ctx)
    if options["keys"] is not None and options["no_auth"]:
        raise click.UsageError("--keys and --no-auth exclude each other", ctx)
    _run(settings_of(ctx), port, options)


def _run(settings: Settings, port: int, options: dict[str, Any]) -> None:
    try:
        from ..adapters.http import Hosting, KeyFile, KeyRing, ServiceLimits, serve_http
        from ..serving import is_loopback, open_listener, url_of
    except ModuleNotFoundError as exc:
        raise extra_missing(exc, "serving over HTTP", "http") from exc
    import trio

    from ..config import load_config

    config = load_config(settings.config, agent=settings.agent)
    if not settings.as_json:
        for text in config.warnings:
            settings.output.warning(text)
    ring = None if options["keys"] is None else KeyRing(KeyFile(options["keys"]))
    local = is_loopback(options["host"])
    if ring is None and not local:
        raise ConfigError(
            "keys_required",
            f"{options['host']} is reached from other machines, and there is no file of keys",
            hint="make one with: raw serve key new NAME --keys FILE",
        )
    token, whose = _token(ring, options["no_auth"])
    per_key = options["per_key"]
    if per_key is None and ring is not None:
        per_key = max(1, (options["max_calls"] + options["queue"]) // 2)
    hosting = Hosting(
        config,
        cwd=options["cwd"],
        extra_roots=options["allow_cwd"],
        whose=whose,
        ring=ring,
        approvals=options["approvals"],
        history=options["history"],
        audit=options["audit"],
        hosts=options["allow_host"],
        origins=options["allow_origin"],
        limits=ServiceLimits(
            running=options["max_calls"],
            queued=options["queue"],
            per_principal=per_key,
            per_second=options["rate"],
            body_bytes=options["max_body_bytes"],
            drain_seconds=options["drain_seconds"],
        ),
    )
    with open_listener(options["host"], port) as listener:
        url = url_of(listener)
        if not local:
            settings.output.warning(
                f"{options['host']} is reached from other machines, and keys travel "
                "unencrypted; put a proxy with TLS in front"
            )

        def announce() -> None:
            auth = "keys" if ring is not None else "none" if token is None else "token"
            if settings.as_json:
                settings.output.json({"url": url, "auth": auth})
            else:
                settings.output.data(url)
            if token is not None:
                # Shown even with -q: without it nobody can call.
                click.echo(f"key: {token}", err=True)
            settings.output.note("stop with Ctrl-C")

        def tell(calls: int) -> None:
            if calls:
                settings.output.note(
                    f"stopping; {calls} calls have {options['drain_seconds']:g} s to end "
                    "(a second signal ends them now)"
                )

        try:
            trio.run(partial(serve_http, hosting, listener, on_ready=announce, on_stop=tell))
        except BaseExceptionGroup as group:
            from .failures import only_cause

            cause = only_cause(group)
            if cause is group:
                raise
            raise cause from group
    settings.output.note("stopped")


def _token(
    ring: KeyRing | None, no_auth: bool
) -> tuple[str | None, Callable[[str], str | None] | None]:
    """Return the key that is made up, if one is, and what tells whose a key is."""
    from ..adapters.http import new_token
    from ..adapters.http.app import DEFAULT_PRINCIPAL
    from ..serving import identify, token_digest

    if ring is not None:
        return None, ring.whose
    if no_auth:
        return None, None
    token = new_token()
    digests = {DEFAULT_PRINCIPAL: token_digest(token)}
    return token, lambda given: identify(given, digests)


# ---------------------------------------------------------------- keys


@click.group(
    "key",
    cls=LazyGroup,
    lazy={
        "new": ("serve:new", "Make a key and print it, this one time."),
        "list": ("serve:list_keys", "List keys, without their secrets."),
        "remove": ("serve:remove", "Remove a key, or all keys of a holder."),
    },
)
@common_options
def key() -> None:
    """Make, list and remove the keys of the service.

    A running service takes notice of a changed file by itself.
    """


def _keys_option(function: _F) -> _F:
    return click.option(
        "--keys",
        "path",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        required=True,
        help="The file of keys: JSON, mode 0600, digests only.",
    )(function)


def _key_file(path: str) -> KeyFile:
    try:
        from ..adapters.http import KeyFile
    except ModuleNotFoundError as exc:
        raise extra_missing(exc, "serving over HTTP", "http") from exc
    return KeyFile(path)


@command("new")
@_keys_option
@click.option(
    "--cwd",
    type=click.Path(),
    metavar="DIR",
    help="Directory that calls with it may work in. Default: that of the service.",
)
@click.argument("name")
@click.pass_context
def new(ctx: click.Context, path: str, cwd: str | None, name: str) -> None:
    """Make a key and print it, this one time.

    NAME says on whose behalf its calls are: holders of different names share nothing but the
    directory they work in. FILE is made when it does not exist, and keeps only a digest.
    """
    settings = settings_of(ctx)
    made, token = _key_file(path).add(name, cwd=cwd)
    if settings.as_json:
        settings.output.json({**_shown(made), "token": token})
    else:
        settings.output.data(token)
    settings.output.note(f"key {made.id} of {made.principal}; it is not shown again")


@command("list")
@_keys_option
@click.pass_context
def list_keys(ctx: click.Context, path: str) -> None:
    """List keys, without their secrets."""
    settings = settings_of(ctx)
    found = _key_file(path).load()
    if settings.as_json:
        settings.output.json({"keys": [_shown(one) for one in found]})
        return
    rows = [(one.id, one.principal, one.created, one.cwd or "") for one in found]
    settings.output.table(("ID", "HOLDER", "CREATED", "DIRECTORY"), rows)


@command("remove")
@_keys_option
@click.argument("name", metavar="ID|HOLDER")
@click.pass_context
def remove(ctx: click.Context, path: str, name: str) -> None:
    """Remove a key, or all keys of a holder.

    The next request with it is refused; calls under way end by themselves.
    """
    settings = settings_of(ctx)
    found = _key_file(path).remove(name)
    if settings.as_json:
        settings.output.json({"removed": [_shown(one) for one in found]})
    else:
        for one in found:
            settings.output.line(f"removed {one.id} of {one.principal}")


def _shown(one: Any) -> dict[str, Any]:
    return {name: value for name, value in one.as_dict().items() if name != "sha256"}
