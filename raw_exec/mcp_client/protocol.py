"""The protocol session: negotiation, lists, requests. Everything that needs the SDK's types.

Rules
1. Both eras are spoken: a server is asked to describe itself, and where it does not know that
   question, the handshake of the earlier era follows.
2. Lists are walked with bounds, and taken as they were sent. A tool that the protocol refuses is
   kept apart with the reason; the other tools of its page are not lost with it.
3. Results are handed on as they were sent; ``results`` judges them.
4. What a server asks of its client is refused, but for questions to a person.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import mcp_types as types
import trio
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import methods
from pydantic import TypeAdapter, ValidationError

from .. import __version__
from .failures import BadAnswer, ConnectionLost, RpcFailed
from .pipes import MAX_BLOCKS

__all__ = ["Listing", "Session", "Ticket", "open_protocol"]

MAX_PAGES: Final = 100
MAX_LISTED: Final = 5000
MAX_LIST_BYTES: Final = 16 * 1024 * 1024
_FIRST_CALL_ID = 1_000_000
"""IDs of calls are ours to give; those of other requests are counted from 1 by the SDK."""

_RAW: Final[TypeAdapter[Any]] = TypeAdapter(dict[str, Any])
Elicit = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Answers the parameters of ``elicitation/create`` with its result."""


@dataclass(slots=True, eq=False)
class Ticket:
    """One call on its way.

    Args:
        on_progress: Called at every sign of progress.
    """

    on_progress: Callable[[], None]
    id: int | None = None
    written: bool = False
    """Whether the server may have got it; known of a local one only."""
    answered: trio.Event = field(default_factory=trio.Event)
    """Set when the server has answered, wanted or not."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offers.

    Args:
        tools: Definitions as sent, by name, in order.
        refused: Why other listed tools can't be used, by name.
    """

    tools: Mapping[str, dict[str, Any]]
    refused: Mapping[str, str]


_ticket: ContextVar[Ticket | None] = ContextVar("raw_exec_mcp_ticket", default=None)


class _Dispatcher(JSONRPCDispatcher):
    """The SDK's, which also remembers pages as they were sent and who waits for which answer."""

    def __init__(self, *streams: Any) -> None:
        super().__init__(*streams)
        self.version: Callable[[], str | None] = lambda: None
        self.page: list[Any] = []
        self.refused: dict[str, str] = {}
        self.tickets: dict[int, Ticket] = {}
        self._last_call = _FIRST_CALL_ID

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: types.RequestId | None = None,
    ) -> dict[str, Any]:
        ticket = _ticket.get()
        if ticket is None or method != "tools/call":
            raw = await super().send_raw_request(
                method, params, opts, _related_request_id=_related_request_id
            )
            return self._usable_page(raw) if method == "tools/list" else raw
        self._last_call += 1
        ticket.id = self._last_call
        ticket.answered, ticket.written = trio.Event(), False
        self.tickets[ticket.id] = ticket
        wanted: CallOptions = {**(opts or {}), "request_id": ticket.id}
        raw = await super().send_raw_request(
            method, params, wanted, _related_request_id=_related_request_id
        )
        content = raw.get("content")
        if isinstance(content, list) and len(content) > MAX_BLOCKS:
            # Before the SDK looks at each of them, which holds up every other call.
            raise BadAnswer(f"/content: has over {MAX_BLOCKS} blocks, which is the most")
        return raw

    def note_request(self, ident: types.RequestId) -> None:
        """Take note of a request that is about to be written."""
        if isinstance(ident, int) and ident in self.tickets:
            self.tickets[ident].written = True

    def note_answer(self, ident: types.RequestId | None) -> None:
        """Take note of an answer; also of one that nobody waits for any more."""
        ticket = self.tickets.pop(ident, None) if isinstance(ident, int) else None
        if ticket is not None:
            ticket.answered.set()

    def _usable_page(self, raw: dict[str, Any]) -> dict[str, Any]:
        listed = raw.get("tools")
        if not isinstance(listed, list):
            return raw
        self.page = [tool for tool in listed if self._is_usable(raw, tool)]
        return {**raw, "tools": list(self.page)}

    def _is_usable(self, raw: dict[str, Any], tool: Any) -> bool:
        name = tool.get("name") if isinstance(tool, dict) else None
        try:
            methods.validate_server_result(
                "tools/list", self.version() or "2025-11-25", {**raw, "tools": [tool]}
            )
        except ValidationError as exc:
            if isinstance(name, str):
                self.refused[name] = f"its definition is not valid: {describe_invalid(exc)}"
            return False
        return True


class Session:
    """One open protocol session. Use ``open_protocol``."""

    def __init__(self, session: ClientSession, dispatcher: _Dispatcher) -> None:
        self._session = session
        self._dispatcher = dispatcher
        self.list_changed = False
        """Whether the server said that its tools changed, since this was last set back."""

    @property
    def server_version(self) -> str | None:
        """The version that the server says it has."""
        info = self._session.server_info
        return None if info is None else info.version

    def note_request(self, ident: types.RequestId) -> None:
        """Take note of a request that the transport is about to write."""
        self._dispatcher.note_request(ident)

    def note_answer(self, ident: types.RequestId | None) -> None:
        """Take note of an answer that the transport has read."""
        self._dispatcher.note_answer(ident)

    async def negotiate(self, patience_seconds: float) -> None:
        """Agree on a version.

        Args:
            patience_seconds: How long a server may think about a question that it need not
                know, before it is taken for one of the earlier era.

        Raises:
            RpcFailed: The server refuses.
            BadAnswer: Its answer is not valid.
            ConnectionLost: It is gone.
        """
        with _translated():
            with trio.move_on_after(patience_seconds):
                if await self._discover():
                    return
            try:
                await self._session.initialize()
            except MCPError as exc:
                if exc.code != types.UNSUPPORTED_PROTOCOL_VERSION or not await self._discover():
                    # It was only slow to describe itself, and has no handshake.
                    raise

    async def _discover(self) -> bool:
        try:
            await self._session.discover()
        except (MCPError, RuntimeError, ValidationError):
            return False  # whatever it says: only a valid answer means that it knows the question
        return True

    async def list_tools(self) -> Listing:
        """Walk the whole list.

        Raises:
            BadAnswer: A page is not valid, the walk does not end, or there is too much.
            RpcFailed: The server refuses.
            ConnectionLost: It is gone.
        """
        self.list_changed = False  # first: a change during the walk is one to come
        try:
            return await self._walk_list()
        except BaseException:
            self.list_changed = True
            raise

    async def _walk_list(self) -> Listing:
        self._dispatcher.refused.clear()
        found: dict[str, dict[str, Any]] = {}
        twice: set[str] = set()
        cursors: set[str] = set()
        cursor: str | None = None
        size = 0
        for _page in range(MAX_PAGES):
            kept, cursor = await self._list_page(cursor)
            for tool in self._dispatcher.page:
                name = tool["name"]
                if name in found:
                    twice.add(name)
                elif name in kept:
                    found[name] = tool
                else:
                    self._dispatcher.refused[name] = "its x-mcp-header annotations are not valid"
            size += len(json.dumps(self._dispatcher.page))
            if len(found) > MAX_LISTED or size > MAX_LIST_BYTES:
                raise BadAnswer(f"lists over {MAX_LISTED} tools or {MAX_LIST_BYTES} bytes")
            if cursor is None:
                break
            if cursor in cursors:
                raise BadAnswer("repeats a cursor, so that its list of tools never ends")
            cursors.add(cursor)
        else:
            raise BadAnswer(f"lists its tools on over {MAX_PAGES} pages")
        refused = dict(self._dispatcher.refused)
        for name in twice:
            del found[name]
            refused[name] = "the server lists two tools of this name"
        return Listing(found, refused)

    async def _list_page(self, cursor: str | None) -> tuple[set[str], str | None]:
        params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
        self._dispatcher.page = []
        with _translated():
            page = await self._session.list_tools(params=params)
        return {tool.name for tool in page.tools}, page.next_cursor

    async def call_tool(
        self,
        ticket: Ticket,
        name: str,
        arguments: Mapping[str, Any],
        *,
        responses: Mapping[str, Any] | None = None,
        state: str | None = None,
    ) -> dict[str, Any]:
        """Send ``tools/call`` and return its result as it was sent.

        If cancelled, the server is told so. Run it in a task of its own, whose context holds
        the ticket from then on.

        Args:
            ticket: Of this call.
            name: The server's own name of the tool.
            arguments: Frozen JSON data.
            responses: To the questions of an earlier round.
            state: What the server gave to an earlier round.

        Raises:
            RpcFailed: The server answered with an error.
            BadAnswer: Its answer is not valid.
            ConnectionLost: It is gone.
        """
        _ticket.set(ticket)

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            ticket.on_progress()

        params = types.CallToolRequestParams.model_validate(
            {
                "name": name,
                "arguments": dict(arguments),
                "inputResponses": responses,
                "requestState": state,
            }
        )
        try:
            with _translated():
                raw: dict[str, Any] = await self._session.send_request(
                    types.CallToolRequest(params=params), _RAW, progress_callback=on_progress
                )
        except ConnectionLost as exc:
            if ticket.answered.is_set():
                # The code of a lost connection is one that servers use for errors of their own.
                raise RpcFailed(types.CONNECTION_CLOSED, str(exc)) from exc
            raise
        return raw

    def forget(self, ticket: Ticket) -> None:
        """Wait no longer for the answer to a call."""
        if ticket.id is not None:
            self._dispatcher.tickets.pop(ticket.id, None)

    async def watch_list(self) -> None:
        """Listen for changes of the list where the later era asks for that; else return."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen

        capabilities = self._session.server_capabilities
        offered = capabilities.tools if capabilities is not None else None
        if offered is None or not offered.list_changed:
            return
        try:
            async with listen(self._session, tools_list_changed=True) as changes:
                async for _change in changes:
                    self.list_changed = True
        except (ListenNotSupportedError, SubscriptionLost, MCPError):
            return  # the list is compared again at the next start all the same


@asynccontextmanager
async def open_protocol(
    incoming: Any, outgoing: Any, *, elicit: Elicit | None
) -> AsyncIterator[Session]:
    """Open a session over two streams.

    Args:
        incoming: Messages of the server.
        outgoing: Messages to it.
        elicit: Asks a person; ``None`` where nobody can be asked, and the server is told so.
    """
    dispatcher = _Dispatcher(incoming, outgoing)

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            opened.list_changed = True

    async def on_elicit(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        assert elicit is not None  # noqa: S101  (only then is this registered)
        answer = await elicit(params.model_dump(by_alias=True, mode="json", exclude_none=True))
        return types.ElicitResult.model_validate(answer)

    session = ClientSession(
        dispatcher=dispatcher,
        client_info=types.Implementation(name="raw-exec", version=__version__),
        elicitation_callback=None if elicit is None else on_elicit,
        message_handler=on_message,
    )
    dispatcher.version = lambda: session.protocol_version
    opened = Session(session, dispatcher)
    async with session:
        yield opened


class _translated:  # noqa: N801  (reads as the function that it is)
    """Turns the SDK's exceptions into ours, without a server's words but as data."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, exc: BaseException | None, _trace: object) -> None:
        if isinstance(exc, MCPError):
            if exc.code == types.CONNECTION_CLOSED:
                raise ConnectionLost(exc.message) from exc
            raise RpcFailed(exc.code, exc.message) from exc
        if isinstance(exc, ValidationError):
            raise BadAnswer(describe_invalid(exc)) from exc
        if isinstance(exc, RuntimeError):  # a version that nobody speaks
            raise BadAnswer(str(exc)) from exc


def describe_invalid(exc: ValidationError) -> str:
    """Say what the first problem is; the value itself is not quoted.

    Names in it are the server's: whoever shows it takes secrets out first, then escapes and cuts.
    """
    first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
    place = "/".join(str(part) for part in first["loc"]).removeprefix("tools/0/")
    return f"/{place}: {first['msg']}"
