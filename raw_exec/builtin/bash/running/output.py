"""Output of commands: kept within bounds, shared fairly, cut between characters.

Rules
1. Of each stream the beginning and the end are kept, never more than twice the call's whole
   budget. A cut is marked at its place, with the number of bytes that are missing there.
2. Sizes are those of the encoded JSON, since that is what the host counts.
3. A budget is shared so that nobody gets less than an equal part unless he wants less: a
   noisy stream gets what the others leave, and can't hide them.
4. Bytes that are not UTF-8 become U+FFFD, one for each byte.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "MARK_BYTES",
    "Capture",
    "Output",
    "Shown",
    "encoded_size",
    "is_utf8",
    "share_budget",
    "show",
    "trim",
    "wanted_size",
]

MARK_BYTES = len("\\n… [ bytes omitted] …\\n".encode()) + 20
"""Encoded size of the longest mark."""

_BLOCK_CHARS = 4096
_INVALID = re.compile("[\udc80-\udcff]")
"""What ``surrogateescape`` makes of a byte that is not UTF-8."""


@dataclass(frozen=True, slots=True)
class Output:
    """What was kept of one stream.

    Args:
        head: Its first bytes.
        tail: Its last bytes, which follow ``head`` at once when ``omitted`` is 0.
        total: How many bytes it had.
    """

    head: bytes = b""
    tail: bytes = b""
    total: int = 0

    @property
    def omitted(self) -> int:
        """Bytes between head and tail that were not kept."""
        return self.total - len(self.head) - len(self.tail)


@dataclass(frozen=True, slots=True)
class Shown:
    """Text for a row.

    Args:
        text: With a mark where bytes are missing.
        omitted: How many are missing.
    """

    text: str
    omitted: int


class Capture:
    """Collects one stream.

    Args:
        max_bytes: How much to keep of its beginning, and of its end; at least 1.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._total += len(data)
        room = self._max - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(0, room) :]
        if len(self._tail) > 2 * self._max:  # seldom, so that it costs little per byte
            del self._tail[: -self._max]

    def output(self) -> Output:
        """Return what is kept now."""
        tail = bytes(self._tail[-self._max :])
        return Output(bytes(self._head), tail, self._total)


def trim(output: Output, max_bytes: int) -> Output:
    """Return the output with at most ``max_bytes`` of its beginning and of its end."""
    if len(output.head) <= max_bytes and len(output.tail) <= max_bytes:
        return output
    body = output.head if output.omitted else output.head + output.tail
    end = output.tail if output.omitted else body[max_bytes:]
    return Output(body[:max_bytes], end[-max_bytes:] if max_bytes else b"", output.total)


def encoded_size(text: str) -> int:
    """Return the size of a text inside JSON, without its quotes."""
    encoded = json.dumps(_INVALID.sub("\ufffd", text), ensure_ascii=False)
    return len(encoded.encode("utf-8")) - 2


def is_utf8(output: Output) -> bool:
    """Say whether what was kept is UTF-8, characters at a cut apart."""
    return not any(_INVALID.search(part) for part in _texts(output))


def wanted_size(output: Output, at_most: int) -> int:
    """Return the encoded size of the whole output; ``at_most`` when it is larger or was cut."""
    if output.omitted:
        return at_most
    return min(at_most, encoded_size(_texts(output)[0]))


def share_budget(wanted: Sequence[int], budget: int) -> list[int]:
    """Share ``budget`` among takers: equal parts, and what some leave goes to the others."""
    shares = [0] * len(wanted)
    takers = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for done, index in enumerate(takers):
        shares[index] = min(wanted[index], budget // (len(takers) - done))
        budget -= shares[index]
    return shares


def show(output: Output, budget: int) -> Shown:
    """Return the output as text of at most ``budget`` encoded bytes.

    A budget under ``MARK_BYTES`` is overrun by the mark of a cut text.
    """
    head, tail = _texts(output)
    if not output.omitted:
        if encoded_size(head) <= budget:
            return Shown(_INVALID.sub("\ufffd", head), 0)
        tail = head
    room = max(0, budget - MARK_BYTES)
    first = _longest_prefix(head, room // 2)
    if not output.omitted:
        tail = tail[len(first) :]
    last = _longest_prefix(tail[::-1], room - encoded_size(first))[::-1]
    omitted = output.total - _byte_count(first) - _byte_count(last)
    text = f"{first}\n… [{omitted} bytes omitted] …\n{last}"
    return Shown(_INVALID.sub("\ufffd", text), omitted)


def _texts(output: Output) -> tuple[str, str]:
    """Decode both parts; a character that the gap splits belongs to the gap."""
    if not output.omitted:
        return (output.head + output.tail).decode("utf-8", "surrogateescape"), ""
    head, _ = codecs.utf_8_decode(output.head, "surrogateescape", False)
    tail = output.tail
    at = 0
    while at < min(3, len(tail)) and tail[at] & 0xC0 == 0x80:
        at += 1
    return head, tail[at:].decode("utf-8", "surrogateescape")


def _byte_count(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _longest_prefix(text: str, budget: int) -> str:
    """Return the longest beginning whose encoded size is at most ``budget``."""
    at = 0
    while at < len(text):
        block = text[at : at + _BLOCK_CHARS]
        size = encoded_size(block)
        if size > budget:
            return text[: at + _fitting_chars(block, budget)]
        budget -= size
        at += len(block)
    return text


def _fitting_chars(block: str, budget: int) -> int:
    low, high = 0, len(block)
    while low < high:
        middle = (low + high + 1) // 2
        if encoded_size(block[:middle]) <= budget:
            low = middle
        else:
            high = middle - 1
    return low
