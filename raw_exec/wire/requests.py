"""What the supervisor says to a worker, as bytes of whole frames.

Contract: the worker protocol, version 1, supervisor → worker on fds 3 and 5.
"""

from __future__ import annotations

from typing import Any

import msgpack

from ..errors import LocalWireError
from .frames import frame

__all__ = [
    "CLOSE",
    "MAX_REQUEST_BYTES",
    "encode_abort",
    "encode_call",
    "encode_describe",
    "encode_load",
    "encode_ping",
    "encode_reply",
]

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""Longest body that a worker takes."""

_pack = msgpack.packb


def _encode(message: dict[str, Any]) -> bytes:
    try:
        body: bytes = _pack(message)
    except (TypeError, ValueError, OverflowError) as exc:
        # ValueError includes lone surrogates and nesting that the encoder refuses.
        raise LocalWireError(
            "not_serializable", f"the message {message['t']!r} can't be encoded: {exc!s:.200}"
        ) from exc
    if len(body) > MAX_REQUEST_BYTES:
        raise LocalWireError(
            "frame_too_large",
            f"the message {message['t']!r} takes {len(body)} bytes",
            hint=f"at most {MAX_REQUEST_BYTES} bytes are allowed",
        )
    return frame(body)


CLOSE = _encode({"t": "close"})


def encode_load(entry: str, name: str, kind: str) -> bytes:
    """Encode the request to import a plugin; ``kind`` is ``handler`` or ``descriptor``."""
    if kind not in ("handler", "descriptor"):
        raise LocalWireError("wrong_kind", f"the kind {kind!r:.60} is not handler or descriptor")
    return _encode({"t": "load", "entry": entry, "name": name, "kind": kind})


def encode_call(
    call_id: int,
    args: Any,
    cwd: str,
    tool_call_id: str,
    max_output_bytes: int,
    result_bytes: int,
    scratch: str,
) -> bytes:
    """Encode a call of the handler."""
    return _encode(
        {
            "t": "call",
            "id": call_id,
            "args": args,
            "cwd": cwd,
            "tool_call_id": tool_call_id,
            "max_output_bytes": max_output_bytes,
            "result_bytes": result_bytes,
            "scratch": scratch,
        }
    )


def encode_describe(call_id: int, fn: str, args: Any, cwd: str) -> bytes:
    """Encode a call of a descriptor function."""
    return _encode({"t": "describe", "id": call_id, "fn": fn, "args": args, "cwd": cwd})


def encode_ping(call_id: int) -> bytes:
    """Encode a ping."""
    return _encode({"t": "ping", "id": call_id})


def encode_abort(call_id: int, reason: str) -> bytes:
    """Encode the abort of a running call, for the control pipe."""
    return _encode({"t": "abort", "id": call_id, "reason": reason})


def encode_reply(
    call_id: int, rid: int, ok: bool, value: Any, error: dict[str, str] | None
) -> bytes:
    """Encode the answer to a handler's request, for the control pipe."""
    return _encode(
        {"t": "reply", "id": call_id, "rid": rid, "ok": ok, "value": value, "error": error}
    )
