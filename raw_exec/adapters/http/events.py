"""The events of one call: the latest state of everything, never a backlog.

An event replaces the one with the same key, under a new number. A reader that was away asks
for what is newer than the number it saw last, and gets the present state of all that changed
meanwhile. So nothing grows for a client that does not read, and none holds up another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import trio

__all__ = ["EVENT_KINDS", "Event", "EventLog"]

EVENT_KINDS: Final = ("started", "panel", "progress", "question", "approval", "result", "error")


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Args:
        number: Counts up from 1 within a call.
        kind: One of ``EVENT_KINDS``.
        data: JSON, encoded, in one line.
    """

    number: int
    kind: str
    data: bytes

    def encode(self) -> bytes:
        """Return the event as ``text/event-stream`` has it."""
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self.number, self.kind.encode(), self.data)


class EventLog:
    """The latest events of one call."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, str], Event] = {}
        self._number = 0
        self._ended = False
        self._news = trio.Event()

    @property
    def ended(self) -> bool:
        """Whether no more events come."""
        return self._ended

    @property
    def size(self) -> int:
        """Bytes of all that is kept."""
        return sum(len(event.data) for event in self._latest.values())

    def put(self, kind: str, key: str, data: bytes) -> None:
        """Add an event in place of one of the same kind and key, unless it says the same."""
        known = self._latest.get((kind, key))
        if self._ended or (known is not None and known.data == data):
            return
        self._number += 1
        # Taken out first, so that the order stays that of the numbers.
        self._latest.pop((kind, key), None)
        self._latest[kind, key] = Event(self._number, kind, data)
        self._wake()

    def drop(self, kind: str, key: str) -> None:
        """Forget an event that means nothing any more, such as a question that is settled."""
        self._latest.pop((kind, key), None)

    def end(self) -> None:
        """Take no more events."""
        self._ended = True
        self._wake()

    def after(self, number: int) -> list[Event]:
        """Return what is newer than an event, in order."""
        return [event for event in self._latest.values() if event.number > number]

    async def wait_news(self, number: int) -> None:
        """Return once there is an event newer than this one, or no more come."""
        while not self._ended and self._number <= number:
            await self._news.wait()

    def _wake(self) -> None:
        news, self._news = self._news, trio.Event()
        news.set()
