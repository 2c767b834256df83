r"""Reads a range of complete lines without reading more of the file than it must.

A line ends with ``\n``; what follows the last one is a line too, unless it is empty. A byte
order mark at the start of the file belongs to no line.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

__all__ = ["Lines", "NotRegular", "read_lines"]

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK_BYTES = 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class NotRegular(Exception):
    """The path names something else than a file with content.

    Args:
        code: ``is_directory`` or ``not_a_regular_file``.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Lines:
    """Complete lines of a file.

    Args:
        data: Their bytes.
        eof: Whether the file ends with them.
        cut: Whether the next line was left out for its bytes.
        bom: Whether a byte order mark is before them.
    """

    data: bytes
    eof: bool
    cut: bool
    bom: bool


def read_lines(path: str, start_line: int, max_lines: int | None, max_bytes: int) -> Lines:
    """Read complete lines from ``start_line`` on.

    Args:
        path: Absolute.
        start_line: From 1; after the end there are none.
        max_lines: How many at most.
        max_bytes: How many bytes at most.

    Raises:
        NotRegular: It is no regular file.
        OSError: The file system refused.
    """
    fd = os.open(path, _FLAGS)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            is_folder = stat.S_ISDIR(status.st_mode)
            raise NotRegular("is_directory" if is_folder else "not_a_regular_file")
        return _Reader(fd, status.st_size).read(start_line, max_lines, max_bytes)
    finally:
        os.close(fd)


class _Reader:
    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self._hint = min(size + 1, _CHUNK_BYTES)
        self._ended = False

    def _more(self, wanted: int = _CHUNK_BYTES) -> bytes:
        part = os.read(self._fd, max(1, min(wanted, self._hint)))
        self._ended = not part
        return part

    def read(self, start_line: int, max_lines: int | None, max_bytes: int) -> Lines:
        data = self._skip(start_line - 1) if start_line > 1 else self._more(max_bytes + 4)
        bom = start_line == 1 and data.startswith(_BOM)
        if bom:
            data = data[len(_BOM) :]
        newlines = 0 if max_lines is None else data.count(b"\n")
        parts = [data]
        size = len(data)
        while size <= max_bytes and (max_lines is None or newlines < max_lines):
            part = self._more(max_bytes - size + 1)
            if not part:
                break
            parts.append(part)
            size += len(part)
            newlines += 0 if max_lines is None else part.count(b"\n")
        data = b"".join(parts) if len(parts) > 1 else data
        more = False
        if max_lines is not None and newlines >= max_lines:
            end = _offset_of_line(data, max_lines)
            more = end < size
            data = data[:end]
        cut = len(data) > max_bytes
        if cut:
            data = data[: data.rfind(b"\n", 0, max_bytes) + 1]
        eof = not (cut or more) and (self._ended or not self._more(1))
        return Lines(data, eof, cut, bom)

    def _skip(self, lines: int) -> bytes:
        """Read over ``lines`` lines; return what was read of the next ones."""
        while data := self._more():
            found = data.count(b"\n")
            if found >= lines:
                return data[_offset_of_line(data, lines) :]
            lines -= found
        return b""


def _offset_of_line(data: bytes, lines: int) -> int:
    """Return where the line after the first ``lines`` lines begins; they are there."""
    at = 0
    for _ in range(lines):
        at = data.index(b"\n", at) + 1
    return at
