"""MCP over standard input and output: one client, a message a line.

Rules
1. A line that is no message gets an error with no ID, and the next line is read as usual. Of a
   line over ``MAX_MESSAGE_BYTES`` nothing is kept.
2. At the end of input, running calls are aborted: nobody is left to want them. What was
   answered by then is still written, within ``FLUSH_SECONDS``.
3. When the client does not read, calls wait with their answers, and at the first message that
   would have to be answered at once nothing more is read from it either. So what is kept has
   limits: ``MAX_RUNNING`` answers, and requests of ``MAX_HELD_BYTES``.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import trio

from . import jsonrpc
from .asking import AskedRequests
from .calls import Asked
from .eras import INVALID_REQUEST, SERVER_BUSY, RpcError
from .host import Host
from .jsonrpc import MAX_MESSAGE_BYTES, RequestId
from .lines import Lines, LineTooLong
from .listening import MAX_STREAMS, Changes, acknowledgement, change_notice
from .pipes import ClientGone, Incoming, Outgoing, claimed_stdio, wait_hangup
from .protocol import (
    Answered,
    Cancelled,
    Event,
    Initialized,
    Listen,
    Reply,
    ToolCall,
)
from .serving_calls import serving, withdraw_open

__all__ = ["serve_pipes", "serve_stdio"]

_log = logging.getLogger(__name__)

FLUSH_SECONDS: Final = 5.0
MAX_HELD_BYTES: Final = 256 * 1024 * 1024
"""Of requests that are under way; more are refused."""


async def serve_stdio(host: Host) -> None:
    """Serve the client at this process's standard input and output until it is gone."""
    with claimed_stdio() as (incoming, outgoing):
        await serve_pipes(host, incoming, outgoing)


async def serve_pipes(host: Host, incoming: int, outgoing: int) -> None:
    """Serve the client at two descriptors, which stay open, until it is gone.

    On return every call of it has been given up.
    """
    with Incoming.open(incoming) as source, Outgoing.open(outgoing) as sink:
        place = f"pipe-{secrets.token_hex(8)}"
        try:
            await _Connection(host, sink, place).run(source)
        except* ClientGone:
            _log.info("the client does not read any more")
        finally:
            host.drop(place)


class _Connection:
    def __init__(self, host: Host, sink: Outgoing, place: str) -> None:
        self._host = host
        self._sink = sink
        self._place = place
        self._peer = host.peer()
        self._asked = AskedRequests()
        self._requests: dict[RequestId, trio.CancelScope] = {}
        self._streams = 0
        self._held_bytes = 0

    async def run(self, source: Incoming) -> None:
        async with trio.open_nursery() as transport:
            transport.start_soon(self._sink.run)
            transport.start_soon(self._end_with_reader)
            async with trio.open_nursery() as serving:
                await self._read(source, serving)
                serving.cancel_scope.cancel()
            with trio.move_on_after(FLUSH_SECONDS):
                await self._sink.flush()
            transport.cancel_scope.cancel()

    async def _end_with_reader(self) -> None:
        await wait_hangup(self._sink.fd)
        raise ClientGone

    async def send(self, message: dict[str, Any]) -> None:
        await self._sink.send(jsonrpc.encode(message) + b"\n")

    # ------------------------------------------------------------ what comes in

    async def _read(self, source: Incoming, serving: trio.Nursery) -> None:
        lines = Lines(MAX_MESSAGE_BYTES)
        while data := await source.receive():
            for line in lines.feed(data):
                if isinstance(line, LineTooLong):
                    await self.send(jsonrpc.error(None, RpcError(INVALID_REQUEST, str(line))))
                elif line.strip():
                    await self._take(line, serving)
        if lines.has_rest:
            _log.warning("the input ended in the middle of a line, which is dropped")

    async def _take(self, line: bytes, serving: trio.Nursery) -> None:
        try:
            message = jsonrpc.read_message(line)
        except RpcError as exc:
            await self.send(jsonrpc.error(exc.request_id, exc))
            return
        if isinstance(message, jsonrpc.Request) and message.id in self._requests:
            taken = RpcError(INVALID_REQUEST, f"the id {message.id!r:.60} is in use")
            await self.send(jsonrpc.error(message.id, taken))
            return
        await self._handle(self._peer.receive(message), len(line), serving)

    async def _handle(self, event: Event, size: int, serving: trio.Nursery) -> None:
        if isinstance(event, Reply):
            await self.send(event.message)
        elif isinstance(event, ToolCall):
            if self._held_bytes + size > MAX_HELD_BYTES:
                held = RpcError(SERVER_BUSY, f"requests of {MAX_HELD_BYTES} bytes are under way")
                await self.send(jsonrpc.error(event.request_id, held))
            else:
                self._start(serving, event.request_id, size, lambda: self._call(event))
        elif isinstance(event, Listen):
            self._start(serving, event.request_id, size, lambda: self._listen(event))
        elif isinstance(event, Cancelled):
            scope = self._requests.get(event.request_id)
            if scope is not None:  # else it was answered already
                scope.cancel()
        elif isinstance(event, Answered):
            self._asked.answered(event.response)
        elif isinstance(event, Initialized) and self._host.facts.changes:
            serving.start_soon(self._tell_changes)

    def _start(
        self,
        serving: trio.Nursery,
        request_id: RequestId,
        size: int,
        serve: Callable[[], Awaitable[None]],
    ) -> None:
        # Before the task runs, so that a cancellation that comes next finds it.
        scope = self._requests[request_id] = trio.CancelScope()
        self._held_bytes += size

        async def run() -> None:
            try:
                with scope:
                    await serve()
            finally:
                del self._requests[request_id]
                self._held_bytes -= size

        serving.start_soon(run)

    # ------------------------------------------------------------ requests

    async def _call(self, event: ToolCall) -> None:
        with serving(self._host) as one:
            exchange = _Exchange(self, self._asked)
            try:
                message = await one.answer(self._peer, event, self._place, self._place, exchange)
            finally:
                with suppress(ClientGone):
                    await withdraw_open(exchange, exchange.sent)
                self._asked.forget(exchange.sent)
            if message is not None:
                await self.send(message)

    async def _listen(self, event: Listen) -> None:
        if self._streams >= MAX_STREAMS:
            full = RpcError(SERVER_BUSY, f"{MAX_STREAMS} streams are open; close one")
            await self.send(jsonrpc.error(event.request_id, full))
            return
        self._streams += 1
        try:
            with Changes(self._host) as changes:
                await self.send(acknowledgement(event))
                while True:
                    await changes.wait()
                    if event.tools:
                        await self.send(change_notice(event.request_id))
        finally:
            self._streams -= 1

    async def _tell_changes(self) -> None:
        with Changes(self._host) as changes:
            while True:
                await changes.wait()
                await self.send(change_notice(None))


class _Exchange:
    """Everything goes the same way here: one pipe for all requests."""

    def __init__(self, connection: _Connection, asked: AskedRequests) -> None:
        self._connection = connection
        self._asked = asked
        self.sent: list[Asked] = []

    async def notify(self, message: dict[str, Any]) -> None:
        await self._connection.send(message)

    async def elicit(self, asked: Asked) -> None:
        self.sent.append(asked)
        await self._connection.send(self._asked.request(asked))

    async def withdraw(self, asked: Asked) -> None:
        message = self._asked.withdrawal(asked)
        if message is not None:
            await self._connection.send(message)
