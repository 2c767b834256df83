"""The process Python workers are forked from.

It is forked from the launcher before the first spawn is known and never sees one:
each child reads its own request from a socket the launcher shares with it alone.
So no worker's memory holds another worker's environment or arguments. The Python
worker's modules are imported once, and a fork is warm.

A child is forked twice, so that it becomes the launcher's own child (the launcher
is a subreaper) and is reaped and killed like all the others.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import socket
import sys
import time
from types import ModuleType
from typing import NoReturn

from .child import Report, run_child
from .fds import close_except
from .protocol import PeerClosed, receive, send
from .request import decode_request
from .steps import StepFailed
from .syscalls import LIBC, prctl

__all__ = ["Zygote", "load_python_worker", "serve_anew"]

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 4 << 20
_MAX_DEATHS = 5
_DEATHS_SECONDS = 60.0
"""One that dies so often in that time is a fault of the host; it is tried again later."""


def load_python_worker(msgpack_dir: str | None) -> ModuleType | None:
    """Import the Python worker beside the launcher, and msgpack for its use.

    Args:
        msgpack_dir: Directory that holds the ``msgpack`` package.

    Returns:
        The module with ``serve()``, or ``None`` when this installation has none.
    """
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "python")
    path = os.path.join(folder, "main.py")
    if not os.path.isfile(path):
        return None
    if msgpack_dir is not None:
        # Imported by name only: the directory may hold any other package as well,
        # and a worker must not find them.
        sys.path.insert(0, msgpack_dir)
        importlib.import_module("msgpack")
        sys.path.remove(msgpack_dir)
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location("raw_exec_python_worker", path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.path.remove(folder)
    return module


class Zygote:
    """The zygote as the launcher sees it.

    Security: one that dies is replaced by a program of its own, not by a fork: by then
    the launcher's memory holds what other spawns were sent.

    Args:
        msgpack_dir: Directory that holds the ``msgpack`` package.
    """

    def __init__(self, msgpack_dir: str | None) -> None:
        self.pid: int | None = None
        self._sock: socket.socket | None = None
        self._missing = "no Python worker is installed beside the launcher"
        self._msgpack_dir = msgpack_dir
        self._deaths: list[float] = []
        try:
            module = load_python_worker(msgpack_dir)
        except Exception as exc:  # reported with each spawn that needs it
            self._missing = f"the Python worker cannot be loaded: {type(exc).__name__}: {exc}"
            return
        if module is not None:
            self.pid, self._sock = _start(module)

    @property
    def pids(self) -> list[int]:
        """Its process id, in a list that is empty when it is not running."""
        return [] if self.pid is None else [self.pid]

    def check(self) -> None:
        """Raise ``StepFailed`` when no Python worker can be forked."""
        if self._sock is None and self._deaths:
            since = time.monotonic() - _DEATHS_SECONDS
            self._deaths = [when for when in self._deaths if when > since]
            if len(self._deaths) <= _MAX_DEATHS:
                self.pid, self._sock = _start_anew(self._msgpack_dir)
        if self._sock is None:
            raise StepFailed("python", 0, self._missing)

    def fork(self, report: socket.socket) -> None:
        """Ask for a child that reads its request from ``report``."""
        self.check()
        assert self._sock is not None  # noqa: S101 - by check()
        try:
            send(self._sock, {}, (report.fileno(),))
        except PeerClosed as exc:
            raise StepFailed("setup", 0, "the process workers are forked from ended") from exc

    def on_death(self) -> None:
        """Note that it ended."""
        if self._sock is not None:
            self._sock.close()
        self.pid = self._sock = None
        self._deaths.append(time.monotonic())
        self._missing = (
            f"the process that Python workers are forked from ended {len(self._deaths)} times "
            f"within {_DEATHS_SECONDS:g} s; it is tried again later"
        )

    def kill(self) -> None:
        """Kill it; the launcher reaps it like any child."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)


def _start(module: ModuleType) -> tuple[int, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            close_except({theirs.fileno(), 0, 1, 2})
            ours.detach()
            _serve(theirs, module, launcher)
        finally:
            os._exit(0)
    theirs.close()
    return pid, ours


def _start_anew(msgpack_dir: str | None) -> tuple[int, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    launcher = os.getpid()
    main = os.path.join(os.path.dirname(os.path.realpath(__file__)), "main.py")
    pid = os.fork()
    if pid == 0:
        try:
            number = theirs.fileno()
            close_except({number, 0, 1, 2})
            os.set_inheritable(number, True)
            argv = [sys.executable, "-I", "-S", "-E", main, "--zygote", str(number)]
            os.execve(  # noqa: S606 - this interpreter, to get rid of this memory
                sys.executable, [*argv, str(launcher), msgpack_dir or ""], {}
            )
        finally:
            os._exit(127)
    theirs.close()
    return pid, ours


def serve_anew(number: int, launcher: int, msgpack_dir: str) -> NoReturn:
    """Be the zygote, in a program started for it (see ``main.py``)."""
    module = load_python_worker(msgpack_dir or None)
    if module is not None:
        _serve(socket.socket(fileno=number), module, launcher)
    os._exit(0)


def _serve(sock: socket.socket, module: ModuleType, launcher: int) -> None:
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:
        return
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The link in a virtual environment does not exist in a worker's file system.
    sys.executable = os.path.realpath(sys.executable)
    _keep_freed_memory()
    gc.collect()
    gc.disable()
    gc.freeze()
    while True:
        try:
            _, fds = receive(sock)
        except PeerClosed:
            return
        middle = os.fork()
        if middle == 0:
            _fork_worker(fds[0], sock, module, launcher)
        for fd in fds:
            os.close(fd)
        os.waitpid(middle, 0)


def _keep_freed_memory() -> None:
    """Let workers keep a few MiB that they freed, for their next call.

    Otherwise a result of 1 MiB is built in pages that the kernel clears anew for each call,
    which is a seventh of the call's time.
    """
    if hasattr(LIBC, "mallopt"):  # not in every C library
        LIBC.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        LIBC.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)


def _fork_worker(number: int, sock: socket.socket, module: ModuleType, launcher: int) -> NoReturn:
    try:
        middle = os.getpid()
        if os.fork() == 0:
            sock.close()
            report = socket.socket(fileno=number)
            while os.getppid() == middle:
                # It ends within microseconds.
                time.sleep(0.0001)
            if os.getppid() != launcher:
                os._exit(0)  # nobody is left to confine this, or to end it
            send(report, {"pid": os.getpid()})
            raw, fds = receive(report)
            request = decode_request(raw["request"])
            channel = socket.socket(fileno=fds.pop()) if request.stub != "none" else None
            run_child(request, fds, Report(report), channel, module)
    finally:
        os._exit(0)
