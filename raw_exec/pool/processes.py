"""Waiting for the end of processes."""

from __future__ import annotations

import os
import subprocess

import trio

__all__ = ["reap", "wait_dead"]

_STOP_SECONDS = 5.0


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
