"""What a server says beside the protocol: the end of its standard error, and stray lines.

Security: both are words of a program that is not trusted, and may hold a secret that it was
given. They are bounded, escaped, and cleared of such values before anyone sees them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, Final

import trio

from ..text import escape_text

__all__ = ["ErrorTail", "Secrets", "StrayLines"]

MAX_TAIL_BYTES: Final = 8192
_CHUNK_BYTES = 64 * 1024
_FLOOD_PAUSE_SECONDS = 0.002
"""After a full chunk, so that a server that never stops printing leaves the event loop alone."""
_MAX_STRAY = 3
_MAX_STRAY_CHARS = 120
_MAX_STRAY_BYTES = 4 * _MAX_STRAY_CHARS
_MIN_LITERAL_CHARS = 8
_MIN_SECRET_CHARS = 4


class Secrets:
    """Values that a server was given and nobody else is to see."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._longest_first: list[str] = []

    def add(self, name: str, value: str, *, literal: bool) -> None:
        """Remember a value under the name of its environment variable or header.

        Args:
            literal: It is written in the configuration. Short ones are words like ``true``.
        """
        if len(value) < (_MIN_LITERAL_CHARS if literal else _MIN_SECRET_CHARS):
            return
        # As it is, as it stands in JSON, and the lines of a key that is printed line by line.
        escaped = (json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
        lines = [line for line in value.splitlines() if len(line) >= _MIN_LITERAL_CHARS]
        for spelling in (value, *escaped, *lines):
            self._values.setdefault(spelling, name)
        self._longest_first = sorted(self._values, key=len, reverse=True)

    def clean(self, text: str) -> str:
        """Return the text without these values."""
        for value in self._longest_first:
            text = text.replace(value, f"[redacted {self._values[value]}]")
        return text

    def clean_cut(self, text: str, *, start: bool = False, end: bool = False) -> str:
        """Return a text that was cut, also without what is left of a value where it was.

        Args:
            start: Its beginning is missing.
            end: Its end is missing.
        """
        # Half a character may be left at a cut, which is none of a value's.
        text = text.lstrip("\ufffd") if start else text
        text = text.rstrip("\ufffd") if end else text
        marks = {value: f"[redacted {name}]" for value, name in self._values.items()}
        if start:
            size, value = max(((_overlap(value, text), value) for value in marks), default=(0, ""))
            text = marks[value] + text[size:] if size else text
        if end:
            size, value = max(((_overlap(text, value), value) for value in marks), default=(0, ""))
            text = text[: len(text) - size] + marks[value] if size else text
        return self.clean(text)

    def clean_data(self, data: Any) -> Any:
        """Return JSON data in whose texts these values are replaced."""
        if not self._values:
            return data
        if isinstance(data, str):
            return self.clean(data)
        if isinstance(data, dict):
            return {self.clean(key): self.clean_data(value) for key, value in data.items()}
        if isinstance(data, list):
            return [self.clean_data(item) for item in data]
        return data


def _overlap(head: str, tail: str) -> int:
    """Return how much of the end of ``head`` is the beginning of ``tail``, short of all of it."""
    longest = min(len(head), len(tail))
    sizes = range(longest, _MIN_SECRET_CHARS - 1, -1)
    return next((size for size in sizes if head.endswith(tail[:size])), 0)


class ErrorTail:
    """Keeps the end of a server's standard error, where a failure says why.

    Args:
        fd: Our non-blocking end; stays the caller's.
        cap: Bytes kept.
    """

    def __init__(self, fd: int, cap: int) -> None:
        self._fd = fd
        self._cap = min(cap, MAX_TAIL_BYTES)
        self._kept = bytearray()
        self._total = 0

    async def pump(self) -> None:
        """Read until nobody can write any more."""
        while True:
            await trio.lowlevel.wait_readable(self._fd)
            data = os.read(self._fd, _CHUNK_BYTES)
            if not data:
                return
            self._take(data)
            if len(data) == _CHUNK_BYTES:
                await trio.sleep(_FLOOD_PAUSE_SECONDS)

    def drain(self) -> None:
        """Take what a dead server left."""
        try:
            while data := os.read(self._fd, _CHUNK_BYTES):
                self._take(data)
        except BlockingIOError:
            pass  # somebody outside its tree still holds the other end

    def _take(self, data: bytes) -> None:
        self._total += len(data)
        self._kept += data
        del self._kept[: max(0, len(self._kept) - self._cap)]

    def bytes(self) -> bytes:
        """Return what is kept, as written."""
        return bytes(self._kept)

    def text(self, secrets: Secrets) -> str:
        """Return what is kept, safe to show."""
        if not self._kept:
            return ""
        missing = self._total - len(self._kept)
        kept = self._kept.decode("utf-8", "replace")
        text = escape_text(secrets.clean_cut(kept, start=missing > 0))
        return f"[{missing} earlier bytes not kept] …\n{text}" if missing else text


class StrayLines:
    """Counts lines on standard output that are not messages, and shows a few."""

    def __init__(self) -> None:
        self.count = 0
        self._shown: list[tuple[str, bool]] = []

    def add(self, line: bytes) -> None:
        """Note one line."""
        self.count += 1
        if len(self._shown) < _MAX_STRAY:
            cut = len(line) > _MAX_STRAY_BYTES
            text = line[:_MAX_STRAY_BYTES].decode("utf-8", "replace").strip()
            self._shown.append((text, cut))

    def describe(self, secrets: Secrets) -> str | None:
        """Return a warning, or ``None`` when there were none."""
        if not self.count:
            return None
        cleaned = (secrets.clean_cut(text, end=cut) for text, cut in self._shown)
        shown = ", ".join(repr(self._short(text)) for text in cleaned)
        return (
            f"{self.count} lines on its standard output were no messages and were skipped: "
            f"{shown}" + (", …" if self.count > len(self._shown) else "")
        )

    @staticmethod
    def _short(text: str) -> str:
        text = escape_text(text, keep_newlines=False)
        return text if len(text) <= _MAX_STRAY_CHARS else f"{text[: _MAX_STRAY_CHARS - 1]}…"


def last_line(text: str, max_chars: int = 300) -> str:
    """Return the last line with words in it, cut to a length."""
    lines: Iterable[str] = (line.strip() for line in reversed(text.splitlines()))
    found = next((line for line in lines if line), "")
    return found if len(found) <= max_chars else f"{found[: max_chars - 1]}…"
