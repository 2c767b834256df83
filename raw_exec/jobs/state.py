"""The state machine of a job.

Rules
1. Every transition is in the table below and nowhere else; a pair that is missing is a bug
   of ours.
2. ``exited``, ``failed``, ``stopped``, ``timed_out`` and ``lost`` are final. Only asking for
   an end is possible there, and changes nothing: stopping is idempotent.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum

from ..errors import InternalError

__all__ = ["FINISHED", "TRANSITIONS", "JobEvent", "JobState", "next_state"]


class JobState(StrEnum):
    """Where a job is. The values are what a model sees."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    """Its time is over or it was asked to stop, and its processes are being ended."""
    EXITED = "exited"
    """Its shell ended by itself; there is an exit code or a signal."""
    FAILED = "failed"
    """It could not be started, or went over a limit of its sandbox."""
    STOPPED = "stopped"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    """The launcher died, which ended it; how it would have ended is not known."""


class JobEvent(Enum):
    """What happens to a job."""

    SPAWNED = "its shell runs"
    END_ASKED = "someone stops it, or its time is over"
    EXITED = "it ended by itself"
    FAILED = "it could not be started, or went over a limit"
    STOPPED = "it is ended, because it was stopped"
    TIMED_OUT = "it is ended, because its time was over"
    LOST = "the launcher died"


_S = JobState
_E = JobEvent

TRANSITIONS: Mapping[JobState, Mapping[JobEvent, JobState]] = {
    _S.STARTING: {
        _E.SPAWNED: _S.RUNNING,
        _E.END_ASKED: _S.STOPPING,
        _E.FAILED: _S.FAILED,
    },
    _S.RUNNING: {
        _E.END_ASKED: _S.STOPPING,
        _E.EXITED: _S.EXITED,
        _E.FAILED: _S.FAILED,
        _E.LOST: _S.LOST,
    },
    _S.STOPPING: {
        _E.SPAWNED: _S.STOPPING,
        _E.END_ASKED: _S.STOPPING,
        _E.FAILED: _S.FAILED,
        _E.STOPPED: _S.STOPPED,
        _E.TIMED_OUT: _S.TIMED_OUT,
        _E.LOST: _S.LOST,
    },
    _S.EXITED: {_E.END_ASKED: _S.EXITED},
    _S.FAILED: {_E.END_ASKED: _S.FAILED},
    _S.STOPPED: {_E.END_ASKED: _S.STOPPED},
    _S.TIMED_OUT: {_E.END_ASKED: _S.TIMED_OUT},
    _S.LOST: {_E.END_ASKED: _S.LOST},
}

FINISHED = frozenset((_S.EXITED, _S.FAILED, _S.STOPPED, _S.TIMED_OUT, _S.LOST))


def next_state(state: JobState, event: JobEvent) -> JobState:
    """Return where an event leads.

    Raises:
        InternalError: Nowhere.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise InternalError("internal", f"a {state} job can't take {event.name}") from None
