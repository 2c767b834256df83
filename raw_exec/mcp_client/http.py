"""Servers reached over streamable HTTP, within bounds of our own.

The SDK's transport follows a redirect only within the origin of the configured URL, so that
headers and arguments reach nobody else. What it does not bound is the size of an answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from mcp.client.streamable_http import streamable_http_client

from ..text import escape_text
from .failures import OVERSIZE_WORDS
from .logs import Secrets

__all__ = ["describe_http_failure", "open_http"]

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_EVENT_STREAM: Final = "text/event-stream"
_MAX_WORDS = 300


class _TooLong(httpx2.StreamError):
    """An answer is over the limit."""


class _Bounded(httpx2.AsyncByteStream):
    """A body that fails once it is over a limit."""

    def __init__(self, stream: Any, max_bytes: int) -> None:
        self._stream = stream
        self._left = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise _TooLong(f"the answer {OVERSIZE_WORDS[0]}")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def open_http(
    url: str, headers: Mapping[str, str], *, max_bytes: int, connect_seconds: float
) -> AsyncIterator[tuple[Any, Any]]:
    """Open the two streams of a session over HTTP.

    Args:
        url: The endpoint.
        headers: Sent with every request. Security: may hold secrets.
        max_bytes: Of one answer, or of one event of a stream.
        connect_seconds: For a connection; how long an answer takes is the caller's matter.
    """

    async def bound(response: httpx2.Response) -> None:
        # An event stream is as long as it lives; its events are bounded one by one.
        if not response.headers.get("content-type", "").startswith(_EVENT_STREAM):
            response.stream = _Bounded(response.stream, max_bytes)

    async with (
        httpx2.AsyncClient(
            headers=dict(headers),
            timeout=httpx2.Timeout(None, connect=connect_seconds),
            # Settings of the environment, proxies among them, are not for this host itself.
            trust_env=urlsplit(url).hostname not in _LOOPBACK,
            event_hooks={"response": [bound]},
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=max_bytes) as streams,
    ):
        yield streams


def describe_http_failure(exc: BaseException, secrets: Secrets) -> str:
    """Say in one line what went wrong with a connection, from the innermost exception."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    words = escape_text(secrets.clean(str(exc)), keep_newlines=False)[:_MAX_WORDS]
    kind = "could not be reached" if isinstance(exc, httpx2.TransportError) else "failed"
    return f"{kind}: {type(exc).__name__}" + (f": {words}" if words else "")
