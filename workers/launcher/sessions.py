"""Bound how many sessions a tool has, where each is a rival of ours for the processors.

With ``sched_autogroup_enabled`` the kernel shares processors between sessions: hundreds of
busy ones delay whoever should end them by seconds, and of an ordinary user nothing goes
before them (niceness counts within a session only). A fork bomb makes them within a
hundredth of a second, so looking now and then is too late: the filter hands each ``setsid``
to the process that owns the tree, which lets it go on or not.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time

from .tree import group_and_session, session_count

__all__ = ["MOST_SESSIONS", "SessionLimit", "sessions_allowed"]

MOST_SESSIONS = 16
"""In one tree. On two processors whoever ends them waits 0.03 s for its turn."""
_RECOUNT_SECONDS = 0.1
_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_*
_NOTICE = struct.Struct("=QII64x")  # id, process, flags, what was called
_ANSWER = struct.Struct("=QqiI")  # id, value, error, flags
_CONTINUE = 1


def sessions_allowed() -> int:
    """Return how many sessions a tree may have on this host; 0 for no bound.

    Uid 0 needs none: its launcher has real-time priority.
    """
    if os.getuid() == 0:
        return 0
    try:
        with open("/proc/sys/kernel/sched_autogroup_enabled", "rb") as setting:
            return MOST_SESSIONS if setting.read().strip() == b"1" else 0
    except OSError:
        return 0


class SessionLimit:
    """Answers each ``setsid`` of a tree.

    Args:
        listener: What the kernel returned for the filter; owned from here on.
        limit: Sessions the tree may have at a time.
    """

    def __init__(self, listener: int, limit: int) -> None:
        self.fd = listener
        self._limit = limit
        self._granted = 0
        self._pending: dict[int, int] = {}
        """Who was let go on and the session it was in then."""
        self._recount_after = 0.0

    def answer(self) -> None:
        """Take one request and answer it; nothing when its process ended meanwhile."""
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self.fd, _RECEIVE, notice)
            ident, pid, _ = _NOTICE.unpack(notice)
            error = self._refusal(pid)
            flags = 0 if error else _CONTINUE
            fcntl.ioctl(self.fd, _SEND, bytearray(_ANSWER.pack(ident, 0, -error, flags)))
        except OSError as exc:
            if exc.errno not in (errno.ENOENT, errno.EINTR, errno.EINPROGRESS):
                raise

    def _refusal(self, pid: int) -> int:
        """Return what the call fails with; 0 to let it go on."""
        before = group_and_session(pid)
        if before is not None and before[0] == pid:
            return errno.EPERM  # as the kernel says to the leader of a group
        if self._granted >= self._limit and time.monotonic() >= self._recount_after:
            self._recount()
            if self._granted >= self._limit:
                self._recount_after = time.monotonic() + _RECOUNT_SECONDS
        if self._granted >= self._limit:
            return errno.EAGAIN
        self._granted += 1
        if before is not None:
            self._pending[pid] = before[1]
        return 0

    def _recount(self) -> None:
        """Count anew, since sessions end without a word."""
        # Race: one that was let go on begins its session when it next runs. Looked at before
        # the sessions are, so that it may count twice, and never not at all.
        waiting = {}
        for pid, session in self._pending.items():
            now = group_and_session(pid)
            if now is not None and now[1] == session:
                waiting[pid] = session
        found = session_count(os.getpid())
        if found:  # Whoever asks is in one: without any there is no /proc to count in.
            self._pending = waiting
            self._granted = found + len(waiting)
