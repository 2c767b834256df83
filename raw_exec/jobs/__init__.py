"""Background jobs: programs that outlive the call that started them, and never the host."""

from __future__ import annotations

from .failures import JobError
from .ring import OutputRing, Page
from .room import HOST_ROOM, HostRoom
from .service import JobService, open_jobs
from .state import FINISHED, TRANSITIONS, JobEvent, JobState

__all__ = [
    "FINISHED",
    "HOST_ROOM",
    "TRANSITIONS",
    "HostRoom",
    "JobError",
    "JobEvent",
    "JobService",
    "JobState",
    "OutputRing",
    "Page",
    "open_jobs",
]
