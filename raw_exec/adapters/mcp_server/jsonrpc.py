"""JSON-RPC 2.0 messages: strict on the way in, plain on the way out. Pure.

A message is one JSON object. Batches went out of the protocol with 2025-06-18.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ...jsontext import JsonTextError, parse
from ...limits import MAX_ARGUMENT_BYTES, MAX_ARGUMENT_NODES, MAX_JSON_DEPTH
from .eras import INVALID_REQUEST, PARSE_ERROR, RpcError

__all__ = [
    "MAX_MESSAGE_BYTES",
    "Message",
    "Notification",
    "Request",
    "RequestId",
    "Response",
    "encode",
    "error",
    "notification",
    "read_message",
    "request",
    "response",
]

MAX_MESSAGE_BYTES: Final = MAX_ARGUMENT_BYTES + 1024 * 1024
"""One message: the largest arguments, and room for what is around them."""
_MAX_ID_CHARS: Final = 512
_MAX_METHOD_CHARS: Final = 256
_AROUND_ARGUMENTS: Final = 4
"""Levels of nesting between a message and its arguments, and one more."""

RequestId: TypeAlias = "str | int"


@dataclass(frozen=True, slots=True)
class Request:
    """Wants an answer."""

    id: RequestId
    method: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Notification:
    """Wants none."""

    method: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Response:
    """Answers a request of this side.

    Args:
        result: ``None`` when there is an error.
        error: ``None`` when there is a result.
    """

    id: RequestId
    result: dict[str, Any] | None
    error: dict[str, Any] | None


Message: TypeAlias = "Request | Notification | Response"


def read_message(data: bytes) -> Message:
    """Read one message.

    Raises:
        RpcError: It is none; ``request_id`` is set where an answer can name it.
    """
    try:
        value = parse(
            data,
            max_bytes=MAX_MESSAGE_BYTES,
            max_depth=MAX_JSON_DEPTH + _AROUND_ARGUMENTS,
            max_nodes=MAX_ARGUMENT_NODES + 1000,
        )
    except JsonTextError as exc:
        raise RpcError(PARSE_ERROR, f"not JSON as it is accepted here: {exc.message}") from None
    if isinstance(value, list):
        raise RpcError(INVALID_REQUEST, "a batch; send one message at a time")
    if not isinstance(value, dict):
        raise RpcError(INVALID_REQUEST, "a message must be an object")
    return _message(value)


def _message(value: dict[str, Any]) -> Message:
    request_id = value.get("id")
    known = request_id if _is_id(request_id) else None

    def refuse(message: str) -> RpcError:
        return RpcError(INVALID_REQUEST, message, request_id=known)

    if value.get("jsonrpc") != "2.0":
        raise refuse("jsonrpc must be '2.0'")
    if "id" in value and known is None:
        raise refuse(f"id must be an integer, or text of at most {_MAX_ID_CHARS} characters")
    if "method" not in value:
        return _response(value, known, refuse)
    method = value["method"]
    if not isinstance(method, str) or not 0 < len(method) <= _MAX_METHOD_CHARS:
        raise refuse("method must be a name")
    params = value.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise refuse("params must be an object")
    if known is None:
        return Notification(method, params)
    return Request(known, method, params)


def _response(value: dict[str, Any], request_id: RequestId | None, refuse: Any) -> Response:
    result, failure = value.get("result"), value.get("error")
    if request_id is None or (result is None) == (failure is None):
        raise refuse("neither a request, nor a notification, nor a response")
    if not isinstance(result if failure is None else failure, dict):
        raise refuse("result and error must be objects")
    return Response(request_id, result, failure)


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_ID_CHARS
    return type(value) is int


# ---------------------------------------------------------------- out


def response(request_id: RequestId, result: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error(request_id: RequestId | None, failure: RpcError) -> dict[str, Any]:
    """Return the refusal of a request; without an ID, of something that was none."""
    return {"jsonrpc": "2.0", "id": request_id, "error": failure.as_dict()}


def notification(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a notification."""
    out: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        out["params"] = params
    return out


def request(request_id: RequestId, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return a request of this side."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


_encoder = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
)


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as JSON without a line break."""
    return _encoder.encode(message).encode("utf-8", "backslashreplace")
