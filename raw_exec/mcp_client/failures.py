"""Why a server, or one request to it, came to nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["OVERSIZE_WORDS", "BadAnswer", "ConnectionLost", "RpcFailed", "ServerFailure"]

OVERSIZE_WORDS: Final = ("is over the limit of result_bytes", "Server-sent event exceeded the")
"""Of an answer that was cut off; the SDK hands on nothing but words, ours and its own."""


@dataclass(frozen=True, slots=True)
class ServerFailure:
    """Why a server can't be used, or was ended.

    Args:
        reason: One line, safe to show, that goes on from ``MCP server 's'``.
        code: Of the calls that it took with it.
        detail: JSON-compatible facts; ``stderr`` is the end of its standard error.
        hint: What would make it work.
    """

    reason: str
    code: str = "mcp_unavailable"
    detail: dict[str, Any] = field(default_factory=dict)
    hint: str | None = None


class ConnectionLost(Exception):
    """The connection ended before there was an answer; the connection says why."""


class RpcFailed(Exception):
    """The server answered with a protocol error.

    Args:
        code: JSON-RPC error code.
        message: The server's words, as sent.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class BadAnswer(Exception):
    """The server answered with something that the protocol does not allow."""
