"""One job, as the supervisor knows it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import trio

from ..pool import ExitNotice
from .ring import OutputRing
from .state import FINISHED, JobEvent, JobState, next_state

__all__ = ["Job"]

_MAX_SHOWN_CHARS = 200


@dataclass(slots=True, eq=False)
class Job:
    """One job.

    Args:
        id: Opaque; never a process ID.
        command: For ``bash -c``.
        label: The model's own name for it.
        timeout_ms: How long it may run, or ``None``.
        begun: On trio's clock.
        on_change: Called when it has come to another state.
    """

    id: str
    command: str
    label: str | None
    timeout_ms: int | None
    begun: float
    on_change: Callable[[Job], None] | None = None
    state: JobState = JobState.STARTING
    output: OutputRing = field(default_factory=OutputRing)
    exit_code: int | None = None
    signal: str | None = None
    error: str | None = None
    ended: float | None = None
    ran: bool = False
    stop_asked: bool = False
    started: trio.Event = field(default_factory=trio.Event)
    """Set when it runs or never will."""
    settled: trio.Event = field(default_factory=trio.Event)
    """Set when its state is final and no process of it is left."""
    scope: trio.CancelScope | None = None
    """Cancelled to stop it while it runs."""

    @property
    def finished(self) -> bool:
        """Whether its state is final."""
        return self.state in FINISHED

    def take(self, event: JobEvent) -> None:
        """Go to the next state."""
        before, self.state = self.state, next_state(self.state, event)
        if self.finished and self.ended is None:
            self.ended = trio.current_time()
        if self.on_change is not None and self.state is not before:
            self.on_change(self)

    def ask_to_stop(self) -> None:
        """Begin to end it; nothing happens to one that has ended."""
        self.take(JobEvent.END_ASKED)
        if self.finished:
            return
        self.stop_asked = True
        if self.scope is not None:
            self.scope.cancel()

    def take_notice(self, notice: ExitNotice, *, timed_out: bool) -> None:
        """Record how its processes ended."""
        self.exit_code = notice.code
        self.signal = None if notice.signal is None else _signal_name(notice.signal)
        if notice.lost:
            self.error = "the launcher died, which ended the job"
            self.take(JobEvent.LOST)
        elif timed_out:
            self.take(JobEvent.TIMED_OUT)
        elif self.stop_asked:
            self.take(JobEvent.STOPPED)
        elif notice.oom or notice.limit:
            limit = "memory_bytes" if notice.oom else (notice.limit or {}).get("name")
            self.error = f"it went over the limit {limit}"
            self.take(JobEvent.FAILED)
        else:
            self.take(JobEvent.EXITED)

    def as_dict(self) -> dict[str, Any]:
        """Return what a model may know of it, as JSON data."""
        until = trio.current_time() if self.ended is None else self.ended
        shown: dict[str, Any] = {
            "id": self.id,
            "label": self.label,
            "command": _shortened(self.command),
            "state": str(self.state),
            "exit_code": self.exit_code,
            "signal": self.signal,
            "elapsed_ms": int((until - self.begun) * 1000),
            "output_bytes": self.output.end,
        }
        if self.timeout_ms is not None:
            shown["timeout_ms"] = self.timeout_ms
        if self.error is not None:
            shown["error"] = self.error
        return shown


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
