"""The clock behind every deadline: a thread that advances the engine's epoch.

It runs only while calls do. A call that starts when it sleeps wakes it (one semaphore
release); after the last call it goes on for a few ticks, so that a burst of short calls
does not wake it each time, and then sleeps without a timeout.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ..errors import InternalError

__all__ = ["TICK_S", "Ticker"]

TICK_S = 0.004
"""Granularity of deadlines, seconds."""

_LINGER_TICKS = 25
_MOST_OWED_S = 60.0


class Ticker:
    """Ticks in a daemon thread while at least one call is running.

    Args:
        tick: Called once per elapsed ``TICK_S``, from the thread.
    """

    def __init__(self, tick: Callable[[], object]) -> None:
        self._tick = tick
        self._lock = threading.Lock()
        self._wake = threading.Semaphore(0)
        self._running = 0
        self._asleep = True
        self._closed = False
        self._thread: threading.Thread | None = None

    def start_call(self, deadline_ms: int) -> int:
        """Note that a call starts, and return after how many ticks it must end.

        Every start must be matched by one ``end_call``.
        """
        with self._lock:
            if self._closed:
                raise InternalError("engine_closed", "the JavaScript engine is closed")
            self._running += 1
            wake = self._asleep
            self._asleep = False
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="raw-exec-epoch", daemon=True
                )
                self._thread.start()
        if wake:
            self._wake.release()
        # The first tick may come at once, so one more than the deadline is long.
        return max(1, -(-deadline_ms // round(TICK_S * 1000))) + 1

    def end_call(self) -> None:
        with self._lock:
            self._running -= 1

    def close(self) -> None:
        """Stop and join the thread. Running calls would lose their deadline: end them first."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._wake.release()
        if thread is not None:
            thread.join()

    @property
    def is_ticking(self) -> bool:
        """Whether the thread is awake."""
        return not self._asleep

    def _serve(self) -> None:
        while True:
            self._wake.acquire()
            if self._closed:
                return
            if self._tick_while_needed():
                return

    def _tick_while_needed(self) -> bool:
        """Tick until no call needs it; return whether the ticker was closed meanwhile."""
        # Ticks owed are counted by the clock: a late wake-up catches up.
        due = time.monotonic()
        idle = 0
        while True:
            due += TICK_S
            pause = due - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            elif pause < -_MOST_OWED_S:
                due -= pause + _MOST_OWED_S  # stopped for long: every deadline is over anyway
            self._tick()
            with self._lock:
                if self._closed:
                    return True
                idle = 0 if self._running else idle + 1
                if idle > _LINGER_TICKS:
                    self._asleep = True
                    return False
