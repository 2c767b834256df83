"""One HTTP request: its headers, its body in parts, its end. Nothing of MCP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import trio

from .headers import Headers
from .streams import Send

__all__ = ["HttpRequest", "Receive", "Refusal", "Scope"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Refusal(Exception):
    """A request is refused before it is a message."""

    def __init__(self, status: int, message: str, *, headers: list[tuple[bytes, bytes]]) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class HttpRequest:
    """One request, as an ASGI server gives it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = Headers(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
        )
        self.owner = str(scope.get("state", {}).get("principal", "anyone"))
        self.is_closed = False
        self._send = send
        self._receive = receive

    async def send(self, event: MutableMapping[str, Any]) -> None:
        """Send a part of the answer, whole, whoever is cancelled meanwhile.

        A server that is cancelled inside may not know any more what it has sent. It has a
        time limit of its own for a client that does not read.
        """
        with trio.CancelScope(shield=True):
            await self._send(event)

    def _accepts(self, media_type: str) -> bool:
        accepted = ",".join(self.headers.all("accept")) or "*/*"
        kinds = {part.partition(";")[0].strip().lower() for part in accepted.split(",")}
        return bool(kinds & {media_type, "*/*", media_type.partition("/")[0] + "/*"})

    @property
    def takes_streams(self) -> bool:
        """Whether the client reads streams of events."""
        return self._accepts("text/event-stream")

    def check_media_types(self) -> None:
        """Refuse a body that is no JSON, and a client that reads none.

        Raises:
            Refusal: 415 or 406.
        """
        kind = (self.headers.get("content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(415, "send application/json", headers=[])
        if not self._accepts("application/json"):
            raise Refusal(406, "accept application/json and text/event-stream", headers=[])

    async def body_part(self) -> tuple[bytes, bool]:
        """Return the next part of the body, and whether more follow."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.is_closed = True
            raise Refusal(400, "the connection was closed", headers=[])
        return message.get("body", b""), message.get("more_body", False)

    async def cancel_when_closed(self, scope: trio.CancelScope) -> None:
        """Cancel a scope when the client closes the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_closed = True
        scope.cancel()
