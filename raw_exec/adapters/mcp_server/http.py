"""MCP over streamable HTTP, as an ASGI application with one endpoint.

Rules
1. A stateless request is served by itself: its headers must agree with its body. Anything
   else belongs to a session, which ``initialize`` begins and the header ``mcp-session-id``
   names; only there may a client answer questions in a request of its own.
2. An answer is JSON, and a stream of events where something has to be told before it.
3. A client that closes the connection of a request gives the request up, in either era: there
   is no way to fetch an answer later.
4. What is read of requests at one time has a limit for each and one for all.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import trio

from . import jsonrpc
from .calls import Asked
from .eras import (
    HANDSHAKE_VERSIONS,
    HTTP_STATUS,
    INVALID_REQUEST,
    SERVER_BUSY,
    Era,
    RpcError,
)
from .headers import check_param_headers, check_routing_headers
from .host import Host
from .http_request import HttpRequest, Receive, Refusal, Scope
from .http_sessions import HttpSession, HttpSessions
from .jsonrpc import MAX_MESSAGE_BYTES, Message, Notification, Request
from .listening import Changes, acknowledgement, change_notice
from .protocol import (
    Answered,
    Cancelled,
    Listen,
    Peer,
    Reply,
    ToolCall,
    is_stateless,
)
from .serving_calls import serving, withdraw_open
from .streams import Answer, Send, pinging, send_empty, send_json

__all__ = ["MAX_READING_BYTES", "McpApp"]

_log = logging.getLogger(__name__)

MAX_READING_BYTES: Final = 128 * 1024 * 1024
"""Of all requests that are being read or served."""
MAX_STREAMS: Final = 1024
"""Open streams that tell of changes, of all clients together."""
PATH: Final = "/mcp"
_SESSION: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"
_STATELESS_PLACE: Final = "stateless:"


class McpApp:
    """The application. Checks of ``Host``, ``Origin`` and tokens go round it.

    Args:
        host: Runs the calls.
        stop: Once set, streams without an end are ended.
    """

    def __init__(self, host: Host, stop: trio.Event) -> None:
        self._host = host
        self._stop = stop
        self._sessions = HttpSessions(host)
        self._reading = 0
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        http = HttpRequest(scope, receive, send)
        try:
            await self._route(http)
        except Refusal as exc:
            failure = RpcError(INVALID_REQUEST, str(exc))
            await send_json(http.send, exc.status, jsonrpc.error(None, failure), exc.headers)
        except RpcError as exc:
            status = HTTP_STATUS.get(exc.code, 200)
            await send_json(http.send, status, jsonrpc.error(exc.request_id, exc))

    async def _route(self, http: HttpRequest) -> None:
        if http.path != PATH:
            raise Refusal(404, f"the endpoint is {PATH}", headers=[])
        if http.method == "POST":
            await self._post(http)
        elif http.method == "GET":
            await self._get(http)
        elif http.method == "DELETE":
            self._sessions.end(self._session(http))
            await send_empty(http.send, 200)
        else:
            allow = [(b"allow", b"GET, POST, DELETE")]
            raise Refusal(405, f"{http.method} is not served here", headers=allow)

    # ------------------------------------------------------------ one message

    async def _post(self, http: HttpRequest) -> None:
        http.check_media_types()
        async with self._body(http) as body:
            message = jsonrpc.read_message(body)
            version = http.headers.get(_VERSION)
            modern = version is not None and version not in HANDSHAKE_VERSIONS
            if isinstance(message, Request) and is_stateless(message.params):
                modern = True
            if modern:
                await self._stateless(http, message)
            else:
                await self._in_session(http, message)

    @asynccontextmanager
    async def _body(self, http: HttpRequest) -> AsyncIterator[bytes]:
        """Read the body, and count it until the request is served."""
        parts: list[bytes] = []
        size = 0
        try:
            more = True
            while more:
                part, more = await http.body_part()
                size += len(part)
                self._reading += len(part)
                if size > MAX_MESSAGE_BYTES:
                    text = f"a message has at most {MAX_MESSAGE_BYTES} bytes"
                    raise Refusal(413, text, headers=[(b"connection", b"close")])
                if self._reading > MAX_READING_BYTES:
                    busy = [(b"retry-after", b"1"), (b"connection", b"close")]
                    raise Refusal(503, "too much is being sent at once", headers=busy)
                parts.append(part)
            yield b"".join(parts)
        finally:
            self._reading -= size

    async def _stateless(self, http: HttpRequest, message: Message) -> None:
        if isinstance(message, Notification):
            # A client gives a request up by closing its connection, and there are no others.
            await send_empty(http.send, 202)
            return
        if not isinstance(message, Request):
            raise RpcError(INVALID_REQUEST, "a response; nothing was asked this way")
        peer = self._host.peer()
        try:
            event = self._stateless_event(http, peer, message)
            if isinstance(event, Reply):
                await send_json(http.send, 200, event.message)
            elif isinstance(event, ToolCall):
                await self._call(http, peer, event, _STATELESS_PLACE + http.owner, None)
            elif isinstance(event, Listen):
                await self._listen(http, peer, event)
        except RpcError as exc:
            exc.request_id = message.id
            raise

    def _stateless_event(self, http: HttpRequest, peer: Peer, message: Request) -> Any:
        check_routing_headers(http.headers, message.method, message.params)
        event = peer.receive_stateless(message)
        if isinstance(event, ToolCall):
            check_param_headers(event.tool.mirrored, event.arguments, http.headers)
        return event

    async def _in_session(self, http: HttpRequest, message: Message) -> None:
        if isinstance(message, Request) and message.method == "initialize":
            await self._initialize(http, message)
            return
        session = self._session(http)
        with self._sessions.using(session):
            if isinstance(message, Request) and message.id in session.requests:
                taken = f"the id {message.id!r:.60} is in use"
                raise RpcError(INVALID_REQUEST, taken, request_id=message.id)
            event = session.peer.receive(message)
            if isinstance(event, Reply):
                await send_json(http.send, 200, event.message)
            elif isinstance(event, ToolCall):
                await self._call(http, session.peer, event, session.id, session)
            else:
                if isinstance(event, Cancelled):
                    scope = session.requests.get(event.request_id)
                    if scope is not None:
                        scope.cancel()
                elif isinstance(event, Answered):
                    session.asked.answered(event.response)
                await send_empty(http.send, 202)

    async def _initialize(self, http: HttpRequest, message: Request) -> None:
        if http.headers.get(_SESSION) is not None:
            text = "a session is there already; begin another one without its header"
            raise RpcError(INVALID_REQUEST, text, request_id=message.id)
        session = self._sessions.begin(http.owner)
        event = session.peer.receive(message)
        assert isinstance(event, Reply)  # noqa: S101  (the only event of an initialize)
        if "error" in event.message:
            self._sessions.end(session)
            await send_json(http.send, 400, event.message)
        else:
            named = [(_SESSION.encode("ascii"), session.id.encode("ascii"))]
            await send_json(http.send, 200, event.message, named)

    def _session(self, http: HttpRequest) -> HttpSession:
        session_id = http.headers.get(_SESSION)
        if session_id is None:
            text = f"the header {_SESSION} is missing; a session begins with initialize"
            raise Refusal(400, text, headers=[])
        session = self._sessions.find(session_id, http.owner)
        if session is None:
            raise Refusal(404, "this session has ended; begin another one", headers=[])
        version = http.headers.get(_VERSION)
        if version is not None and version not in HANDSHAKE_VERSIONS:
            raise Refusal(400, f"{_VERSION} is none of {HANDSHAKE_VERSIONS}", headers=[])
        return session

    # ------------------------------------------------------------ calls

    async def _call(
        self,
        http: HttpRequest,
        peer: Peer,
        event: ToolCall,
        place: str,
        session: HttpSession | None,
    ) -> None:
        answer = Answer(http.send, streams=http.takes_streams)
        exchange = _Exchange(answer, session)
        scope = trio.CancelScope()
        if session is not None:
            session.requests[event.request_id] = scope
        try:
            with serving(self._host) as one, scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(http.cancel_when_closed, nursery.cancel_scope)
                    nursery.start_soon(pinging, answer)
                    owner = place if session is not None else http.owner
                    message = await one.answer(peer, event, owner, place, exchange)
                    status = _status(message) if event.era is Era.STATELESS else 200
                    await answer.finish(message, status if message is not None else 202)
                    nursery.cancel_scope.cancel()
            if not http.is_closed and not answer.is_over:
                await withdraw_open(exchange, exchange.sent)
        finally:
            if session is not None:
                del session.requests[event.request_id]
                session.asked.forget(exchange.sent)
        if not answer.is_over and not http.is_closed:
            await answer.finish(None, 202)

    # ------------------------------------------------------------ streams without an end

    async def _listen(self, http: HttpRequest, peer: Peer, event: Listen) -> None:
        if not http.takes_streams:
            raise Refusal(406, "accept text/event-stream to listen", headers=[])
        answer = Answer(http.send, streams=True)
        with Changes(self._host) as changes:
            async with self._stream(http, answer, self._stop):
                await answer.event(acknowledgement(event))
                while True:
                    await changes.wait()
                    if event.tools:
                        await answer.event(change_notice(event.request_id))
        if not http.is_closed:
            await answer.finish(peer.listen_ended(event.request_id))

    async def _get(self, http: HttpRequest) -> None:
        version = http.headers.get(_VERSION)
        if version is not None and version not in HANDSHAKE_VERSIONS:
            raise Refusal(405, "only POST is served in this version", headers=[(b"allow", b"POST")])
        if not http.takes_streams:
            raise Refusal(406, "accept text/event-stream to listen", headers=[])
        session = self._session(http)
        if session.has_stream:
            raise Refusal(409, "this session has a stream already", headers=[])
        answer = Answer(http.send, streams=True)
        session.has_stream = True
        try:
            with Changes(self._host) as changes, self._sessions.using(session):
                async with self._stream(http, answer, session.ended):
                    await answer.start_stream()
                    while True:
                        await changes.wait()
                        await answer.event(change_notice(None))
        finally:
            session.has_stream = False
        if not http.is_closed:
            await answer.finish(None)

    @asynccontextmanager
    async def _stream(
        self, http: HttpRequest, answer: Answer, ended: trio.Event
    ) -> AsyncIterator[None]:
        """Run the block until the client closes, ``ended`` is set, or the server stops."""
        if self._streams >= MAX_STREAMS:
            raise RpcError(SERVER_BUSY, f"{MAX_STREAMS} streams are open")
        self._streams += 1
        try:
            async with trio.open_nursery() as nursery:
                scope = nursery.cancel_scope
                nursery.start_soon(http.cancel_when_closed, scope)
                nursery.start_soon(_cancel_when, self._stop, scope)
                nursery.start_soon(_cancel_when, ended, scope)
                nursery.start_soon(pinging, answer)
                yield
        finally:
            self._streams -= 1

    def close(self) -> None:
        """End every session."""
        self._sessions.end_all()


class _Exchange:
    """What belongs to a request goes into its own answer."""

    def __init__(self, answer: Answer, session: HttpSession | None) -> None:
        self._answer = answer
        self._session = session
        self.sent: list[Asked] = []

    async def notify(self, message: dict[str, Any]) -> None:
        await self._answer.event(message)

    async def elicit(self, asked: Asked) -> None:
        if self._session is None or not self._answer.streams:
            asked.refuse("the client takes no stream of events for this request")
            return
        self.sent.append(asked)
        await self._answer.event(self._session.asked.request(asked))

    async def withdraw(self, asked: Asked) -> None:
        message = None if self._session is None else self._session.asked.withdrawal(asked)
        if message is not None:
            await self._answer.event(message)


def _status(message: dict[str, Any] | None) -> int:
    failure = None if message is None else message.get("error")
    return 200 if failure is None else HTTP_STATUS.get(failure["code"], 200)


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
