"""Bytes of a stream to its lines, with a limit for what is kept of one. Pure."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["LineTooLong", "Lines"]


class LineTooLong(ValueError):
    """A line had more bytes than the limit; none of them is kept."""


class Lines:
    """Splits what arrives into lines.

    A line over the limit is read to its end without being kept, and then told of, so that
    the lines after it are read as usual.

    Args:
        limit: Bytes of one line, without its end.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._dropping = False

    def feed(self, data: bytes) -> Iterator[bytes | LineTooLong]:
        """Take bytes; yield the lines that are complete now, without their ends."""
        start = 0
        while True:
            end = data.find(b"\n", start)
            if end < 0:
                self._keep(data[start:])
                return
            self._keep(data[start:end])
            yield self._take()
            start = end + 1

    @property
    def has_rest(self) -> bool:
        """Whether a line has begun that has no end yet."""
        return self._size > 0 or self._dropping

    def _keep(self, part: bytes) -> None:
        if not part or self._dropping:
            return
        self._size += len(part)
        if self._size > self._limit:
            self._dropping = True
            self._parts.clear()
        else:
            self._parts.append(part)

    def _take(self) -> bytes | LineTooLong:
        dropped = self._dropping
        line = b"".join(self._parts)
        self._parts.clear()
        self._size, self._dropping = 0, False
        if dropped:
            return LineTooLong(f"a line has more than {self._limit} bytes")
        return line[:-1] if line.endswith(b"\r") else line
