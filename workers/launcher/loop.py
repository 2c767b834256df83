"""The launcher's event loop: one thread, one selector, no blocking wait.

What it owns it ends: when the control socket reaches end of file (the supervisor
closed it or died), every tree is killed and reaped and the scratch root emptied.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
from typing import Any

from .cgroup import CgroupRoot
from .control import Control
from .probe import Probe
from .protocol import VERSION
from .spawn import Spawn
from .spawns import Spawns
from .syscalls import prctl
from .usage import measure_usage
from .zygote import Zygote

__all__ = ["run"]

_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36


def _no_op(_number: int, _frame: object) -> None:
    """Exist, so that the signal writes to the wake-up descriptor."""


def _forget_inherited_signals() -> None:
    """Make every signal do its default: what is ignored here is ignored by every worker."""
    python_sets = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGKILL, signal.SIGSTOP)
    for number in signal.valid_signals():
        if number not in python_sets:
            try:
                signal.signal(number, signal.SIG_DFL)
            except OSError:
                continue  # Reserved by the C library.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def run(control_fd: int) -> None:
    """Serve the supervisor on ``control_fd`` until it is gone, then exit."""
    Launcher(socket.socket(fileno=control_fd)).serve()
    # Not an ordinary exit: there is nothing to flush, and it is faster.
    os._exit(0)


class Launcher:
    """The process: reads requests, wakes on deaths and timers, ends with its supervisor.

    Args:
        sock: The socket to the supervisor.
    """

    def __init__(self, sock: socket.socket) -> None:
        prctl(_PR_SET_DUMPABLE, 0)
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        try:
            os.setsid()
        except PermissionError:
            pass  # Already leads a session.
        self.selector = selectors.DefaultSelector()
        self.control = Control(sock, self.selector)
        self.probe = Probe()
        self.cgroups = CgroupRoot()
        self.spawns: Spawns | None = None
        self._told_to_end = False
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def serve(self) -> None:
        """Run until the supervisor is gone or SIGTERM asks for an orderly end."""
        _forget_inherited_signals()
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, _no_op)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self.selector.register(self._wake_read, selectors.EVENT_READ)
        while not (self.control.closed or self._told_to_end):
            timeout = self.spawns.timeout() if self.spawns is not None else None
            for key, events in self.selector.select(timeout):
                if key.data is self.control:
                    self.control.on_event(events, self._handle)
                elif isinstance(key.data, Spawn) and self.spawns is not None:
                    self.spawns.on_message(key.data, key.fileobj)
                else:
                    self._on_wake()
            if self.spawns is not None:
                self.spawns.tick()
        if self.spawns is not None:
            self.spawns.end_all(supervisor_gone=self.control.closed)

    def _on_wake(self) -> None:
        try:
            raised = os.read(self._wake_read, 512)
        except BlockingIOError:
            return
        if signal.SIGTERM in raised:
            self._told_to_end = True
        if self.spawns is not None:
            self.spawns.reap()

    def _handle(self, message: dict[str, Any], fds: list[int]) -> None:
        operation = message.get("op")
        spawns = self.spawns
        if operation == "hello":
            self._hello(message)
        elif spawns is None:
            self._error(f"{operation!r:.40} came before hello")
        elif operation == "spawn":
            spawns.start(message, fds)
        elif operation == "probe":
            found = self.probe.capabilities(self.cgroups, again=True)
            self.control.post({"op": "probe", "capabilities": found})
        else:
            spawn_id = str(message.get("id"))
            spawn = spawns.spawns.get(spawn_id)
            if operation == "kill":
                if spawn is not None:
                    spawns.kill(spawn)
            elif operation == "clean":
                spawns.clean(spawn_id, spawn)
            elif operation == "usage":
                self.control.post({"op": "usage", "id": spawn_id, **measure_usage(spawn)})
            else:
                self._error(f"unknown op {operation!r:.40}")

    def _error(self, text: str) -> None:
        self.control.post({"op": "error", "message": text})

    def _hello(self, message: dict[str, Any]) -> None:
        version, root = message.get("version"), message.get("scratch_root")
        if version != VERSION:
            self._error(f"version {version!r:.20} is not {VERSION}")
            return
        if self.spawns is not None:
            self._error("hello was said before")
            return
        try:
            if not isinstance(root, str) or not root.startswith("/"):
                raise ValueError(f"scratch_root is not an absolute path: {root!r:.80}")
            self.probe.simulate(message.get("simulate") or [])
            self.cgroups.open(enabled="no-cgroup" not in self.probe.absent)
            # Before anything is known that a worker's memory must not hold.
            zygote = Zygote(message.get("msgpack_dir"))
            found = self.probe.capabilities(self.cgroups)
            self.spawns = Spawns(
                self.control,
                self.selector,
                self.cgroups,
                zygote,
                root,
                found,
                message.get("remove_at_end"),
            )
        except (OSError, ValueError) as exc:
            self._error(f"hello failed: {exc}")
            return
        self.control.post(
            {"op": "hello", "version": VERSION, "pid": os.getpid(), "capabilities": found}
        )
