"""Standard input and output as a client's pipe, taken away from everything else.

From here on descriptor 0 is empty and 1 is standard error, so that nothing but this module
can read from or write to the client: no library, no stray ``print``, no child.

Pipes and sockets do not block. Anything else (a terminal, a file) is read and written in a
thread: the kernel can't tell when it is ready, or the flag would be shared with a shell.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import trio

__all__ = ["ClientGone", "Incoming", "Outgoing", "claimed_stdio", "wait_hangup"]

_READ_BYTES: Final = 256 * 1024
_GONE: Final = (errno.EPIPE, errno.ECONNRESET, errno.ENXIO, errno.EIO, errno.EBADF)


class ClientGone(Exception):
    """The client does not read any more."""


@contextmanager
def claimed_stdio() -> Iterator[tuple[int, int]]:
    """Yield descriptors for the client's input and output; 0 and 1 come back at the end."""
    sys.stdout.flush()
    incoming = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    outgoing = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.dup2(null, 0)
        try:
            os.dup2(2, 1)
        except OSError:
            os.dup2(null, 1)
        yield incoming, outgoing
    finally:
        os.dup2(incoming, 0)
        os.dup2(outgoing, 1)
        for fd in (null, incoming, outgoing):
            os.close(fd)


@contextmanager
def _pollable(fd: int, flags: int) -> Iterator[tuple[int, bool]]:
    """Yield a descriptor that does not block, and whether it is one."""
    kind = os.fstat(fd).st_mode
    if stat.S_ISFIFO(kind):
        # A description of its own: the flag must not reach those who share the pipe's.
        with suppress(OSError):
            own = os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                yield own, True
            finally:
                os.close(own)
            return
    if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        before = os.get_blocking(fd)
        os.set_blocking(fd, False)
        try:
            yield fd, True
        finally:
            os.set_blocking(fd, before)
        return
    yield fd, False


class Incoming:
    """What the client sends. ``open`` makes it."""

    def __init__(self, fd: int, *, polls: bool) -> None:
        self._fd = fd
        self._polls = polls

    @classmethod
    @contextmanager
    def open(cls, fd: int) -> Iterator[Incoming]:
        """Read from a descriptor, which stays open."""
        with _pollable(fd, os.O_RDONLY) as (own, polls):
            yield cls(own, polls=polls)

    async def receive(self) -> bytes:
        """Return some bytes; none at the end."""
        if not self._polls:
            await trio.lowlevel.checkpoint_if_cancelled()
            return await self._read_in_thread()
        while True:
            # A client mostly waits for an answer before it sends more: a read would fail.
            await trio.lowlevel.wait_readable(self._fd)
            try:
                return os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                continue
            except OSError as exc:
                if exc.errno in _GONE:
                    return b""
                raise

    async def _read_in_thread(self) -> bytes:
        try:
            return await trio.to_thread.run_sync(
                os.read, self._fd, _READ_BYTES, abandon_on_cancel=True
            )
        except OSError as exc:
            if exc.errno in _GONE:
                return b""
            raise


class Outgoing:
    """What the client is sent, message by message. ``open`` makes it; ``run`` must run.

    A message is written whole or not at all, whoever is cancelled meanwhile. While one waits
    for the client to read, those who send wait too, so no more is kept here than one message
    of each.
    """

    def __init__(self, fd: int, *, polls: bool) -> None:
        self._fd = fd
        self._polls = polls
        self._waiting: deque[memoryview] = deque()
        self._wake = trio.Event()
        self._drained = trio.Event()
        self._gone = False

    @classmethod
    @contextmanager
    def open(cls, fd: int) -> Iterator[Outgoing]:
        """Write to a descriptor, which stays open."""
        with _pollable(fd, os.O_WRONLY) as (own, polls):
            yield cls(own, polls=polls)

    async def send(self, data: bytes) -> None:
        """Send one message, ended by a line break. Cancelled, it is sent whole or not at all.

        Raises:
            ClientGone: Nobody reads it.
        """
        # No full checkpoint: whoever sends waits for something else before.
        await trio.lowlevel.checkpoint_if_cancelled()
        while self._waiting and not self._gone:
            await self._drained.wait()
        if self._gone:
            raise ClientGone
        view = memoryview(data)
        if self._polls:
            view = view[self._write(view) :]
        if view:
            self._waiting.append(view)
            self._drained = trio.Event()
            self._wake.set()

    def _write(self, view: memoryview) -> int:
        try:
            return os.write(self._fd, view)
        except BlockingIOError:
            return 0
        except OSError as exc:
            if exc.errno not in _GONE:
                raise
            self._end()
            raise ClientGone from None

    async def flush(self) -> None:
        """Return once everything is written.

        Raises:
            ClientGone: Nobody reads it.
        """
        while self._waiting and not self._gone:
            await self._drained.wait()
        if self._gone:
            raise ClientGone

    async def run(self) -> None:
        """Write what did not fit at once, until cancelled.

        Raises:
            ClientGone: Nobody reads it.
        """
        while True:
            while self._waiting:
                view = self._waiting[0]
                if self._polls:
                    await trio.lowlevel.wait_writable(self._fd)
                    written = self._write(view)
                else:
                    written = await trio.to_thread.run_sync(self._write, view)
                if written == len(view):
                    self._waiting.popleft()
                else:
                    self._waiting[0] = view[written:]
                if not self._waiting:
                    self._drained.set()
            await self._wake.wait()
            self._wake = trio.Event()

    def _end(self) -> None:
        self._gone = True
        self._waiting.clear()
        self._drained.set()

    @property
    def fd(self) -> int | None:
        """The descriptor, where a hang-up of it can be waited for."""
        return self._fd if self._polls else None


async def wait_hangup(fd: int | None) -> None:
    """Return once the other end of a pipe or socket is gone; never where that can't be told.

    For an end that is read from, that is before what was sent is read.
    """
    if fd is None:
        await trio.sleep_forever()
        return
    with select.epoll() as poller:
        poller.register(fd, 0)  # errors and hang-ups are told all the same
        await trio.lowlevel.wait_readable(poller.fileno())
