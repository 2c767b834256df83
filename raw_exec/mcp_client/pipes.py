"""A server's standard input and output as the two streams of a protocol session.

Rules
1. A message is one line. A line that is none is counted and skipped, since many servers print
   a greeting or a log there; it never ends the connection.
2. A line over the limit does, before it is kept: nobody knows whose answer it would have been.
3. Reading ends with the end of the pipe. Half a line at that point is no message.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import anyio
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic_core import from_json

from .logs import StrayLines

__all__ = ["MAX_BLOCKS", "LineTooLong", "Pipes"]

MAX_BLOCKS: Final = 1024
"""Of one result, as of any tool's."""

_CHUNK_BYTES = 64 * 1024
_LARGE_BYTES = 256 * 1024
"""A line from this size on is parsed in a thread."""
_FLOOD_PAUSE_SECONDS = 0.002
_Incoming: TypeAlias = SessionMessage | Exception


class LineTooLong(Exception):
    """The server sent a line over the limit."""


def _read_large(line: bytes) -> Any:
    """Return a message of many bytes.

    A result of very many blocks is refused later; until then each costs every other call time, so
    only as many are kept as show that there are too many.

    Raises:
        ValueError: It is no message.
    """
    data = from_json(line)
    if not isinstance(data, dict) or data.keys() != {"jsonrpc", "id", "result"}:
        return jsonrpc_message_adapter.validate_python(data, by_name=False)
    result = data["result"]
    content = result.get("content") if isinstance(result, dict) else None
    if isinstance(content, list):
        del content[MAX_BLOCKS + 1 :]
    return JSONRPCResponse.model_validate(data, by_name=False)


class Pipes:
    """Bridges two pipe ends to memory streams. Run ``read`` and ``write`` beside the session.

    Args:
        reader: Where its standard output can be read, non-blocking; stays the caller's.
        writer: Where its standard input can be written, non-blocking; stays the caller's.
        max_line_bytes: Of one message.
        stray: Told of lines that are no messages.
        on_request: Called with the ID of every request that is about to be written.
        on_answer: Called with the ID of every answer, expected or not.
    """

    def __init__(
        self,
        reader: int,
        writer: int,
        *,
        max_line_bytes: int,
        stray: StrayLines,
        on_request: Callable[[RequestId], None],
        on_answer: Callable[[RequestId | None], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._max_line_bytes = max_line_bytes
        self._stray = stray
        self._on_request = on_request
        self._on_answer = on_answer
        self._read_send: MemoryObjectSendStream[_Incoming]
        self._write_receive: MemoryObjectReceiveStream[SessionMessage]
        self._read_send, self.incoming = anyio.create_memory_object_stream[_Incoming](0)
        self.outgoing, self._write_receive = anyio.create_memory_object_stream[SessionMessage](0)

    async def read(self) -> None:
        """Pass on what the server sends until its output ends.

        Raises:
            LineTooLong: It sent a line over the limit.
        """
        async with self._read_send:
            try:
                await self._read_lines()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # the session is over

    async def _read_lines(self) -> None:
        buffer = bytearray()
        searched = 0
        while True:
            await trio.lowlevel.wait_readable(self._reader)
            data = os.read(self._reader, _CHUNK_BYTES)
            if not data:
                if buffer:
                    self._stray.add(bytes(buffer))
                return
            buffer += data
            while (end := buffer.find(b"\n", searched)) >= 0:
                line = bytes(buffer[:end])
                del buffer[: end + 1]
                searched = 0
                if len(line) > self._max_line_bytes:
                    raise LineTooLong
                await self._take(line)
            searched = len(buffer)
            if searched > self._max_line_bytes:
                raise LineTooLong

    async def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            if len(line) > _LARGE_BYTES:
                message = await trio.to_thread.run_sync(_read_large, line)
            else:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._stray.add(line)
            # A flood of other things must leave the event loop alone.
            await trio.sleep(_FLOOD_PAUSE_SECONDS if self._stray.count > 100 else 0)
            return
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._on_answer(message.id)
        await self._read_send.send(SessionMessage(message))

    async def write(self) -> None:
        """Send what the session has to say, until it is over or nobody reads any more."""
        async with self._write_receive:
            async for item in self._write_receive:
                if isinstance(item.message, JSONRPCRequest):
                    self._on_request(item.message.id)
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await self._send(text.encode("utf-8") + b"\n")
                except OSError:
                    return  # the end of its output says the rest

    async def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._writer, view) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._writer)

    def close(self) -> None:
        """Close the memory streams that nobody took over. Idempotent."""
        for stream in (self._read_send, self.incoming, self.outgoing, self._write_receive):
            stream.close()
