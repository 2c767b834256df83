"""Frames: a 4-byte big-endian body length, then the body.

``FrameReader`` takes the bytes of one pipe in any pieces and gives whole bodies. The length
is compared with the limit as soon as its four bytes are there: a worker cannot make the
supervisor hold more than the limit and one read.
"""

from __future__ import annotations

import struct

from ..errors import LocalWireError, RemoteWireError

__all__ = ["LENGTH_BYTES", "FrameReader", "frame", "violation"]

LENGTH_BYTES = 4
MAX_LENGTH = 2**32 - 1

_LENGTH = struct.Struct(">I")
_pack_length = _LENGTH.pack
_unpack_length = _LENGTH.unpack_from


def violation(message: str, *, offset: int | None = None) -> RemoteWireError:
    """Return the error for something that a worker must not send.

    Args:
        message: What was wrong.
        offset: Where the frame began, in bytes since the worker's first.
    """
    where = None if offset is None else f"frame at byte {offset} of the worker's replies"
    return RemoteWireError("protocol_violation", message, where=where)


def frame(body: bytes) -> bytes:
    """Return the body with its length in front.

    Raises:
        LocalWireError: The body is empty or longer than a length can say.
    """
    if not 0 < len(body) <= MAX_LENGTH:
        raise LocalWireError("frame_too_large", f"a frame of {len(body)} bytes cannot be sent")
    return _pack_length(len(body)) + body


class FrameReader:
    """Cuts a stream of bytes into frame bodies.

    Args:
        max_frame_bytes: Longest body accepted, in bytes.
    """

    __slots__ = ("_data", "_limit", "_offset", "_start")

    def __init__(self, max_frame_bytes: int) -> None:
        self._limit = max_frame_bytes
        self._data: bytes | bytearray = b""
        self._start = 0
        self._offset = 0

    @property
    def offset(self) -> int:
        """Where the next frame begins, in bytes since the first byte fed."""
        return self._offset

    @property
    def buffered_bytes(self) -> int:
        """Bytes fed and not given out."""
        return len(self._data) - self._start

    def feed(self, data: bytes) -> None:
        """Add bytes as they came."""
        held = self._data
        if self._start == len(held):
            # Usual: a read holds exactly one frame, and is never copied.
            self._data = data
            self._start = 0
            return
        if isinstance(held, bytes):
            held = bytearray(memoryview(held)[self._start :])
        elif self._start:
            del held[: self._start]
        self._start = 0
        held += data
        self._data = held

    def next_frame(self) -> memoryview | None:
        """Return the next whole body, or None until more bytes are fed.

        The view must be dropped before the next ``feed``.

        Raises:
            RemoteWireError: The length is 0 or beyond the limit.
        """
        data = self._data
        start = self._start
        size = len(data)
        if size - start < LENGTH_BYTES:
            return None
        (length,) = _unpack_length(data, start)
        if not 0 < length <= self._limit:
            what = "is empty" if length == 0 else f"has {length} bytes"
            raise violation(
                f"a frame {what}; 1 to {self._limit} bytes are allowed", offset=self._offset
            )
        end = start + LENGTH_BYTES + length
        if size < end:
            return None
        self._start = end
        self._offset += LENGTH_BYTES + length
        return memoryview(data)[start + LENGTH_BYTES : end]
