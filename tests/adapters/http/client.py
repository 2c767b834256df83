"""A small HTTP client for tests: one connection, nothing hidden, and it can misbehave."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import h11
import trio


@dataclass(frozen=True)
class Answer:
    """One answer."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.raw)

    @property
    def error(self) -> tuple[int, str, str]:
        """Status, code and pointer of an error."""
        error = self.json["error"]
        return self.status, error["code"], error["pointer"]


@dataclass(frozen=True)
class SentEvent:
    """One server-sent event."""

    id: int
    kind: str
    data: Any


class Client:
    """One connection.

    Args:
        stream: The open socket.
        host: What ``Host`` says.
        token: Sent as a bearer token.
    """

    def __init__(self, stream: trio.SocketStream, host: str, token: str | None = None) -> None:
        self.stream = stream
        self._headers = {"Host": host}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection = h11.Connection(h11.CLIENT)

    async def send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a request and read nothing."""
        data = (
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        fields = {**self._headers, "Content-Length": str(len(data))}
        if body is not None:
            fields["Content-Type"] = "application/json"
        fields |= headers or {}
        request = h11.Request(method=method, target=path, headers=list(fields.items()))
        out = self._connection.send(request) or b""
        if data:
            out += self._connection.send(h11.Data(data)) or b""
        await self.stream.send_all(out + (self._connection.send(h11.EndOfMessage()) or b""))

    async def next_event(self) -> Any:
        """Return the next part of an answer."""
        while True:
            event = self._connection.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._connection.receive_data(await self.stream.receive_some(65536))

    def next_request(self) -> None:
        """Make the connection ready for one more request, where both sides are done."""
        if self._connection.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
            self._connection.start_next_cycle()

    async def read(self) -> Answer:
        """Read one answer to its end."""
        head = await self.next_event()
        assert isinstance(head, h11.Response), head
        parts = []
        while isinstance(event := await self.next_event(), h11.Data):
            parts.append(bytes(event.data))
        self.next_request()
        fields = {name.decode(): value.decode() for name, value in head.headers}
        return Answer(head.status_code, fields, b"".join(parts))

    async def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request and return its answer."""
        await self.send(method, path, body, headers)
        return await self.read()

    async def call(self, name: str, arguments: Any, **fields: Any) -> Answer:
        """Call a tool."""
        return await self.ask("POST", "/v1/call", {"name": name, "arguments": arguments, **fields})

    def events(self) -> Events:
        """Return the events of the answer that comes next."""
        return Events(self)


class Events:
    """Iterates over the events of an answer, and over comments as text."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._buffer = b""
        self._begun = False

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> SentEvent | str:
        if not self._begun:
            self._begun = True
            head = await self._client.next_event()
            assert isinstance(head, h11.Response), head
            assert head.status_code == 200
        while b"\n\n" not in self._buffer:
            event = await self._client.next_event()
            if not isinstance(event, h11.Data):
                self._client.next_request()
                raise StopAsyncIteration
            self._buffer += bytes(event.data)
        block, _, self._buffer = self._buffer.partition(b"\n\n")
        return _parse(block.decode())


def _parse(block: str) -> SentEvent | str:
    if block.startswith(":"):
        return block
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    assert set(fields) == {"id", "event", "data"}
    return SentEvent(int(fields["id"]), fields["event"], json.loads(fields["data"]))


@asynccontextmanager
async def connected(port: int, token: str | None = None) -> AsyncIterator[Client]:
    """Open a connection to a service on loopback."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    try:
        yield Client(stream, f"127.0.0.1:{port}", token)
    finally:
        await trio.aclose_forcefully(stream)
