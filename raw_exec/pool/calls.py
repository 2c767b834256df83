"""What goes into a worker's call and what comes out of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ..errors import WorkerBroken
from ..wire import WorkerFailure
from .logs import LogText

__all__ = [
    "CallReply",
    "CallRequest",
    "LoadFailure",
    "NotDelivered",
    "RequestHandler",
    "RequestRefused",
]

RequestHandler = Callable[[str, Any], Awaitable[Any]]


class LoadFailure(WorkerBroken):
    """The plugin could not be imported; ``failure`` is its own error, as data."""

    def __init__(self, code: str, message: str, failure: WorkerFailure, log: str) -> None:
        super().__init__(
            code,
            message,
            detail={"kind": failure.kind, "error": failure.name, "stderr": log},
        )
        self.failure = failure


class NotDelivered(WorkerBroken):
    """An idle worker died with the request unread in its pipe: no code of this call ran."""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """What one call sends to a worker.

    Args:
        arguments: Frozen JSON arguments.
        cwd: Absolute directory that relative paths of the tool mean.
        tool_call_id: The call's ID.
        max_output_bytes: What the host will keep of text and JSON.
        call_ms: Wall time, milliseconds.
        grace_ms: Between abort and kill, milliseconds.
        on_request: Answers requests of the handler (variables, panels).
    """

    arguments: Any
    cwd: str
    tool_call_id: str
    max_output_bytes: int
    call_ms: int
    grace_ms: int
    on_request: RequestHandler | None = None


@dataclass(frozen=True, slots=True)
class CallReply:
    """What came back.

    Args:
        value: The handler's return value, plain JSON data, when it returned.
        failure: The handler's error, when it did not.
        stdout: What it printed.
        stderr: What it printed as errors.
        result_bytes: Size of the answer's frames.
    """

    value: Any
    failure: WorkerFailure | None
    stdout: LogText
    stderr: LogText
    result_bytes: int


class RequestRefused(Exception):
    """An ``on_request`` callback refuses; the handler gets ``code`` and the message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
