"""Requests of this side to a client of the handshake era, and what belongs to their answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from . import jsonrpc
from .calls import Asked
from .jsonrpc import RequestId, Response

__all__ = ["AskedRequests"]

_MAX_SHOWN = 200


class AskedRequests:
    """The questions that one client has been sent and has not answered."""

    def __init__(self) -> None:
        self._open: dict[RequestId, Asked] = {}
        self._count = 0

    def request(self, asked: Asked) -> dict[str, Any]:
        """Return the request that asks."""
        self._count += 1
        request_id = f"raw-{self._count}"
        self._open[request_id] = asked
        return jsonrpc.request(request_id, "elicitation/create", asked.params)

    def withdrawal(self, asked: Asked) -> dict[str, Any] | None:
        """Return the notice that nobody waits for an answer, if the question was sent."""
        for request_id, one in self._open.items():
            if one is asked:
                del self._open[request_id]
                params = {"requestId": request_id, "reason": "nobody waits for it any more"}
                return jsonrpc.notification("notifications/cancelled", params)
        return None

    def answered(self, response: Response) -> None:
        """Pass an answer on; one that nobody waits for means nothing."""
        asked = self._open.pop(response.id, None)
        if asked is None:
            return
        if response.result is None:
            message = str((response.error or {}).get("message", ""))[:_MAX_SHOWN]
            asked.refuse(f"the client can't ask: {message}")
        else:
            asked.answer(response.result)

    def forget(self, questions: Collection[Asked]) -> None:
        """Drop the questions of a call that has ended; late answers mean nothing."""
        if questions:
            self._open = {key: one for key, one in self._open.items() if one not in questions}
