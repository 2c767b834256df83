"""The open connections of a server: how many there may be, and how one ends that is stuck.

Rules
1. hypercorn speaks HTTP; this decides which connections it gets and when they are over.
2. A client that takes nothing of an answer is cut off after a while. hypercorn shields its
   writes, so neither cancelling nor stopping would ever end one that waits.
3. What goes wrong in one connection ends that connection and no other.
"""

from __future__ import annotations

import logging
import resource
from typing import Any, Final

import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import wrap_app

__all__ = ["Connections"]

_MAX_CONNECTIONS: Final = 4096
_WRITE_BYTES: Final = 64 * 1024
_BUSY_SECONDS: Final = 1.0
_BUSY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n"
    b"connection: close\r\n\r\n"
)

_log = logging.getLogger(__name__)


class _Stream:
    """One connection as hypercorn uses it; writes have a time limit for each piece."""

    def __init__(self, stream: trio.SocketStream, write_seconds: float) -> None:
        self._stream = stream
        self._write_seconds = write_seconds
        self.socket = stream.socket

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def send_all(self, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(view), _WRITE_BYTES):
            with trio.move_on_after(self._write_seconds) as limit:
                await self._stream.send_all(view[start : start + _WRITE_BYTES])
            if limit.cancelled_caught:
                self.cut()
                raise trio.BrokenResourceError("the client does not read")

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def cut(self) -> None:
        """Close at once; whoever reads or writes is told so."""
        self.socket.close()


class Connections:
    """Hands connections to hypercorn.

    Args:
        app: An ASGI application.
        config: hypercorn's.
        write_seconds: A client that takes nothing for so long is cut off.
    """

    def __init__(self, app: Any, config: Config, write_seconds: float) -> None:
        self._app = wrap_app(app, config.wsgi_max_body_size, "asgi")
        self._config = config
        self._context = WorkerContext(None)
        self._write_seconds = write_seconds
        self._open: set[_Stream] = set()
        self._empty = trio.Event()
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Workers and files need descriptors too.
        room = _MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else soft // 2
        self._max = min(_MAX_CONNECTIONS, room)

    async def handle(self, stream: trio.SocketStream) -> None:
        """Serve one connection until it is over."""
        if len(self._open) >= self._max:
            await _turn_away(stream)
            return
        guarded = _Stream(stream, self._write_seconds)
        self._open.add(guarded)
        try:
            server: Any = TCPServer(
                self._app,
                self._config,
                self._context,
                ConnectionState({}),
                guarded,  # type: ignore[arg-type]
            )
            await server
        except Exception as exc:
            # A client that breaks the protocol in a way that hypercorn does not expect.
            _log.warning("a connection ended with %s: %s", type(exc).__name__, exc)
        finally:
            guarded.cut()
            self._open.discard(guarded)
            if not self._open:
                self._empty.set()

    async def drain(self, seconds: float) -> None:
        """Close idle connections, wait for the others, then cut off those that are left."""
        await self._context.terminated.set()
        self._empty = trio.Event()
        if not self._open:
            return
        with trio.move_on_after(seconds):
            await self._empty.wait()
        for stream in tuple(self._open):
            stream.cut()


async def _turn_away(stream: trio.SocketStream) -> None:
    with trio.move_on_after(_BUSY_SECONDS):
        try:
            await stream.send_all(_BUSY)
            await stream.send_eof()
        except trio.BrokenResourceError:
            pass
    await trio.aclose_forcefully(stream)
