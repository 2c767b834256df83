"""The HTTP server around the application: its socket, its doorkeepers, its end."""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import partial
from typing import Any, Final

import trio

from ...serving import (
    BearerOnly,
    LocalOnly,
    allowed_hosts,
    identify,
    serve_app,
    stop_on_signals,
    token_digest,
)
from .host import Host
from .http import McpApp

__all__ = ["serve_http"]

GRACEFUL_SECONDS: Final = 10.0
_OWNER: Final = "token"

_PREFLIGHT: Final = (
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (b"access-control-max-age", b"600"),
)
_HEADERS: Final = (
    b"authorization, content-type, mcp-protocol-version, mcp-session-id, mcp-method, "
    b"mcp-name, last-event-id"
)
_MAX_PARAM_HEADERS: Final = 64
_PARAM_HEADER: Final = re.compile(rb"(?i)mcp-param-[!#$%&'*+.^_`|~0-9a-z-]{1,128}")

_App = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]


class SharedWithPages:
    """Let the pages that may ask read the answers (CORS).

    Security: which pages these are is checked before; here every ``Origin`` is one of them.

    Args:
        app: Gets everything but a browser's question whether it may ask.
    """

    def __init__(self, app: _App) -> None:
        self._app = app

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        origin = next((value for key, value in scope["headers"] if key == b"origin"), None)
        if origin is None:
            await self._app(scope, receive, send)
            return
        shared = [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"mcp-session-id"),
            (b"vary", b"origin"),
        ]
        if scope["method"] == "OPTIONS":
            allowed = (b"access-control-allow-headers", _allowed_headers(scope["headers"]))
            headers = [*shared, allowed, *_PREFLIGHT]
            await send({"type": "http.response.start", "status": 204, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return

        async def send_shared(event: MutableMapping[str, Any]) -> None:
            if event["type"] == "http.response.start":
                event = {**event, "headers": [*event["headers"], *shared]}
            await send(event)

        await self._app(scope, receive, send_shared)


def _allowed_headers(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return what a page may send: our headers, and those it asks for that name arguments."""
    asked = b",".join(value for key, value in headers if key == b"access-control-request-headers")
    names = [name.strip() for name in asked.split(b",")]
    named = [name for name in names if _PARAM_HEADER.fullmatch(name)]
    return b", ".join([_HEADERS, *named[:_MAX_PARAM_HEADERS]])


async def serve_http(
    host: Host,
    listener: socket.socket,
    address: str,
    *,
    token: str | None = None,
    origins: Iterable[str] = (),
    graceful_seconds: float = GRACEFUL_SECONDS,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT or SIGTERM; calls under way may finish then, for a while.

    Args:
        listener: Bound; it is closed at the end.
        address: What it was bound to, as it was asked for.
        token: Only who sends it is served.
        origins: Further origins whose pages may ask.
        graceful_seconds: How long calls may take after the signal before they are aborted.
        on_ready: Called once connections are accepted.
    """
    stop = trio.Event()
    inner = McpApp(host, stop)
    app: _App = inner
    if token is not None:
        digests = {_OWNER: token_digest(token)}
        app = BearerOnly(app, lambda given: identify(given, digests))
    port = listener.getsockname()[1]
    app = LocalOnly(SharedWithPages(app), allowed_hosts(address, port), origins)
    async with trio.open_nursery() as nursery:
        await nursery.start(stop_on_signals, stop)
        try:
            async with trio.open_nursery() as serving:
                await serving.start(
                    partial(serve_app, app, listener, stop=stop, graceful_seconds=graceful_seconds)
                )
                on_ready()
        finally:
            inner.close()
        nursery.cancel_scope.cancel()
