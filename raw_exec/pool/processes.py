"""Starting the launcher's process, and waiting for the end of processes."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import trio

from .._resources import workers_dir
from ..private_root import remove_tree

__all__ = ["LauncherProcess", "reap", "start_launcher", "wait_dead"]

_STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class LauncherProcess:
    """A launcher that has just been started.

    Args:
        process: It leads a session of its own.
        sock: Our end of its control socket, non-blocking.
        stderr_fd: Where its standard error can be read, non-blocking.
        scratch_root: The directory for the private directories of what it starts.
    """

    process: subprocess.Popen[bytes]
    sock: socket.socket
    stderr_fd: int
    scratch_root: str


def start_launcher(scratch_parent: Path) -> LauncherProcess:
    """Start a launcher.

    Blocks for a few milliseconds: a thread would be forked from otherwise, and the
    launcher's parent-death signal would follow that thread.

    Raises:
        OSError: It can't be started; nothing is left of it.
    """
    with contextlib.ExitStack() as opened:
        scratch_root = tempfile.mkdtemp(prefix="scratch-", dir=scratch_parent)
        opened.callback(remove_tree, Path(scratch_root))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        opened.callback(ours.close)
        ours.setblocking(False)
        with theirs:
            stderr_read, stderr_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            opened.callback(os.close, stderr_read)
            try:
                os.set_blocking(stderr_write, True)
                process = _execute(theirs.fileno(), stderr_write)
            finally:
                os.close(stderr_write)
        opened.pop_all()
    return LauncherProcess(process, ours, stderr_read, scratch_root)


def _execute(control: int, stderr: int) -> subprocess.Popen[bytes]:
    program = str(workers_dir() / "launcher" / "main.py")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-E", program, str(control)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=(control,),
        # Security: a forked Python worker shows this in /proc/self/environ.
        env={},
        cwd="/",
        start_new_session=True,
    )


async def wait_dead(pidfd: int) -> None:
    """Wait until the process is gone, or can be reaped by its parent."""
    # A worker's own exchange may be waiting on the same descriptor.
    copy = os.dup(pidfd)
    try:
        await trio.lowlevel.wait_readable(copy)
    finally:
        os.close(copy)


async def reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for a child, kill it when it takes too long, and reap it."""
    # Race: ``Popen.kill`` looks first, and reaps a process that has ended by then.
    if process.poll() is not None:
        return
    pidfd = os.pidfd_open(process.pid)
    try:
        with trio.move_on_after(_STOP_SECONDS) as scope:
            await trio.lowlevel.wait_readable(pidfd)
        if scope.cancelled_caught:
            process.kill()
            await trio.lowlevel.wait_readable(pidfd)
    finally:
        os.close(pidfd)
    process.wait()
