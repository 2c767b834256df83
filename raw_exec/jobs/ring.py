"""Recent output of a job, addressed by absolute byte cursors.

Rules
1. A cursor counts bytes from the job's first one, dropped ones included, so it keeps its
   meaning whatever is dropped meanwhile.
2. A page begins and ends between characters. The pages from one cursor to the next, joined,
   are the text of all their bytes; what was dropped in between is counted.
3. A byte that is not UTF-8 becomes U+FFFD. A character that is not complete yet waits for
   the next page, except at the end of a finished job.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass

from .failures import JobError

__all__ = ["MAX_PAGE_BYTES", "MIN_PAGE_BYTES", "RING_BYTES", "OutputRing", "Page"]

RING_BYTES = 1024 * 1024
MAX_PAGE_BYTES = 64 * 1024
MIN_PAGE_BYTES = 16
"""Room for any one character, escaped as JSON does it, so a page always goes on."""

_INVALID = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a job's output.

    Args:
        cursor: Where the text really begins.
        next_cursor: Where to go on.
        end: How many bytes the job has printed so far.
        dropped_bytes: Bytes from the cursor that was asked for on that are gone for good.
        text: The bytes from ``cursor`` to ``next_cursor``.
        is_utf8: ``False`` when bytes of it were replaced.
    """

    cursor: int
    next_cursor: int
    end: int
    dropped_bytes: int
    text: str
    is_utf8: bool


class OutputRing:
    """Keeps the last bytes of a stream.

    Args:
        max_bytes: How many.
    """

    def __init__(self, max_bytes: int = RING_BYTES) -> None:
        self._max = max_bytes
        self._kept = bytearray()
        self.end = 0
        """How many bytes there were so far."""

    @property
    def start(self) -> int:
        """Cursor of the oldest byte that is kept."""
        return self.end - min(len(self._kept), self._max)

    def append(self, data: bytes) -> None:
        """Take the next bytes."""
        self.end += len(data)
        self._kept += data
        if len(self._kept) > 2 * self._max:  # seldom, so that it costs little per byte
            del self._kept[: -self._max]

    def page(self, cursor: int, *, max_bytes: int, max_encoded_bytes: int, finished: bool) -> Page:
        """Return what follows a cursor.

        Args:
            cursor: From 0; one that is dropped means the oldest byte that is kept.
            max_bytes: Of output, at least ``MIN_PAGE_BYTES``.
            max_encoded_bytes: Of the text inside JSON, at least ``MIN_PAGE_BYTES``.
            finished: Nothing will follow.

        Raises:
            JobError: ``cursor_invalid``.
        """
        if cursor > self.end:
            raise JobError(
                "cursor_invalid",
                f"cursor {cursor} is beyond the {self.end} bytes printed so far",
                hint="use next_cursor of the page before, or 0",
            )
        begin = self._between_characters(max(cursor, self.start))
        data = self._bytes(begin, begin + max_bytes)
        final = finished and begin + len(data) == self.end
        text, _ = codecs.utf_8_decode(data, "surrogateescape", final)
        text = _fitting(text, max_encoded_bytes)
        size = len(text.encode("utf-8", "surrogateescape"))
        shown = _INVALID.sub("\ufffd", text)
        return Page(
            cursor=begin,
            next_cursor=begin + size,
            end=self.end,
            dropped_bytes=max(0, begin - cursor),
            text=shown,
            is_utf8=shown == text,
        )

    def _bytes(self, begin: int, end: int) -> bytes:
        offset = len(self._kept) - self.end
        return bytes(self._kept[begin + offset : end + offset])

    def _between_characters(self, begin: int) -> int:
        """Move a place in the middle of a character: back to its start, if that is kept."""
        for back in range(1, min(3, begin - self.start) + 1):
            lead = self._bytes(begin - back, begin - back + 1)[0]
            if lead & 0xC0 == 0x80:
                continue
            length = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
            if length > back and _is_character(self._bytes(begin - back, begin - back + length)):
                return begin - back
            return begin
        if begin == self.start > 0:
            # The rest of a character whose start was dropped.
            for byte in self._bytes(begin, begin + 3):
                if byte & 0xC0 != 0x80:
                    break
                begin += 1
        return begin


def _is_character(data: bytes) -> bool:
    try:
        return len(data.decode("utf-8")) == 1
    except UnicodeDecodeError:
        return False


def _encoded_size(text: str) -> int:
    encoded = json.dumps(_INVALID.sub("\ufffd", text), ensure_ascii=False)
    return len(encoded.encode("utf-8")) - 2


def _fitting(text: str, budget: int) -> str:
    """Return the longest beginning whose encoded size is at most ``budget``."""
    if _encoded_size(text) <= budget:
        return text
    low, high = 0, min(len(text), budget)
    while low < high:
        middle = (low + high + 1) // 2
        if _encoded_size(text[:middle]) <= budget:
            low = middle
        else:
            high = middle - 1
    return text[:low]
