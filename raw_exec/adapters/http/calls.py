"""The calls of one principal: those that run, and finished ones for a while.

A call is ``queued``, then ``running``, then ``done`` with a result or ``failed`` with an
error of the service. It never goes back, and its outcome never changes.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import trio

from ...approval import Answer
from ...panels import PanelView, derive
from ...sessions import Session
from .answers import Refused, encode
from .events import EventLog
from .limits import ServiceLimits

__all__ = ["CallBook", "CallState", "HostedCall", "PendingApproval", "new_call_id"]

_FINISHED_PREFIX: Final = b'{"call_id":"%s","state":"%s",'


class CallState(StrEnum):
    """Where a call is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


def new_call_id() -> str:
    """Return a name that nobody can guess and no client chooses by accident."""
    return f"call_{secrets.token_hex(12)}"


@dataclass(slots=True)
class PendingApproval:
    """A call that waits for somebody's yes or no."""

    id: str = field(default_factory=lambda: f"approval_{secrets.token_hex(8)}")
    answer: Answer | None = None
    answered: trio.Event = field(default_factory=trio.Event)


class HostedCall:
    """One call.

    Args:
        call_id: Its name; the result's ``tool_call_id`` too.
        session: The open session that it belongs to, or ``None``.
        interactive: Whether its client answers questions and approvals.
    """

    def __init__(self, call_id: str, session: str | None, interactive: bool) -> None:
        self.id = call_id
        self.session = session
        self.interactive = interactive
        self.state = CallState.QUEUED
        self.events = EventLog()
        self.scope = trio.CancelScope()
        self.finished = trio.Event()
        self.approval: PendingApproval | None = None
        self.home: Session | None = None
        """The open session that takes answers to its questions, while it runs in one."""
        self.identity: str | None = None
        """Of its tool, once that is known."""
        self.stage = "admission"
        """The last dispatch stage that it is known to have reached."""
        self.abort_reason: str | None = None
        self.body = b""
        """The result, or the error, encoded."""

    @property
    def is_over(self) -> bool:
        """Whether it has its outcome."""
        return self.state in (CallState.DONE, CallState.FAILED)

    @property
    def size(self) -> int:
        """Bytes that are kept of it; its outcome is one of its events."""
        return self.events.size

    def begin(self) -> None:
        """Note that it runs."""
        self.state = CallState.RUNNING
        self.events.put("started", "", encode({"call_id": self.id}))

    def show_panel(self, view: PanelView) -> None:
        """Tell of a panel's present state, and of the progress that is in it."""
        self.events.put("panel", view.id, encode(view.as_dict()))
        derived = derive(view.document)
        if derived.total is not None:
            progress = {
                "panel": view.id,
                "status": derived.status,
                "done": derived.done,
                "total": derived.total,
                "summary": derived.summary,
            }
            self.events.put("progress", view.id, encode(progress))

    def end(self, state: CallState, body: bytes) -> None:
        """Note the outcome; the last event."""
        self.state = state
        self.body = body
        self.events.put("result" if state is CallState.DONE else "error", "", body)
        self.events.end()
        self.finished.set()

    def abort(self, reason: str) -> None:
        """Give the call up; what became of it is known once it is finished.

        Args:
            reason: A word for the result; the first one stays.
        """
        if self.abort_reason is None and not self.is_over:
            self.abort_reason = reason
        self.scope.cancel()

    def describe(self) -> bytes:
        """Return what ``GET /v1/calls/{id}`` answers, encoded."""
        if not self.is_over:
            return encode({"call_id": self.id, "state": self.state})
        # The outcome can be large, and is encoded already.
        head = _FINISHED_PREFIX % (self.id.encode(), self.state.encode())
        if self.state is CallState.FAILED:
            return head + self.body[1:]
        return head + b'"result":' + self.body + b"}"


class CallBook:
    """All calls of one principal that can be asked for."""

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._live: dict[str, HostedCall] = {}
        self._kept: OrderedDict[str, HostedCall] = OrderedDict()
        self._kept_bytes = 0
        self._forgotten: OrderedDict[str, None] = OrderedDict()

    @property
    def live(self) -> tuple[HostedCall, ...]:
        """Calls without an outcome."""
        return tuple(self._live.values())

    @property
    def kept_bytes(self) -> int:
        """What finished calls hold."""
        return self._kept_bytes

    def add(self, call: HostedCall) -> None:
        """Take a new call.

        Raises:
            Refused: ``call_exists``.
        """
        if call.id in self._live or call.id in self._kept or call.id in self._forgotten:
            raise Refused(
                "call_exists",
                f"there is or was a call {call.id!r}",
                pointer="/call_id",
                headers={"Location": f"/v1/calls/{call.id}"},
            )
        self._live[call.id] = call

    def get(self, call_id: str) -> HostedCall:
        """Return a call.

        Raises:
            Refused: ``call_unknown``: there is none, or it is forgotten.
        """
        call = self._live.get(call_id) or self._kept.get(call_id)
        if call is None:
            raise Refused("call_unknown", f"there is no call {call_id!r:.150}")
        return call

    def find_live(self, call_id: str) -> HostedCall | None:
        """Return a call that has no outcome yet."""
        return self._live.get(call_id)

    def keep(self, call: HostedCall) -> None:
        """Move a finished call to those that can be asked for, and forget the oldest ones."""
        self._live.pop(call.id, None)
        self._kept[call.id] = call
        self._kept_bytes += call.size
        while len(self._kept) > 1 and (
            len(self._kept) > self._limits.kept_calls or self._kept_bytes > self._limits.kept_bytes
        ):
            old_id, old = self._kept.popitem(last=False)
            self._kept_bytes -= old.size
            self._forgotten[old_id] = None
        while len(self._forgotten) > self._limits.kept_ids:
            self._forgotten.popitem(last=False)
