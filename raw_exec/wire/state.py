"""The two state machines of the worker protocol, one for each side.

Rules
1. Every transition is in a table below and nowhere else. A pair that is missing is an
   error: the worker's fault if it received the event, ours if we sent it.
2. After any error of the worker a connection is in ``ERROR`` for good; nothing leads out.

Event names: ``send_X`` is a message that the side writes, plain ``X`` one that it reads,
``closed`` the end of the pipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

__all__ = ["PENDING_STATES", "SUPERVISOR", "WORKER", "ConnectionState", "WorkerState"]


class ConnectionState(StrEnum):
    """Where the supervisor's side of a connection is."""

    STARTING = "starting"
    READY = "ready"
    WARMING = "warming"
    LOADING = "loading"
    UNUSABLE = "unusable"
    IDLE = "idle"
    CALLING = "calling"
    DESCRIBING = "describing"
    PINGING = "pinging"
    CLOSING = "closing"
    CLOSED = "closed"
    ERROR = "error"


_C = ConnectionState

SUPERVISOR: Mapping[ConnectionState, Mapping[str, ConnectionState]] = {
    _C.STARTING: {"ready": _C.READY},
    _C.READY: {"send_load": _C.LOADING, "send_ping": _C.WARMING, "send_close": _C.CLOSING},
    _C.WARMING: {"pong": _C.READY},
    _C.LOADING: {"loaded": _C.IDLE, "load_failed": _C.UNUSABLE},
    _C.UNUSABLE: {"send_close": _C.CLOSING},
    _C.IDLE: {
        "send_call": _C.CALLING,
        "send_describe": _C.DESCRIBING,
        "send_ping": _C.PINGING,
        "send_close": _C.CLOSING,
    },
    _C.CALLING: {
        "request": _C.CALLING,
        "progress": _C.CALLING,
        "send_abort": _C.CALLING,
        "send_reply": _C.CALLING,
        "result": _C.IDLE,
        "failed": _C.IDLE,
    },
    _C.DESCRIBING: {"described": _C.IDLE, "failed": _C.IDLE},
    _C.PINGING: {"pong": _C.IDLE},
    _C.CLOSING: {"closed": _C.CLOSED},
    _C.CLOSED: {"closed": _C.CLOSED},
    _C.ERROR: {"closed": _C.ERROR},
}

PENDING_STATES = frozenset({_C.CALLING, _C.DESCRIBING, _C.PINGING, _C.WARMING})
"""States in which one id is under way, and every frame must carry it."""


class WorkerState(StrEnum):
    """Where a worker is."""

    STARTED = "started"
    READY = "ready"
    LOADING = "loading"
    UNUSABLE = "unusable"
    IDLE = "idle"
    BUSY = "busy"
    DESCRIBING = "describing"
    ANSWERING = "answering"
    WARMING = "warming"
    ENDED = "ended"


_W = WorkerState

WORKER: Mapping[WorkerState, Mapping[str, WorkerState]] = {
    _W.STARTED: {"send_ready": _W.READY},
    _W.READY: {
        "load": _W.LOADING,
        "ping": _W.WARMING,
        "close": _W.ENDED,
        "closed": _W.ENDED,
    },
    _W.WARMING: {"send_pong": _W.READY},
    _W.LOADING: {"send_loaded": _W.IDLE, "send_load_failed": _W.UNUSABLE},
    _W.UNUSABLE: {"close": _W.ENDED, "closed": _W.ENDED},
    _W.IDLE: {
        "call": _W.BUSY,
        "describe": _W.DESCRIBING,
        "ping": _W.ANSWERING,
        "close": _W.ENDED,
        "closed": _W.ENDED,
        # They crossed the result: ignored.
        "abort": _W.IDLE,
        "reply": _W.IDLE,
    },
    _W.BUSY: {
        "abort": _W.BUSY,
        "reply": _W.BUSY,
        "send_request": _W.BUSY,
        "send_progress": _W.BUSY,
        "send_result": _W.IDLE,
        "send_failed": _W.IDLE,
        "closed": _W.ENDED,
    },
    _W.DESCRIBING: {"send_described": _W.IDLE, "send_failed": _W.IDLE},
    _W.ANSWERING: {"send_pong": _W.IDLE},
    _W.ENDED: {},
}
