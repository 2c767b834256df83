"""Answering what a running handler asks for, while its result may come at any moment.

Rules
1. A slow answer hides neither the next request nor the result: each is a task of its own.
2. At most ``_MAX_PENDING`` are under way in one call; more are not read until one is done.
3. The result ends them all. A control frame that was cut by that ends the worker's use,
   since its next reader would be lost in the stream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import trio

from ..wire import ConnectionState, Request, WorkerConnection
from .calls import RequestHandler, RequestRefused
from .channel import Channel, ChannelClosed
from .nursery import open_service_nursery

__all__ = ["Answers", "refuse_aborted"]

_MAX_PENDING = 64


class Answers:
    """The control pipe of one worker: aborts and replies, each frame whole.

    Args:
        wire: The worker's connection, which says whether a reply may be sent.
        channel: Its pipes.
    """

    def __init__(self, wire: WorkerConnection, channel: Channel) -> None:
        self._wire = wire
        self._channel = channel
        self._lock = trio.Lock()
        self.cut = False
        """A frame was written in part: the pipe is of no more use."""

    async def serve(
        self,
        first: Request,
        on_request: RequestHandler | None,
        next_event: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Answer requests until another event comes, and return that.

        If cancelled, the answers under way are cancelled too.
        """
        event: Any = first
        async with open_service_nursery() as nursery:
            room = trio.Semaphore(_MAX_PENDING)
            while type(event) is Request:
                await room.acquire()
                nursery.start_soon(self._answer, event, on_request, room)
                event = await next_event()
            nursery.cancel_scope.cancel()
        return event

    async def _answer(
        self, request: Request, on_request: RequestHandler | None, room: trio.Semaphore
    ) -> None:
        value: Any = None
        error = None
        if on_request is None:
            error = {"code": "unsupported", "message": f"{request.method} is not available here"}
        else:
            try:
                value = await on_request(request.method, request.params)
            except RequestRefused as exc:
                error = {"code": exc.code, "message": str(exc)}
        if self._wire.state is not ConnectionState.CALLING:
            return  # the result was read first, and nobody waits for this any more
        frame = self._wire.send_reply(
            id=request.id, rid=request.rid, ok=error is None, value=value, error=error
        )
        try:
            await self.send(frame)
        except ChannelClosed:
            pass  # the worker's end is noticed where its next frame is awaited
        room.release()

    async def send(self, frame: bytes) -> None:
        """Write a control frame.

        Raises:
            ChannelClosed: Nobody can read it, or the pipe was cut before.
        """
        async with self._lock:
            if self.cut:
                raise ChannelClosed
            self.cut = True
            await self._channel.send_control(frame)
            self.cut = False


async def refuse_aborted(_method: str, _params: Any) -> NoReturn:
    """Answer the requests that a handler makes after its abort."""
    raise RequestRefused("aborted", "the call was aborted")
