"""The protocol of one client, without any I/O: a message in, an event out.

Rules
1. What a method means in an era is in ``REQUESTS`` and ``NOTIFICATIONS``, and nowhere else; a
   request that is not there does not exist, a notification that is not there is ignored.
2. Where a handshake leads is in ``HANDSHAKE``. Only a client that began one is served in that
   era; a stateless request needs none and changes nothing here.
3. Which era a request belongs to, it says itself: a stateless one has its version in ``_meta``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from . import jsonrpc
from .catalog import Catalog, ListedTool
from .eras import (
    CLIENT_CAPABILITIES,
    HANDSHAKE_VERSIONS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LATEST_HANDSHAKE,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION,
    SERVER_INFO,
    STATELESS_VERSIONS,
    SUBSCRIPTION_ID,
    UNSUPPORTED_VERSION,
    Era,
    RpcError,
)
from .headers import envelope
from .jsonrpc import Notification, Request, RequestId, Response

__all__ = [
    "HANDSHAKE",
    "NOTIFICATIONS",
    "REQUESTS",
    "Answered",
    "Cancelled",
    "Event",
    "HandshakeState",
    "Ignored",
    "Initialized",
    "Listen",
    "Peer",
    "Reply",
    "ServerFacts",
    "ToolCall",
    "is_stateless",
]

_TTL_MS: Final = 60_000
"""How long a client may keep a list that can't change while this server runs."""


class HandshakeState(Enum):
    """How far a client of the handshake era has come."""

    NEW = "has not begun"
    NEGOTIATED = "was told the version"
    READY = "said that it is ready"


_S = HandshakeState
HANDSHAKE: Final[Mapping[HandshakeState, Mapping[str, HandshakeState]]] = {
    _S.NEW: {"initialize": _S.NEGOTIATED, "ping": _S.NEW},
    _S.NEGOTIATED: {
        "notifications/initialized": _S.READY,
        "ping": _S.NEGOTIATED,
        # A client that sends these too soon loses nothing by it.
        "tools/list": _S.NEGOTIATED,
        "tools/call": _S.NEGOTIATED,
    },
    _S.READY: {"ping": _S.READY, "tools/list": _S.READY, "tools/call": _S.READY},
}
"""State and method to the state after it; a request that is missing is refused."""


# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Reply:
    """Send this; nothing else is to be done."""

    message: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Call a tool and answer with what becomes of it.

    Args:
        version: The protocol version to answer in.
        tool: What is called.
        arguments: As the client sent them, for the tool's own schema.
        progress_token: Where progress is wanted.
        elicits: Whether the client can put a form to a person.
        request_state: Of a call that asked something, whose answers these are.
        input_responses: The answers.
    """

    request_id: RequestId
    era: Era
    version: str
    tool: ListedTool
    arguments: Any
    progress_token: str | int | None
    elicits: bool
    request_state: str | None = None
    input_responses: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Listen:
    """Keep an answer open, and tell of changes in it.

    Args:
        tools: Whether changes of the list of tools are wanted.
    """

    request_id: RequestId
    tools: bool


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The client gives a request up; it gets no answer."""

    request_id: RequestId


@dataclass(frozen=True, slots=True)
class Answered:
    """A request of this side has an answer."""

    response: Response


@dataclass(frozen=True, slots=True)
class Initialized:
    """The handshake is done: the client may be sent what it did not ask for."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing is to be done."""

    reason: str


Event: TypeAlias = "Reply | ToolCall | Listen | Cancelled | Answered | Initialized | Ignored"


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself.

    Args:
        info: Name, title and version.
        changes: Whether the list of tools may change while it runs.
    """

    info: Mapping[str, Any]
    changes: bool

    @property
    def capabilities(self) -> dict[str, Any]:
        """What it can do."""
        return {"tools": {"listChanged": True} if self.changes else {}}


def is_stateless(params: Mapping[str, Any]) -> bool:
    """Say whether a request speaks the stateless way, well or badly."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta


class Peer:
    """One client: a pipe, an HTTP session, or a single stateless request.

    Args:
        facts: What the server says of itself.
        catalog: Returns the tools as of now.
    """

    def __init__(self, facts: ServerFacts, catalog: Callable[[], Catalog]) -> None:
        self._facts = facts
        self._catalog = catalog
        self._elicits = False
        self.state = HandshakeState.NEW
        self.version = LATEST_HANDSHAKE
        """The version that was agreed on; means nothing before the handshake."""

    def receive(self, message: jsonrpc.Message) -> Event:
        """Take one message. Never raises: a mistake of the client is a reply to it."""
        if isinstance(message, Response):
            return Answered(message)
        era = Era.STATELESS if is_stateless(message.params) else Era.HANDSHAKE
        if isinstance(message, Notification):
            return self._notified(era, message)
        try:
            return self._requested(era, message)
        except RpcError as exc:
            return Reply(jsonrpc.error(message.id, exc))

    def receive_stateless(self, request: Request) -> Event:
        """Take a request that came where only stateless ones may come.

        Raises:
            RpcError: It is refused.
        """
        return self._requested(Era.STATELESS, request)

    def _requested(self, era: Era, request: Request) -> Event:
        if era is Era.STATELESS:
            _check_envelope(request.params)
        handler = REQUESTS[era].get(request.method)
        if handler is None:
            message = f"there is no method {request.method!r:.80} here"
            raise RpcError(METHOD_NOT_FOUND, message)
        if era is Era.HANDSHAKE:
            after = HANDSHAKE[self.state].get(request.method)
            if after is None:
                raise RpcError(
                    INVALID_REQUEST,
                    f"{request.method} can't come now: the client {self.state.value}",
                )
            event = handler(self, era, request)
            self.state = after
            return event
        return handler(self, era, request)

    def _notified(self, era: Era, message: Notification) -> Event:
        handler = NOTIFICATIONS.get(message.method)
        if handler is None:
            return Ignored(f"{message.method!r:.80} means nothing here")
        return handler(self, message)

    # ------------------------------------------------------------ requests

    def _initialize(self, era: Era, request: Request) -> Event:
        params = request.params
        asked, capabilities = params.get("protocolVersion"), params.get("capabilities")
        if not isinstance(asked, str):
            raise RpcError(INVALID_PARAMS, "params.protocolVersion must be text")
        if not isinstance(capabilities, dict):
            raise RpcError(INVALID_PARAMS, "params.capabilities must be an object")
        self.version = asked if asked in HANDSHAKE_VERSIONS else LATEST_HANDSHAKE
        self._elicits = _elicits(capabilities)
        result = {
            "protocolVersion": self.version,
            "capabilities": self._facts.capabilities,
            "serverInfo": dict(self._facts.info),
        }
        return Reply(jsonrpc.response(request.id, result))

    def _ping(self, era: Era, request: Request) -> Event:
        return Reply(jsonrpc.response(request.id, {}))

    def _discover(self, era: Era, request: Request) -> Event:
        result = {
            "supportedVersions": list(STATELESS_VERSIONS),
            "capabilities": self._facts.capabilities,
        }
        return Reply(jsonrpc.response(request.id, self.complete(result, cached=True)))

    def _list(self, era: Era, request: Request) -> Event:
        result = self._catalog().page(era, request.params.get("cursor"))
        if era is Era.STATELESS:
            result = self.complete(result, cached=True)
        return Reply(jsonrpc.response(request.id, result))

    def _call(self, era: Era, request: Request) -> Event:
        params = request.params
        name, meta = params.get("name"), params.get("_meta")
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "params.name must be text")
        tool = self._catalog().find(era, name)
        if tool is None:
            raise RpcError(INVALID_PARAMS, f"unknown tool: {name:.128}")
        arguments = params.get("arguments")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        common = {
            "request_id": request.id,
            "era": era,
            "tool": tool,
            # A tool takes an object; that anything else is none, its schema says best.
            "arguments": {} if arguments is None else arguments,
            "progress_token": token if isinstance(token, str) or type(token) is int else None,
        }
        if era is Era.HANDSHAKE:
            return ToolCall(**common, version=self.version, elicits=self._elicits)
        assert isinstance(meta, dict)  # noqa: S101  (else it would not be stateless)
        state, responses = params.get("requestState"), params.get("inputResponses")
        if state is not None and not isinstance(state, str):
            raise RpcError(INVALID_PARAMS, "params.requestState must be text")
        if responses is not None and not isinstance(responses, dict):
            raise RpcError(INVALID_PARAMS, "params.inputResponses must be an object")
        return ToolCall(
            **common,
            version=meta[PROTOCOL_VERSION],
            elicits=_elicits(meta[CLIENT_CAPABILITIES]),
            request_state=state,
            input_responses=responses,
        )

    def _listen(self, era: Era, request: Request) -> Event:
        wanted = request.params.get("notifications")
        if not isinstance(wanted, dict):
            raise RpcError(INVALID_PARAMS, "params.notifications must be an object")
        tools = wanted.get("toolsListChanged") is True and self._facts.changes
        return Listen(request.id, tools)

    # ------------------------------------------------------------ notifications

    def _initialized(self, message: Notification) -> Event:
        after = HANDSHAKE[self.state].get(message.method)
        if after is None:
            return Ignored(f"{message.method} when the client {self.state.value}")
        self.state = after
        return Initialized()

    def _cancelled(self, message: Notification) -> Event:
        request_id = message.params.get("requestId")
        if isinstance(request_id, str) or type(request_id) is int:
            return Cancelled(request_id)
        return Ignored("a cancellation of nothing")

    # ------------------------------------------------------------ what the era adds

    def complete(self, result: Mapping[str, Any], *, cached: bool = False) -> dict[str, Any]:
        """Return a result with what every stateless one has.

        Args:
            result: Its own fields; ``resultType`` is kept where it is there.
            cached: Whether the client may keep it for a while.
        """
        out: dict[str, Any] = {"resultType": "complete", **result}
        if cached:
            out["ttlMs"] = 0 if self._facts.changes else _TTL_MS
            out["cacheScope"] = "private"
        out["_meta"] = {**out.get("_meta", {}), SERVER_INFO: dict(self._facts.info)}
        return out

    def listen_ended(self, request_id: RequestId) -> dict[str, Any]:
        """Return the answer that ends a subscription on purpose."""
        result = self.complete({"_meta": {SUBSCRIPTION_ID: request_id}})
        return jsonrpc.response(request_id, result)


_Handler: TypeAlias = Callable[[Peer, Era, Request], Event]

REQUESTS: Final[Mapping[Era, Mapping[str, _Handler]]] = {
    Era.HANDSHAKE: {
        "initialize": Peer._initialize,
        "ping": Peer._ping,
        "tools/list": Peer._list,
        "tools/call": Peer._call,
    },
    Era.STATELESS: {
        "server/discover": Peer._discover,
        "tools/list": Peer._list,
        "tools/call": Peer._call,
        "subscriptions/listen": Peer._listen,
    },
}
"""Every request that is served, by era."""

NOTIFICATIONS: Final[Mapping[str, Callable[[Peer, Notification], Event]]] = {
    "notifications/initialized": Peer._initialized,
    "notifications/cancelled": Peer._cancelled,
}
"""Every notification that is looked at; a stateless one says no version."""


def _check_envelope(params: Mapping[str, Any]) -> None:
    meta = envelope(params)
    version = meta[PROTOCOL_VERSION]
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"{PROTOCOL_VERSION} must be text")
    if version not in STATELESS_VERSIONS:
        raise RpcError(
            UNSUPPORTED_VERSION,
            f"protocol version {version!r:.40} is not served",
            {"supported": list(STATELESS_VERSIONS), "requested": version[:200]},
        )
    if not isinstance(meta[CLIENT_CAPABILITIES], dict):
        raise RpcError(INVALID_PARAMS, f"{CLIENT_CAPABILITIES} must be an object")


def _elicits(capabilities: Mapping[str, Any]) -> bool:
    """Say whether a client puts forms to a person; saying no kind means forms."""
    found = capabilities.get("elicitation")
    return isinstance(found, dict) and ("form" in found or "url" not in found)
