"""What a plugin prints: captured, capped, labelled, escaped; never protocol."""

from __future__ import annotations

import os
from dataclasses import dataclass

import trio

from ..text import escape_text

__all__ = ["LogCapture", "LogText"]

_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class LogText:
    """The kept part of one stream.

    Args:
        text: Decoded and escaped for a terminal, one plugin line per line.
        bytes: What the plugin wrote in all.
        truncated: Whether something was left out.
    """

    text: str
    bytes: int
    truncated: bool


_NOTHING = LogText("", 0, truncated=False)


class LogCapture:
    """Keeps the first ``cap`` bytes of one pipe and counts the rest.

    The first bytes are kept, not the last: an attacker could otherwise push the
    cause of a failure out of the window.

    Args:
        fd: Our non-blocking end; owned from here on.
        cap: Bytes kept between two calls of ``take``.
    """

    def __init__(self, fd: int, cap: int) -> None:
        self._fd = fd
        self._cap = cap
        self._kept = bytearray()
        self.total = 0
        self._eof = False

    @property
    def fd(self) -> int:
        """The descriptor, or -1 once closed."""
        return self._fd

    @property
    def at_eof(self) -> bool:
        """Whether every writer is gone."""
        return self._eof

    def drain(self, *, max_chunks: int = 64) -> None:
        """Read what is there now, without waiting.

        Args:
            max_chunks: A writer that never stops must not keep us here.
        """
        if self._fd < 0 or self._eof:
            return
        for _ in range(max_chunks):
            try:
                data = os.read(self._fd, _CHUNK_BYTES)
            except BlockingIOError:
                return
            except OSError:
                self._eof = True
                return
            if not data:
                self._eof = True
                return
            self.total += len(data)
            room = self._cap - len(self._kept)
            if room > 0:
                self._kept += data[:room]

    def peek(self) -> bytes:
        """Return the kept bytes as written."""
        return bytes(self._kept)

    def take(self) -> LogText:
        """Return what was kept since the last call and start afresh."""
        if not self.total:
            return _NOTHING
        kept, total = bytes(self._kept), self.total
        self._kept.clear()
        self.total = 0
        if not kept:
            return LogText("", total, truncated=False)
        text = escape_text(kept.decode("utf-8", "backslashreplace"))
        missing = total - len(kept)
        if missing > 0:
            text += f"\n… [{missing} more bytes not kept]"
        return LogText(text, total, truncated=missing > 0)

    def close(self) -> None:
        """Close our end; a task that waits for it is woken."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)
