"""The worker protocol, without I/O: frames, messages, states, and one connection.

Nothing in here reads, writes or waits; the pool does. Everything a worker sends is hostile
until it has passed through ``WorkerConnection.next_event``.
"""

from __future__ import annotations

from .connection import NEED_DATA, Event, WorkerConnection
from .frames import FrameReader
from .json_value import MAX_VALUES
from .messages import (
    EXPORT_NAMES,
    PROTOCOL_VERSION,
    Described,
    Failed,
    LeftBehind,
    Loaded,
    LoadFailed,
    Message,
    Pong,
    Progress,
    Ready,
    Request,
    Result,
    WorkerFailure,
)
from .requests import MAX_REQUEST_BYTES
from .state import SUPERVISOR, WORKER, ConnectionState, WorkerState

__all__ = [
    "EXPORT_NAMES",
    "MAX_REQUEST_BYTES",
    "MAX_VALUES",
    "NEED_DATA",
    "PROTOCOL_VERSION",
    "SUPERVISOR",
    "WORKER",
    "ConnectionState",
    "Described",
    "Event",
    "Failed",
    "FrameReader",
    "LeftBehind",
    "LoadFailed",
    "Loaded",
    "Message",
    "Pong",
    "Progress",
    "Ready",
    "Request",
    "Result",
    "WorkerConnection",
    "WorkerFailure",
    "WorkerState",
]
