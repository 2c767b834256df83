"""How many jobs this process runs at a time, over all its runtimes."""

from __future__ import annotations

from .failures import JobError

__all__ = ["HOST_ROOM", "HostRoom"]

MAX_HOST_JOBS = 32


class HostRoom:
    """A count with a limit; trio tasks of one thread may share it.

    Args:
        limit: How many jobs may live.
    """

    def __init__(self, limit: int = MAX_HOST_JOBS) -> None:
        self.limit = limit
        self.live = 0

    def take(self) -> None:
        """Count one more.

        Raises:
            JobError: ``too_many_jobs``.
        """
        if self.live >= self.limit:
            raise JobError(
                "too_many_jobs",
                f"{self.live} background jobs run on this host, which is its limit",
                hint="stop one, or wait until one has ended",
            )
        self.live += 1

    def give_back(self) -> None:
        """Count one less."""
        self.live -= 1


HOST_ROOM = HostRoom()
