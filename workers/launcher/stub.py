"""The process between launcher and worker, where a tree has to be owned.

Two kinds. ``init`` is PID 1 of a worker's PID namespace: when it ends the kernel
kills everything in there. ``tree`` is a subreaper outside the worker's Landlock
domain: it inherits every orphan, so it can kill until no child is left. Both hold
one socket to the launcher; end of file on it means "kill now", which covers the
launcher's own death.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
from typing import Any, NoReturn

from .fds import close_except
from .priority import prefer_this_process
from .protocol import PeerClosed, receive, send
from .sessions import SessionLimit
from .syscalls import prctl
from .tree import children_of, kill_below

__all__ = ["serve_stub"]

_PR_SET_DUMPABLE = 4


def _no_op(_number: int, _frame: object) -> None:
    """Exist, so that the signal writes to the wake-up descriptor."""


def describe_status(status: int) -> dict[str, Any]:
    """Return a wait status as ``code``, ``signal`` and ``core``."""
    if os.WIFSIGNALED(status):
        return {"code": None, "signal": os.WTERMSIG(status), "core": os.WCOREDUMP(status)}
    return {"code": os.WEXITSTATUS(status), "signal": None, "core": False}


class _Tree:
    """What this stub has reaped."""

    def __init__(self, worker: int) -> None:
        self.worker = worker
        self.status: int | None = None
        self.killed_extra = 0

    def reap(self) -> bool:
        """Reap all that ended; say whether any child is left."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return False
            if ended is None:
                return True
            if ended.si_pid == self.worker:
                # While it is unreaped, its number can mean no other group.
                self.kill_group()
            pid, status, _ = os.wait4(ended.si_pid, 0)
            if pid == self.worker:
                self.status = status
            elif self.status is not None and os.WIFSIGNALED(status):
                self.killed_extra += 1

    def kill_group(self) -> None:
        """Kill the worker's process group at one stroke: no fork in it can escape that."""
        if self.status is None:
            try:
                os.killpg(self.worker, signal.SIGKILL)
            except OSError:
                pass  # It has not made its session yet, or nothing is left in it.


def serve_stub(
    channel: socket.socket,
    worker: int,
    *,
    is_init: bool,
    listening: socket.socket | None = None,
    sessions: int = 0,
) -> NoReturn:
    """Own the worker's tree until it is gone, then report and exit.

    Args:
        channel: To the launcher. Nothing is read from it but its end.
        worker: The worker, a child of this process.
        is_init: This is PID 1 of the worker's namespace.
        listening: The worker sends on it what each ``setsid`` of the tree is asked on.
        sessions: How many sessions the tree may have, with ``listening``.
    """
    try:
        _serve(channel, worker, listening, is_init=is_init, sessions=sessions)
    except BaseException:  # nothing of the launcher may run in this process
        os._exit(70)
    os._exit(0)


def _serve(
    channel: socket.socket,
    worker: int,
    listening: socket.socket | None,
    *,
    is_init: bool,
    sessions: int,
) -> None:
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    own = {channel.fileno(), wake_read, wake_write}
    if listening is not None:
        own.add(listening.fileno())
    close_except(own)
    # It has the worker's uid, and nothing but this keeps a tool out of its /proc entries.
    prctl(_PR_SET_DUMPABLE, 0)
    if not is_init:
        prefer_this_process()
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _no_op)
    gc.disable()
    poller = select.poll()
    poller.register(channel.fileno(), select.POLLIN)
    poller.register(wake_read, select.POLLIN)
    if listening is not None:
        poller.register(listening.fileno(), select.POLLIN)
    limit: SessionLimit | None = None
    tree = _Tree(worker)
    tree.reap()  # What ended before the handler was there.
    killed = False
    while tree.status is None and not killed:
        for fd, events in poller.poll():
            if fd == wake_read:
                _drain(wake_read)
                tree.reap()
            elif listening is not None and fd == listening.fileno():
                poller.unregister(fd)
                limit = _take_limit(listening, sessions)
                listening.close()
                listening = None
                if limit is not None:
                    poller.register(limit.fd, select.POLLIN)
            elif limit is not None and fd == limit.fd:
                if events & select.POLLIN:
                    limit.answer()
                else:
                    poller.unregister(fd)  # nobody is left who could ask
            else:
                killed = True
    if is_init:
        # The kernel kills and reaps the rest when this process ends.
        tree.killed_extra = len([pid for pid in children_of(os.getpid()) if pid != worker])
    else:
        _sweep(tree, wake_read)
    if tree.status is not None:
        report = {**describe_status(tree.status), "killed_extra": tree.killed_extra}
        try:
            send(channel, {"exit": report})
        except (PeerClosed, OSError):
            pass  # The launcher is gone; so is everything here.


def _take_limit(listening: socket.socket, sessions: int) -> SessionLimit | None:
    """Take the worker's listener; ``None`` when it ended before it had one."""
    try:
        _, fds = receive(listening)
    except PeerClosed:
        return None
    return SessionLimit(fds[0], sessions)


def _drain(fd: int) -> None:
    try:
        os.read(fd, 512)
    except BlockingIOError:
        pass


def _sweep(tree: _Tree, wake_read: int) -> None:
    """Kill until no child is left. Ends only then, so the report is never early."""
    tree.kill_group()
    while tree.reap():
        kill_below(os.getpid())
        # A killed process takes a moment to become reapable.
        if tree.reap():
            select.select([wake_read], [], [], 0.005)
            _drain(wake_read)
