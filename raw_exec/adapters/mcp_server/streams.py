"""HTTP answers that are one JSON message, or turn into a stream of server-sent events.

An answer becomes a stream with its first notification, or when it takes so long that
something in between might close the connection. Until then it may still be a plain answer,
with the status that an error asks for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final, TypeAlias

import trio

from . import jsonrpc

__all__ = ["PING_SECONDS", "Answer", "Send", "pinging", "send_empty", "send_json"]

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_Header: TypeAlias = "tuple[bytes, bytes]"

PING_SECONDS: Final = 15.0
_JSON: Final = (b"content-type", b"application/json")
_NO_STORE: Final = (b"cache-control", b"no-store")
_STREAM: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


async def send_json(
    send: Send, status: int, message: dict[str, Any], headers: Iterable[_Header] = ()
) -> None:
    """Send a whole answer."""
    body = jsonrpc.encode(message)
    length = (b"content-length", str(len(body)).encode("ascii"))
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [_JSON, length, _NO_STORE, *headers],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def send_empty(send: Send, status: int) -> None:
    """Send an answer without a body."""
    length = (b"content-length", b"0")
    await send({"type": "http.response.start", "status": status, "headers": [length]})
    await send({"type": "http.response.body", "body": b""})


class Answer:
    """The answer to one request.

    Args:
        send: Of the request.
        streams: Whether the client takes a stream.
    """

    def __init__(self, send: Send, *, streams: bool) -> None:
        self._send = send
        self._lock = trio.Lock()
        self.streams = streams
        self.is_stream = False
        self.is_over = False

    async def start_stream(self) -> None:
        """Make it a stream now, if it may become one."""
        async with self._lock:
            await self._start()

    async def _start(self) -> None:
        if self.streams and not self.is_stream and not self.is_over:
            self.is_stream = True
            await self._send({"type": "http.response.start", "status": 200, "headers": _STREAM})

    async def event(self, message: dict[str, Any]) -> None:
        """Send a message in the stream; a client that takes none misses it."""
        async with self._lock:
            await self._start()
            if self.is_stream and not self.is_over:
                await self._body(_event(message))

    async def ping(self) -> None:
        """Send something without meaning, so that the connection is seen to be alive."""
        async with self._lock:
            await self._start()
            if self.is_stream and not self.is_over:
                await self._body(b": ping\n\n")

    async def finish(self, message: dict[str, Any] | None, status: int = 200) -> None:
        """Send the last message, in the stream or as a whole answer.

        Args:
            message: ``None`` ends a stream without one; a plain answer has no body then.
            status: Where it is a whole answer.
        """
        async with self._lock:
            if self.is_over:
                return
            self.is_over = True
            if self.is_stream:
                body = b"" if message is None else _event(message)
                await self._send({"type": "http.response.body", "body": body})
            elif message is None:
                await send_empty(self._send, status)
            else:
                await send_json(self._send, status, message)

    async def _body(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})


def _event(message: dict[str, Any]) -> bytes:
    # JSON has no line breaks, so this is always one line of data.
    return b"event: message\ndata: " + jsonrpc.encode(message) + b"\n\n"


async def pinging(answer: Answer, seconds: float = PING_SECONDS) -> None:
    """Keep an answer's connection alive, until cancelled."""
    while True:
        await trio.sleep(seconds)
        await answer.ping()
