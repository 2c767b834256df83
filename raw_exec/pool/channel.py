"""The three pipes between the supervisor and one worker.

Plain pipes, since a straight pipe beats a socket pair by 25-40 µs a message. Our ends
are non-blocking; the worker's ends are blocking, as file status belongs to each end.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import trio

__all__ = ["Channel", "ChannelClosed", "open_pipes", "poller"]

_READ_BYTES = 256 * 1024
_PIPE_BYTES = 64 * 1024
_BIG_PIPE_BYTES = 1024 * 1024


class ChannelClosed(Exception):
    """The worker's end of a pipe is gone: it ended, or closed it and goes on."""


class Channel:
    """Requests and control to a worker, replies from it.

    Args:
        requests: Our write end of the worker's descriptor 3.
        replies: Our read end of its descriptor 4.
        control: Our write end of its descriptor 5.
    """

    def __init__(self, requests: int, replies: int, control: int) -> None:
        self._requests = requests
        self._replies = replies
        self._control = control
        self._grown = False

    async def send(self, data: bytes | memoryview) -> None:
        """Write a request frame, or the rest of one.

        Raises:
            ChannelClosed: Nobody can read it any more.
        """
        if len(data) > _PIPE_BYTES:
            self._grow()
        await self._write(self._requests, data)

    async def send_control(self, data: bytes) -> None:
        """Write a control frame.

        Raises:
            ChannelClosed: Nobody can read it any more.
        """
        await self._write(self._control, data)

    def receive_nowait(self) -> bytes:
        """Return what the worker sent; nothing when there is nothing, or at the end."""
        try:
            return os.read(self._replies, _READ_BYTES)
        except BlockingIOError:
            return b""

    async def receive(self) -> bytes:
        """Return what the worker sent, at least one byte.

        Raises:
            ChannelClosed: It can't send any more.
        """
        # Waiting for readability first costs about 60 µs more than a read that succeeds.
        await trio.lowlevel.checkpoint()
        while True:
            try:
                data = os.read(self._replies, _READ_BYTES)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._replies)
                continue
            if not data:
                raise ChannelClosed
            if len(data) >= _PIPE_BYTES:
                self._grow()
            return data

    @property
    def replies(self) -> int:
        """Our read end, for a poller."""
        return self._replies

    def send_nowait(self, data: bytes) -> bytes | memoryview:
        """Write what fits of a request frame; return what is left of it.

        Raises:
            ChannelClosed: Nobody can read it any more.
        """
        try:
            sent = os.write(self._requests, data)
        except BlockingIOError:
            return data
        except BrokenPipeError:
            raise ChannelClosed from None
        return b"" if sent == len(data) else memoryview(data)[sent:]

    def unread_bytes(self) -> int:
        """Return how much of what was sent the worker has not read."""
        count = bytearray(4)
        fcntl.ioctl(self._requests, termios.FIONREAD, count)
        return int.from_bytes(count, sys.byteorder)

    def close(self) -> None:
        """Close our ends; a task that waits for one is woken."""
        for name in ("_requests", "_replies", "_control"):
            fd = getattr(self, name)
            setattr(self, name, -1)
            if fd >= 0:
                trio.lowlevel.notify_closing(fd)
                os.close(fd)

    async def _write(self, fd: int, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while True:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                raise ChannelClosed from None
            if not view:
                return
            await trio.lowlevel.wait_writable(fd)

    def _grow(self) -> None:
        """Enlarge the pipes once a message shows that it pays."""
        if self._grown:
            return
        self._grown = True
        for fd in (self._requests, self._replies):
            try:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _BIG_PIPE_BYTES)
            except OSError as exc:
                # An ordinary user has a quota of pipe memory; small pipes only cost time.
                if exc.errno not in (errno.EPERM, errno.EBUSY, errno.ENOMEM):
                    raise


@contextmanager
def open_pipes() -> Iterator[tuple[dict[int, int], list[int]]]:
    """Make the pipes of a worker, to be given to its spawn inside the block.

    Yields:
        Its descriptors by number, closed after the block, and ours in the order log, error
        log, requests, replies, control: non-blocking, and closed only if the block raises.

    Raises:
        OSError: No more descriptors can be had; none of these stays open.
    """
    theirs: dict[int, int] = {}
    ours: list[int] = []
    try:
        theirs[0] = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        for target, we_read in ((1, True), (2, True), (3, False), (4, True), (5, False)):
            reader, writer = os.pipe2(os.O_CLOEXEC)
            theirs[target], mine = (writer, reader) if we_read else (reader, writer)
            ours.append(mine)
            os.set_blocking(mine, False)
        yield theirs, ours
    except BaseException:
        for fd in ours:
            os.close(fd)
        raise
    finally:
        for fd in theirs.values():
            os.close(fd)


def poller(*fds: int) -> select.poll:
    """Return what tells which descriptors can be read; those that are -1 are left out."""
    found = select.poll()
    for fd in fds:
        if fd >= 0:  # the process may have ended by now
            found.register(fd, select.POLLIN)
    return found
