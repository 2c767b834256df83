"""One command: its process group, its output, its end, and what it left running.

Rules
1. The end of a command is the end of its shell, seen through a pidfd; never the end of a
   pipe, which a process in the background could keep open.
2. Timeout and abort: SIGTERM to the group, a grace period, SIGKILL.
3. This process is a subreaper, so whatever a command leaves behind, in another session too,
   becomes its child. It gets a moment to finish by itself, then SIGTERM, then SIGKILL.
4. What still lives after that is a child of this worker, for which the pool ends the worker
   and with it the whole tree.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import threading
from dataclasses import dataclass
from subprocess import Popen
from time import monotonic
from typing import Any

from .output import Capture, Output

__all__ = ["Ended", "Waker", "become_subreaper", "find_shell", "run_command"]

GRACE_SECONDS = 0.2
"""Between SIGTERM and SIGKILL; shorter than the grace that the host gives this handler."""
SETTLE_SECONDS = 0.1
"""For what ends by itself, such as the ``tee`` of ``> >(tee log)``."""
SWEEP_SECONDS = 2.0

_PR_SET_CHILD_SUBREAPER = 36
_CHUNK_BYTES = 64 * 1024
_DRAIN_BYTES = 4 * 1024 * 1024
_LOOK_SECONDS = 0.01


def become_subreaper() -> None:
    """Have orphans below this process become its children.

    Raises:
        OSError: The kernel refuses.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "PR_SET_CHILD_SUBREAPER")


def find_shell() -> str:
    """Return the shell's absolute path."""
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


class Waker:
    """A descriptor that is readable once the call is aborted.

    Args:
        signal: ``context.signal``.
    """

    def __init__(self, signal: Any) -> None:
        self._signal = signal
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._lock = threading.Lock()
        signal.add_callback(self._wake)

    @property
    def aborted(self) -> bool:
        """Whether the call was aborted."""
        return bool(self._signal.aborted)

    def _wake(self) -> None:
        # Race: an abort may come when the call is over and the number belongs to another.
        with self._lock:
            if self.fd >= 0:
                os.eventfd_write(self.fd, 1)

    def close(self) -> None:
        """Give the descriptor back."""
        with self._lock:
            fd, self.fd = self.fd, -1
        os.close(fd)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Args:
        stdout: What was kept of it.
        stderr: The same.
        exit_code: Status of the shell, when it exited.
        signal: Name of the signal that ended it.
        cause: ``"exit"``, ``"timeout"`` or ``"abort"``.
        ended_background: Processes that it left running and that were ended.
        elapsed_ms: From its start to its end.
    """

    stdout: Output
    stderr: Output
    exit_code: int | None
    signal: str | None
    cause: str
    ended_background: int
    elapsed_ms: int


def run_command(
    argv: list[str],
    *,
    env: dict[str, str],
    cwd: str,
    timeout_seconds: float,
    capture_bytes: int,
    waker: Waker,
) -> Ended:
    """Run a program in a session of its own until it ends, its time is over, or an abort.

    Args:
        argv: Absolute program and its arguments.
        env: Its whole environment.
        capture_bytes: What to keep of the beginning, and of the end, of each stream.

    Raises:
        OSError: It can't be started, or was ended at once since it can't be watched.
    """
    started = monotonic()
    process, readers = _start(argv, env, cwd)
    try:
        run = _Running(process, readers, capture_bytes, waker)
    except BaseException:
        # Nobody can watch it, so nobody may be told that it runs.
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
        for fd in readers:
            os.close(fd)
        raise
    try:
        cause = run.wait(started + timeout_seconds)
        if cause != "exit":
            run.end()
        left = run.end_leftovers()
        run.drain()
    finally:
        run.close()
    status = process.wait()
    return Ended(
        stdout=run.captures[0].output(),
        stderr=run.captures[1].output(),
        exit_code=status if status >= 0 else None,
        signal=_signal_name(-status) if status < 0 else None,
        cause=cause,
        ended_background=left,
        elapsed_ms=int((monotonic() - started) * 1000),
    )


def _start(argv: list[str], env: dict[str, str], cwd: str) -> tuple[Popen[bytes], list[int]]:
    theirs = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)]
    readers: list[int] = []
    try:
        for _ in range(2):
            reader, writer = os.pipe2(os.O_CLOEXEC)
            readers.append(reader)
            theirs.append(writer)
            os.set_blocking(reader, False)
        process = Popen(
            argv,
            stdin=theirs[0],
            stdout=theirs[1],
            stderr=theirs[2],
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    except BaseException:
        for fd in readers:
            os.close(fd)
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    return process, readers


class _Running:
    """A started command."""

    def __init__(
        self, process: Popen[bytes], readers: list[int], capture_bytes: int, waker: Waker
    ) -> None:
        self._process = process
        self._pid = process.pid
        self._waker = waker
        self.captures = [Capture(capture_bytes) for _ in readers]
        self._open = dict(zip(readers, self.captures, strict=True))
        # The process is not reaped yet, so the number is still its own.
        self._pidfd = os.pidfd_open(process.pid)
        self._poller = select.poll()
        for fd in (*readers, self._pidfd, waker.fd):
            self._poller.register(fd, select.POLLIN)

    def wait(self, deadline: float | None, *, heed_abort: bool = True) -> str:
        """Read output until the shell ends, the deadline, or an abort; say which."""
        while True:
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                return "timeout"
            ready = {fd for fd, _ in self._poller.poll(None if left is None else left * 1000 + 1)}
            for fd in ready & self._open.keys():
                self._read(fd)
            if self._pidfd in ready:
                return "exit"
            if heed_abort and self._waker.fd in ready:
                return "abort"
            if self._waker.fd in ready:
                self._poller.unregister(self._waker.fd)

    def end(self) -> None:
        """End the process group: SIGTERM, the grace period, SIGKILL."""
        self._signal_group(signal.SIGTERM)
        if self.wait(monotonic() + GRACE_SECONDS, heed_abort=False) != "exit":
            self._signal_group(signal.SIGKILL)
            self.wait(None, heed_abort=False)

    def end_leftovers(self) -> int:
        """End what the shell, which has ended, left running; return how many there were."""
        left = self._leftovers()
        if left is None:
            self._signal_group(signal.SIGKILL)
            return 0
        left = self._await_leftovers(SETTLE_SECONDS)
        count = len(left)
        if left:
            self._signal_all(left, signal.SIGTERM)
            left = self._await_leftovers(GRACE_SECONDS)
        give_up = monotonic() + SWEEP_SECONDS
        while left and monotonic() < give_up:
            self._signal_all(left, signal.SIGKILL)
            left = self._await_leftovers(_LOOK_SECONDS)
        return count

    def drain(self) -> None:
        """Take what is left in the pipes, without waiting."""
        for fd in list(self._open):
            taken = 0
            while taken < _DRAIN_BYTES and (got := self._read(fd)):
                taken += got

    def close(self) -> None:
        """Close every descriptor; end the shell if it still runs, and reap it."""
        if self._process.poll() is None:
            self._signal_group(signal.SIGKILL)
            self._process.wait()
        for fd in (*self._open, self._pidfd):
            os.close(fd)
        self._open.clear()

    def _read(self, fd: int) -> int:
        """Read once; return how many bytes there were."""
        try:
            data = os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            self._poller.unregister(fd)
            del self._open[fd]
            os.close(fd)
        else:
            self._open[fd].add(data)
        return len(data)

    def _signal_group(self, number: int) -> None:
        # The shell is not reaped before ``close``, so its number still names its group.
        _signal_group(self._pid, number)

    def _signal_all(self, pids: list[int], number: int) -> None:
        self._signal_group(number)
        for pid in pids:
            try:
                os.kill(pid, number)  # a child of ours that is not reaped: no stranger
            except ProcessLookupError:
                pass

    def _await_leftovers(self, seconds: float) -> list[int]:
        """Wait until nothing is left running, reading output; return what still is."""
        deadline = monotonic() + seconds
        while left := self._leftovers() or []:
            if monotonic() >= deadline:
                return left
            for fd in list(self._open):
                self._read(fd)
            select.poll().poll(_LOOK_SECONDS * 1000)
        return []

    def _leftovers(self) -> list[int] | None:
        """Reap what ended; return the children that run, or ``None`` when nobody can tell."""
        try:
            threads = os.listdir("/proc/self/task")
        except OSError:
            return None
        left: list[int] = []
        for thread in threads:
            try:
                with open(f"/proc/self/task/{thread}/children", "rb") as listing:
                    pids = [int(word) for word in listing.read().split()]
            except FileNotFoundError:
                continue  # a thread that ended meanwhile
            except OSError:
                return None
            left += [pid for pid in pids if pid != self._pid and not _reap(pid)]
        return left


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in it


def _reap(pid: int) -> bool:
    """Reap a child if it has ended; say whether it is gone."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
