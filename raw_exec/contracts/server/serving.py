"""Listen on an address and serve until a signal says to stop."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from starlette.applications import Starlette

from ...errors import ConfigError

__all__ = ["open_listener", "run_server", "url_of"]

_STOP_SECONDS: Final = 5.0
"""How long requests under way may take after the signal to stop."""

_READ_SECONDS: Final = 60
_KEEP_ALIVE_SECONDS: Final = 30.0
_EXIT_KILLED: Final = 130


def open_listener(host: str, port: int) -> socket.socket:
    """Bind an address, so that a mistake in it shows before anything else happens.

    Args:
        port: 0 for any free one.

    Raises:
        ConfigError: ``address_unusable``.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise ConfigError(
            "address_unusable",
            f"can not listen on {host!r} port {port}: {reason}",
            hint="choose another --port, or an address of this machine",
        ) from exc


def url_of(listener: socket.socket) -> str:
    """Return the address that a listener is reached at."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(
    app: Starlette, listener: socket.socket, *, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal ends the process at once.

    Args:
        listener: From ``open_listener``; it is closed at the end.
        on_ready: Called once when connections are accepted.
    """
    trio.run(_serve, app, listener, on_ready)


async def _serve(app: Starlette, listener: socket.socket, on_ready: Callable[[], None]) -> None:
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.loglevel = "WARNING"
    config.include_server_header = False
    config.graceful_timeout = _STOP_SECONDS
    config.keep_alive_timeout = _KEEP_ALIVE_SECONDS
    config.read_timeout = _READ_SECONDS
    stop = trio.Event()
    application: Any = app  # hypercorn types the events more closely than starlette does
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_wait_for_signals, stop)
        async with trio.open_nursery() as serving:
            start = partial(serve, application, config, shutdown_trigger=stop.wait, mode="asgi")
            await serving.start(start)
            on_ready()
        nursery.cancel_scope.cancel()


async def _wait_for_signals(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            if stop.is_set():
                os._exit(_EXIT_KILLED)
            stop.set()
