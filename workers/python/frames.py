"""Frames of the worker protocol over blocking pipes: 4-byte big-endian length, msgpack map.

The bytes come from the supervisor, which this side trusts; a broken frame is a bug and
ends the process. Contract: the worker protocol, fds 3 (requests), 4 (replies), 5 (control).
"""

from __future__ import annotations

import builtins
from os import _exit, read, write, writev

import msgpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

# Security: functions look builtins up in the dict that their module had when they were
# defined. With a copy, a plugin that replaces `builtins.len` changes nothing in here.
globals()["__builtins__"] = dict(vars(builtins))

__all__ = [
    "CONTROL_FD",
    "EXIT_PROTOCOL",
    "REPLIES_FD",
    "REQUESTS_FD",
    "FrameSource",
    "die",
    "pack",
    "send_packed",
    "unpack",
]

REQUESTS_FD = 3
REPLIES_FD = 4
CONTROL_FD = 5
EXIT_PROTOCOL = 70

MAX_REQUEST_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 64 * 1024

unpack = msgpack.unpackb
pack = msgpack.packb


def die(message: str) -> NoReturn:
    """Say what is wrong on the log and end the process, running nothing of the plugin."""
    try:
        write(2, f"worker: {message}\n".encode("utf-8", "replace"))
    finally:
        _exit(EXIT_PROTOCOL)


class FrameSource:
    """Messages read from one pipe, in order."""

    __slots__ = ("_fd", "_rest")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""

    def read_message(self) -> dict[str, Any] | None:
        """Block until one message is complete; None at the end of the pipe."""
        data = self._rest or read(self._fd, CHUNK_BYTES)
        while len(data) < 4:
            more = read(self._fd, CHUNK_BYTES)
            if not more:
                return None
            data += more
        end = 4 + int.from_bytes(data[:4], "big")
        if end == 4 or end > MAX_REQUEST_BYTES:
            die(f"a frame of {end - 4} bytes")
        if len(data) < end:
            data = self._read_rest(data, end)
            if len(data) < end:
                return None
        self._rest = data[end:]
        message = unpack(memoryview(data)[4:end])
        if type(message) is not dict:
            die("a frame is not a map")
        return message

    def _read_rest(self, data: bytes, end: int) -> bytes:
        parts = [data]
        missing = end - len(data)
        while missing > 0:
            part = read(self._fd, max(CHUNK_BYTES, missing))
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


def send_packed(*parts: bytes) -> None:
    """Write one whole frame to the replies pipe, or end the process when it is closed.

    Args:
        parts: Of the body, in order; a large one is not copied.
    """
    size = sum(map(len, parts))
    pieces = (size.to_bytes(4, "big"), *parts)
    try:
        count = writev(REPLIES_FD, pieces)
    except BlockingIOError:
        count = 0
    except OSError:
        _exit(0)
    if count < 4 + size:
        _write_rest(b"".join(pieces), count)


def _write_rest(frame: bytes, start: int) -> None:
    view = memoryview(frame)
    while start < len(frame):
        try:
            start += write(REPLIES_FD, view[start:])
        except BlockingIOError:
            # The plugin made the pipe non-blocking; wait as the pipe would have done.
            _wait_writable()
        except OSError:
            _exit(0)


def _wait_writable() -> None:
    from select import POLLOUT, poll

    waiter = poll()
    waiter.register(REPLIES_FD, POLLOUT)
    waiter.poll()
