"""Serving one request for a call: until its answer is on its way, or it is given up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import trio

from ...errors import RawExecError
from . import jsonrpc
from .calls import Asked, RunningCall
from .eras import INTERNAL_ERROR, SERVER_BUSY, Era, RpcError
from .host import MAX_CALLS, Host
from .protocol import Peer, ToolCall

__all__ = ["Exchange", "Serving", "serving", "withdraw_open"]

WITHDRAW_SECONDS: Final = 1.0
"""A client that does not read is told no longer."""


class Exchange(Protocol):
    """The request that waits for a call, as its transport serves it."""

    async def notify(self, message: dict[str, Any]) -> None:
        """Send a notification that belongs to the request, if there is a way."""
        ...

    async def elicit(self, asked: Asked) -> None:
        """Send a question as a request of this side; its answer goes to ``asked``."""
        ...

    async def withdraw(self, asked: Asked) -> None:
        """Tell the client that nobody waits for an answer any more."""
        ...


async def withdraw_open(exchange: Exchange, sent: Sequence[Asked]) -> None:
    """Tell the client that questions it was sent are over, whoever is cancelled meanwhile.

    Those that were answered or withdrawn before are not told of.
    """
    if sent:
        with trio.move_on_after(WITHDRAW_SECONDS, shield=True):
            for asked in sent:
                await exchange.withdraw(asked)


class Serving:
    """One request for a call, as long as it counts."""

    def __init__(self, host: Host, *, refused: bool) -> None:
        self._host = host
        self._slots = host.slots
        self._refused = refused
        self._holds = False

    async def answer(
        self, peer: Peer, wanted: ToolCall, owner: str, place: str, exchange: Exchange
    ) -> dict[str, Any] | None:
        """Return the message that answers a request for a call.

        If cancelled, the call is given up.

        Args:
            owner: Who may bring answers to its questions.
            place: Whose session it belongs to.

        Returns:
            ``None`` when the call was given up otherwise.
        """
        try:
            if wanted.request_state is not None:
                call = self._host.resume(wanted, owner)
            else:
                if self._refused:
                    raise RpcError(SERVER_BUSY, f"{MAX_CALLS} calls are under way; try later")
                try:
                    self._slots.acquire_on_behalf_of_nowait(self)
                except trio.WouldBlock:
                    await self._slots.acquire_on_behalf_of(self)
                self._holds = True
                call = await self._host.start(wanted, owner, place)
        except RpcError as exc:
            return jsonrpc.error(wanted.request_id, exc)
        return await self._follow(peer, call, exchange)

    async def _follow(
        self, peer: Peer, call: RunningCall, exchange: Exchange
    ) -> dict[str, Any] | None:
        waits = False
        try:
            wanted = call.wanted
            stateless = wanted.era is Era.STATELESS
            sent: set[Asked] = set()
            while not call.ended.is_set():
                if stateless and call.asked:
                    waits = True
                    return self._input_required(peer, call)
                await call.wait_news()
                await self._pass_on(call, exchange, sent)
            if call.failure is not None:
                failed = RpcError(INTERNAL_ERROR, _told(call.failure))
                return jsonrpc.error(wanted.request_id, failed)
            if call.result is None:
                return None
            result = peer.complete(call.result) if stateless else call.result
            return jsonrpc.response(wanted.request_id, result)
        finally:
            if not waits and not call.ended.is_set():
                call.give_up()

    async def _pass_on(self, call: RunningCall, exchange: Exchange, sent: set[Asked]) -> None:
        """Send the news of a call."""
        token = call.wanted.progress_token
        progress = call.take_progress()
        if progress is not None and token is not None:
            params = progress.params(token)
            await exchange.notify(jsonrpc.notification("notifications/progress", params))
        if call.wanted.era is Era.STATELESS:
            return
        for asked in call.take_withdrawn():
            await exchange.withdraw(asked)
        for asked in call.asked.values():
            if asked not in sent:
                self.close()  # a person may take long
                sent.add(asked)
                await exchange.elicit(asked)

    def _input_required(self, peer: Peer, call: RunningCall) -> dict[str, Any]:
        shown = call.asked
        requests = {
            key: {"method": "elicitation/create", "params": asked.params}
            for key, asked in shown.items()
        }
        result = {
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": self._host.detach(call, shown),
        }
        return jsonrpc.response(call.wanted.request_id, peer.complete(result))

    def close(self) -> None:
        """Make room for another request."""
        if self._holds:
            self._holds = False
            self._slots.release_on_behalf_of(self)


@contextmanager
def serving(host: Host) -> Iterator[Serving]:
    """Serve one request for a call: from its arrival until its answer is on its way."""
    with host.counted() as refused:
        one = Serving(host, refused=refused)
        try:
            yield one
        finally:
            one.close()


def _told(exc: BaseException) -> str:
    """Say what may be said of a failure: our own errors are for readers, others are not."""
    return str(exc) if isinstance(exc, RawExecError) else "internal error"
