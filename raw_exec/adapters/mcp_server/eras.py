"""Facts of the protocol: its versions, their two eras, error codes and reserved keys.

Up to 2025-11-25 a connection begins with a handshake, which says once what the client can
do. From 2026-07-28 on there is none: every request says so itself, in ``_meta``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

__all__ = [
    "CLIENT_CAPABILITIES",
    "HANDSHAKE_VERSIONS",
    "HEADER_MISMATCH",
    "HTTP_STATUS",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "LATEST_HANDSHAKE",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "PROTOCOL_VERSION",
    "SERVER_BUSY",
    "SERVER_INFO",
    "STATELESS_VERSIONS",
    "SUBSCRIPTION_ID",
    "UNSUPPORTED_VERSION",
    "Era",
    "RpcError",
    "era_of",
]


class Era(Enum):
    """Which of the two ways a client speaks."""

    HANDSHAKE = "handshake"
    STATELESS = "stateless"


HANDSHAKE_VERSIONS: Final = ("2025-06-18", "2025-11-25")
LATEST_HANDSHAKE: Final = HANDSHAKE_VERSIONS[-1]
STATELESS_VERSIONS: Final = ("2026-07-28",)


def era_of(version: str) -> Era:
    """Return the era of a version that is served."""
    return Era.STATELESS if version in STATELESS_VERSIONS else Era.HANDSHAKE


PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022
SERVER_BUSY: Final = -32000
"""Ours: from -32000 to -32019 the meaning is the implementation's."""

HTTP_STATUS: Final[Mapping[int, int]] = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
    SERVER_BUSY: 503,
}
"""HTTP status of a stateless answer that is an error; any other is 200."""

_PREFIX: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = _PREFIX + "protocolVersion"
CLIENT_CAPABILITIES: Final = _PREFIX + "clientCapabilities"
SERVER_INFO: Final = _PREFIX + "serverInfo"
SUBSCRIPTION_ID: Final = _PREFIX + "subscriptionId"


class RpcError(Exception):
    """A request gets an error for an answer.

    Args:
        code: JSON-RPC error code.
        message: One line, lower case, for the client's log.
        data: JSON data that the code defines.
        request_id: The request, where it is known and the one who raises is not answering it.
    """

    def __init__(
        self, code: int, message: str, data: Any = None, *, request_id: str | int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.request_id = request_id

    def as_dict(self) -> dict[str, Any]:
        """Return the value of ``error``."""
        out: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            out["data"] = self.data
        return out
