"""Which hosts on one history file are alive: each holds a lock on a byte of its own.

A host is one open history. Its number is its row in ``hosts``, which is never used again; the
lock is on that byte of a file beside the database. The kernel drops the lock when the host's
process ends, however it ends. Process IDs would do worse: they are used again, and mean
nothing to a host in another PID namespace.

Open-file-description locks, since POSIX locks belong to the process: two hosts in one process
would see none of each other's, and closing the file once would drop them all.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from .errors import FAILURES, HistoryError
from .private_file import open_private

__all__ = ["HostLease"]

_FLOCK = struct.Struct("hhqqi4x")


class HostLease:
    """The lock file of one history, and this host's lock in it."""

    def __init__(self, path: Path) -> None:
        self._where = str(path)
        self._fd = open_private(path)

    def take(self, host: int) -> None:
        """Lock this host's byte.

        Raises:
            HistoryError: ``history_unavailable``: the file system has no such locks.
        """
        try:
            self._ask(fcntl.F_OFD_SETLK, host)
        except OSError as exc:
            message = f"{FAILURES['history_unavailable']} ({exc.strerror})"
            raise HistoryError("history_unavailable", message, where=self._where) from exc

    def is_alive(self, host: int) -> bool:
        """Whether another host holds its byte."""
        try:
            kind = self._ask(fcntl.F_OFD_GETLK, host)
        except OSError as exc:
            message = f"{FAILURES['history_unavailable']} ({exc.strerror})"
            raise HistoryError("history_unavailable", message, where=self._where) from exc
        return kind != fcntl.F_UNLCK

    def close(self) -> None:
        """Drop the lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _ask(self, command: int, host: int) -> int:
        lock = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, host, 1, 0)
        kind: int = _FLOCK.unpack(fcntl.fcntl(self._fd, command, lock))[0]
        return kind
