"""Telling a client that the list of tools has changed."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final

import trio

from . import jsonrpc
from .eras import SUBSCRIPTION_ID
from .host import Host
from .jsonrpc import RequestId
from .protocol import Listen

__all__ = ["MAX_STREAMS", "Changes", "acknowledgement", "change_notice"]

MAX_STREAMS: Final = 64
"""Subscriptions of one connection."""


class Changes:
    """Changes of the list since the last look; many at once are one."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._event = trio.Event()

    def __enter__(self) -> Changes:
        self._end = self._host.on_change(lambda: self._event.set())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    async def wait(self) -> None:
        """Return once there was a change."""
        await self._event.wait()
        self._event = trio.Event()


def acknowledgement(event: Listen) -> dict[str, Any]:
    """Return the first message of a subscription: what of it will be told."""
    honoured = {"toolsListChanged": True} if event.tools else {}
    params = {"notifications": honoured, "_meta": {SUBSCRIPTION_ID: event.request_id}}
    return jsonrpc.notification("notifications/subscriptions/acknowledged", params)


def change_notice(subscription: RequestId | None) -> dict[str, Any]:
    """Return the notice of a change; ``None`` for a client of the handshake era."""
    params = None if subscription is None else {"_meta": {SUBSCRIPTION_ID: subscription}}
    return jsonrpc.notification("notifications/tools/list_changed", params)
