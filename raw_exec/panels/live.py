"""Live frames: one per panel and interval, the latest wins, the last is always sent.

A tool may update a panel two hundred times in a second; a person's screen need not. The
first frame of a panel goes out at once. Frames that come sooner than the interval after it
replace each other until it is over.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from .revisions import PanelView

__all__ = ["INTERVAL_S", "LivePanels", "open_live"]

INTERVAL_S = 0.25


class LivePanels:
    """Frames on their way to one receiver. ``open_live`` makes it.

    Args:
        send: Takes one frame. While it waits, frames of the same panel replace each other.
        interval_s: Seconds between two frames of one panel, by trio's clock.
    """

    def __init__(
        self, send: Callable[[PanelView], Awaitable[None]], *, interval_s: float = INTERVAL_S
    ) -> None:
        self._send = send
        self._interval = interval_s
        self._waiting: dict[str, PanelView] = {}
        self._not_before: dict[str, float] = {}
        self._closing = False
        self._wake = trio.Event()

    def offer(self, view: PanelView) -> None:
        """Give a frame; returns at once. Frames after the end of ``open_live`` are dropped."""
        if self._closing:
            return
        self._waiting[view.id] = view
        self._wake.set()

    def close(self) -> None:
        """Take no more frames; those that wait are sent without further delay."""
        self._closing = True
        self._wake.set()

    async def run(self) -> None:
        """Send frames until ``close`` was called and none is left.

        If cancelled, frames that wait are lost. What ``send`` raises ends it.
        """
        while True:
            # Race: offers during a send set this event, not the one before it.
            self._wake = trio.Event()
            await self._send_due()
            if self._closing:
                if not self._waiting:
                    return
                continue
            if self._waiting:
                until = min(self._not_before.get(key, -math.inf) for key in self._waiting)
                with trio.move_on_at(until):
                    await self._wake.wait()
            else:
                await self._wake.wait()

    async def _send_due(self) -> None:
        now = trio.current_time()
        self._not_before = {key: at for key, at in self._not_before.items() if at > now}
        due = [key for key in self._waiting if self._closing or key not in self._not_before]
        for key in due:
            view = self._waiting.pop(key)
            self._not_before[key] = trio.current_time() + self._interval
            await self._send(view)


@asynccontextmanager
async def open_live(
    send: Callable[[PanelView], Awaitable[None]], *, interval_s: float = INTERVAL_S
) -> AsyncIterator[LivePanels]:
    """Send frames in the background; at the end of the block, those that wait go out at once.

    Args:
        send: Takes one frame; what it raises ends the block.
        interval_s: Seconds between two frames of one panel.
    """
    live = LivePanels(send, interval_s=interval_s)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        try:
            yield live
        finally:
            live.close()
