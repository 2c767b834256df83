"""Serve an application until something says to stop."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import trio
from hypercorn.config import Config

from .connections import Connections

__all__ = ["run_server", "serve_app", "stop_on_signals"]

_STOP_SECONDS: Final = 5.0
"""How long requests under way may take after the signal to stop."""

_READ_SECONDS: Final = 60
_KEEP_ALIVE_SECONDS: Final = 30.0
_KEEP_ALIVE_REQUESTS: Final = 1_000_000
_BACKLOG: Final = 1024
"""Connections that wait to be accepted; the kernel may allow fewer."""

_EXIT_KILLED: Final = 130


async def serve_app(
    app: Any,
    listener: socket.socket,
    *,
    stop: trio.Event,
    graceful_seconds: float = _STOP_SECONDS,
    read_seconds: int | None = None,
    write_seconds: float = 30.0,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an ASGI application inside a running trio loop.

    If cancelled, requests under way are cancelled too.

    Args:
        app: Called once for each request, in a task of its own. It gets no lifespan events.
        listener: From ``open_listener``; it is closed at the end.
        stop: Once set, no further connection is accepted.
        graceful_seconds: How long requests under way may take from then on; after that they
            are cancelled and their connections closed.
        read_seconds: A connection that sends nothing for so long is closed, in the middle of
            a request too: ``None`` where answers take long or are streams.
        write_seconds: A client that takes nothing of an answer for so long is cut off.
        task_status: Started once connections are accepted.
    """
    config = Config()
    config.loglevel = "WARNING"
    config.include_server_header = False
    config.keep_alive_timeout = _KEEP_ALIVE_SECONDS
    config.keep_alive_max_requests = _KEEP_ALIVE_REQUESTS
    config.read_timeout = read_seconds
    owned = socket.socket(fileno=listener.detach())
    try:
        owned.setblocking(False)
        owned.listen(_BACKLOG)
        sockets = trio.SocketListener(trio.socket.from_stdlib_socket(owned))
        connections = Connections(app, config, write_seconds)
        async with trio.open_nursery() as handlers:
            async with trio.open_nursery() as accepting:
                accept = partial(
                    trio.serve_listeners,
                    connections.handle,
                    [sockets],
                    handler_nursery=handlers,
                )
                await accepting.start(accept)
                task_status.started()
                await stop.wait()
                accepting.cancel_scope.cancel()
            await sockets.aclose()
            await connections.drain(graceful_seconds)
            handlers.cancel_scope.cancel()
    finally:
        owned.close()


def run_server(
    app: Any, listener: socket.socket, *, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal ends the process at once.

    Args:
        app: An ASGI application for trio.
        listener: From ``open_listener``; it is closed at the end.
        on_ready: Called once when connections are accepted.
    """
    trio.run(_serve, app, listener, on_ready)


async def _serve(app: Any, listener: socket.socket, on_ready: Callable[[], None]) -> None:
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(stop_on_signals, stop)
        async with trio.open_nursery() as serving:
            start = partial(serve_app, app, listener, stop=stop, read_seconds=_READ_SECONDS)
            await serving.start(start)
            on_ready()
        nursery.cancel_scope.cancel()


async def stop_on_signals(
    stop: trio.Event, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Set ``stop`` at SIGINT or SIGTERM; end the process at once at a second one.

    Runs until it is cancelled.

    Args:
        task_status: Started once signals are received here.
    """
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            if stop.is_set():
                os._exit(_EXIT_KILLED)
            stop.set()
