"""What goes into a worker's call and what comes out of it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import trio

from ..errors import WorkerBroken
from ..wire import WorkerFailure
from .logs import LogText

__all__ = [
    "CallReply",
    "CallRequest",
    "CallTimer",
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


class CallTimer:
    """The wall time of one call; it stands still while a person is asked."""

    def __init__(self) -> None:
        self._scope: trio.CancelScope | None = None
        self._pauses = 0
        self._left = 0.0

    def attach(self, scope: trio.CancelScope) -> None:
        """Take the scope whose deadline ends the call."""
        self._scope = scope

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time of the call pass inside the block. Blocks may overlap."""
        scope = self._scope
        if scope is None:
            yield
            return
        if self._pauses == 0:
            self._left = scope.deadline - trio.current_time()
            scope.deadline = math.inf
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                scope.deadline = trio.current_time() + self._left


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
        timer: Told of the call's deadline, for whoever must stop the clock.
    """

    arguments: Any
    cwd: str
    tool_call_id: str
    max_output_bytes: int
    call_ms: int
    grace_ms: int
    on_request: RequestHandler | None = None
    timer: CallTimer | None = None


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
