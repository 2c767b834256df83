"""``raw mcp``."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from ..errors import ConfigError
from .failures import extra_missing
from .options import Settings, command, settings_of

if TYPE_CHECKING:
    from ..adapters.mcp_server import Host, ServerFacts, ToolSource
    from ..adapters.mcp_server.generation import Opening
    from ..config import Config

__all__ = ["mcp"]

_MIN_TOKEN_CHARS = 16


@command("mcp")
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve streamable HTTP at /mcp on this port; 0 takes any free one. "
    "Default: one client at standard input and output.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on, with --http. Others than loopback need a token.",
)
@click.option(
    "--origin",
    "origins",
    metavar="ORIGIN",
    multiple=True,
    help="A web page's origin that may use the server, for example https://app.example. "
    "Can be given again. Default: none but the server's own.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Only clients that send the token in FILE, as Authorization: Bearer TOKEN.",
)
@click.option(
    "--token-env",
    metavar="NAME",
    help="The same with the token in an environment variable.",
)
@click.option(
    "--cwd",
    type=click.Path(),
    metavar="DIR",
    help="Directory that relative paths mean, and that the sandbox grants. Default: here.",
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Keep the clients' sessions in FILE (SQLite, made with mode 0600): every call, its "
    "panels, its questions.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Serve tools anew when they or the configuration change, and tell the clients. "
    "Calls under way finish as they began; what is broken is told of, and changes nothing.",
)
@click.pass_context
def mcp(
    ctx: click.Context,
    port: int | None,
    host: str,
    origins: tuple[str, ...],
    token_file: str | None,
    token_env: str | None,
    cwd: str | None,
    history: str | None,
    watch: bool,
) -> None:
    """Serve the agent's tools to any MCP client.

    The protocol versions 2025-06-18, 2025-11-25 and 2026-07-28 are served. Every call goes
    through every step of a model's call: schema, validateArgs, effects, rules, approval, and
    then the handler in its sandboxed worker.

    A rule that asks for approval, and a question of a tool, become a form in the client
    (elicitation). A client without forms gets approval_required or interaction_unavailable.

    At standard input and output the server ends with its client, and aborts what still runs.
    With --http it prints its address once it accepts connections; SIGTERM lets calls under
    way finish for a few seconds.
    """
    settings = settings_of(ctx)
    if port is None and (token_file or token_env or origins):
        raise click.UsageError("--token-file, --token-env and --origin need --http", ctx)
    serve = _Serving(settings, cwd, history, watch)
    with _logging_to(settings):
        if port is None:
            serve.stdio()
        else:
            serve.http(host, port, origins, _token(token_file, token_env))


class _Serving:
    """One run of the server."""

    def __init__(
        self, settings: Settings, cwd: str | None, history: str | None, watch: bool
    ) -> None:
        self._settings = settings
        self._cwd = cwd or "."
        self._history = history
        self._watch = watch
        self._told: set[str] = set()

    def _load(self) -> Config:
        from ..config import load_config

        config = load_config(self._settings.config, agent=self._settings.agent)
        for text in config.warnings:
            if text not in self._told:  # a configuration is read again and again
                self._told.add(text)
                self._settings.output.warning(text)
        return config

    def _source(self, host: Host) -> ToolSource:
        from ..adapters.mcp_server import ToolSource
        from ..runtime import open_runtime

        def opening(config: Config) -> Opening:
            return partial(
                open_runtime,
                config,
                cwd=self._cwd,
                history=self._history,
                approve=host.approve,
                interact=host,
            )

        return ToolSource(self._load, opening, keeps_history=self._history is not None)

    def _facts(self) -> ServerFacts:
        from raw_exec import __version__

        from ..adapters.mcp_server import ServerFacts

        info = {"name": "raw-exec", "title": "raw_exec", "version": __version__}
        return ServerFacts(info, changes=self._watch)

    def stdio(self) -> None:
        """Serve the client at standard input and output."""
        import trio

        from ..adapters.mcp_server import open_host, serve_stdio, watch_tools
        from .running import run_async

        async def run() -> None:
            async with open_host(self._facts()) as host, trio.open_nursery() as nursery:
                source = self._source(host)
                await source.serve(host)
                if self._watch:
                    nursery.start_soon(watch_tools, host, source)
                await serve_stdio(host)
                nursery.cancel_scope.cancel()

        run_async(run)

    def http(self, address: str, port: int, origins: tuple[str, ...], token: str | None) -> None:
        """Serve HTTP until a signal says to stop."""
        import trio

        from ..adapters.mcp_server import open_host, watch_tools

        try:
            from ..adapters.mcp_server.http_server import serve_http
            from ..serving import is_loopback, open_listener, url_of
        except ModuleNotFoundError as exc:
            raise extra_missing(exc, "serving over HTTP", "http") from exc
        out = self._settings.output
        if token is None and not is_loopback(address):
            raise ConfigError(
                "token_missing",
                f"{address} is reached from other machines, which would all have every tool",
                hint="add --token-file or --token-env, or listen on 127.0.0.1",
            )
        with open_listener(address, port) as listener:
            url = f"{url_of(listener)}/mcp"

            def announce() -> None:
                if self._settings.as_json:
                    out.json({"url": url})
                else:
                    out.data(url)
                out.note("serving MCP (stop with Ctrl-C)")

            async def run() -> None:
                async with open_host(self._facts()) as host, trio.open_nursery() as nursery:
                    source = self._source(host)
                    await source.serve(host)
                    if self._watch:
                        nursery.start_soon(watch_tools, host, source)
                    await serve_http(
                        host, listener, address, token=token, origins=origins, on_ready=announce
                    )
                    nursery.cancel_scope.cancel()

            trio.run(run)
        out.note("stopped")


def _token(file: str | None, env: str | None) -> str | None:
    from ..jsontext import JsonTextError, read_regular_file

    if file is not None and env is not None:
        raise click.UsageError("give --token-file or --token-env, not both")
    if file is not None:
        where = os.path.abspath(file)
        try:
            token = read_regular_file(where, 4096).decode("utf-8", "replace").strip()
        except (OSError, JsonTextError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else str(exc)
            raise ConfigError("token_invalid", f"can not be read: {reason}", where=where) from exc
    elif env is not None:
        where, token = f"${env}", os.environ.get(env, "").strip()
    else:
        return None
    if len(token) < _MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable():
        raise ConfigError(
            "token_invalid",
            f"the token must have at least {_MIN_TOKEN_CHARS} printable ASCII characters",
            where=where,
            hint="make one, for example: openssl rand -hex 32",
        )
    return token


class _ToOutput(logging.Handler):
    """Prints what the server has to say, as everything else of this program is printed."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def emit(self, record: logging.LogRecord) -> None:
        out = self._settings.output
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        if record.levelno >= logging.ERROR:
            out.error(text)
        elif record.levelno >= logging.WARNING:
            out.warning(text)
        else:
            out.detail(text)


@contextmanager
def _logging_to(settings: Settings) -> Iterator[None]:
    """Print what the package logs, inside the block."""
    logger = logging.getLogger("raw_exec")
    before = logger.propagate, logger.level
    handler = _ToOutput(settings)
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.INFO if settings.verbosity > 0 else logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate, logger.level = before
