"""Server-sent events of a call, and noticing that a client is gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import trio

from .calls import HostedCall

__all__ = ["EventStream", "abort_when_gone"]

_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_PING: Final = b": ping\n\n"
_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


async def _until_gone(receive: _Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def abort_when_gone(call: HostedCall, receive: _Receive) -> None:
    """Return when a call is finished; give it up when its client goes away first."""

    async def watch() -> None:
        await _until_gone(receive)
        call.abort("client_gone")

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await call.finished.wait()
            nursery.cancel_scope.cancel()
    except BaseException:
        call.abort("client_gone")  # its connection was cut off
        raise


class EventStream:
    """An answer that is the events of a call, as an ASGI application.

    Args:
        after: Number of the last event that the client has seen.
        owns: Whether the call belongs to this request, and ends with it.
        ping_seconds: How often a stream that has nothing to say says so.
    """

    def __init__(self, call: HostedCall, *, after: int, owns: bool, ping_seconds: float) -> None:
        self._call = call
        self._number = after
        self._owns = owns
        self._ping_seconds = ping_seconds

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: _Receive, send: _Send
    ) -> None:
        gone = False

        async def watch() -> None:
            nonlocal gone
            await _until_gone(receive)
            gone = True
            nursery.cancel_scope.cancel()

        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
            if scope["method"] != "HEAD":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(watch)
                    await self._send_events(send)
                    nursery.cancel_scope.cancel()
            if not gone:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if self._owns:
                self._call.abort("client_gone")  # nothing, when it is over

    async def _send_events(self, send: _Send) -> None:
        log = self._call.events
        while True:
            for event in log.after(self._number):
                self._number = event.number
                await _send(send, event.encode())
            if log.ended and not log.after(self._number):
                return
            with trio.move_on_after(self._ping_seconds) as quiet:
                await log.wait_news(self._number)
            if quiet.cancelled_caught:
                await _send(send, _PING)


async def _send(send: _Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
