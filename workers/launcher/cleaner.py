"""Removal that takes long, in a process of its own.

A tool may leave a hundred thousand files. The loop tries for a few milliseconds;
what is left is removed by a forked child, so that no other spawn waits for it.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import NoReturn

from .fds import close_except
from .protocol import PeerClosed, receive, send
from .scratch import Usage
from .syscalls import prctl

__all__ = ["Cleaner", "within_budget"]

_PR_SET_PDEATHSIG = 1
_BUDGET_SECONDS = 0.01


def within_budget() -> Callable[[], bool]:
    """Return a ``stop`` function that says stop after a few milliseconds."""
    end = time.monotonic() + _BUDGET_SECONDS
    return lambda: time.monotonic() > end


class Cleaner:
    """A child that finishes one removal.

    Args:
        work: Does it, and returns what was removed.
        keep: Descriptors ``work`` needs.
        done: Called by the loop, with the result, when the child has ended.
    """

    def __init__(
        self, work: Callable[[], Usage], keep: set[int], done: Callable[[Usage], None]
    ) -> None:
        self._done = done
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        launcher = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _serve(work, theirs, keep, launcher)
        theirs.close()

    def finish(self) -> None:
        """Pass on the result. The child has ended."""
        try:
            message, _ = receive(self._sock)
            usage = Usage(message["bytes"], message["entries"], message["complete"])
        except (PeerClosed, ValueError):
            usage = Usage(0, 0, False)
        self._sock.close()
        self._done(usage)


def _serve(
    work: Callable[[], Usage], sock: socket.socket, keep: set[int], launcher: int
) -> NoReturn:
    try:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        close_except({*keep, sock.fileno()})
        if os.getppid() == launcher:
            send(sock, work()._asdict())
    finally:
        os._exit(0)
