"""The event loop that asynchronous handlers run in.

Making a loop costs 0.3 ms, so it is kept from call to call; but only while it is as good
as new. A task, a timer or a thread that a handler left in it would go on during the next
call: then the loop is closed, which cancels them, and what was left is reported.
"""

from __future__ import annotations

import builtins
from _thread import _count as count_python_threads

from .leftovers import count_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any

globals()["__builtins__"] = dict(vars(builtins))

__all__ = ["Loop"]


class Loop:
    """One event loop, replaced whenever a handler leaves something in it.

    ``fds`` is how many descriptors the present loop holds.
    """

    __slots__ = ("_asyncio", "_loop", "fds")

    def __init__(self) -> None:
        # Imported here: it costs 3 MB and 30 ms, and most handlers are plain functions.
        import asyncio

        self._asyncio = asyncio
        self._loop: asyncio.AbstractEventLoop | None = None
        self.fds = 0

    def finish(
        self, awaitable: Any, deliver_with: Callable[[Callable[..., Any]], None]
    ) -> tuple[Any, int]:
        """Run an awaitable to its end.

        Args:
            awaitable: What the handler returned.
            deliver_with: Told how to run a callback in the loop from another thread.

        Returns:
            The value, and how many tasks and timers it left.
        """
        loop = self._loop or self._open()
        deliver_with(loop.call_soon_threadsafe)
        threads = count_python_threads()
        left = 0
        try:
            value = loop.run_until_complete(_await(awaitable))
            return value, (left := self._count_left(loop))
        finally:
            # Also after an exception: its tasks are nobody's now.
            if left or self._count_left(loop) or count_python_threads() > threads:
                self._close(loop)

    def _open(self) -> asyncio.AbstractEventLoop:
        before = count_descriptors()
        loop = self._loop = self._asyncio.new_event_loop()
        self._asyncio.set_event_loop(loop)
        self.fds = count_descriptors() - before
        return loop

    def _count_left(self, loop: asyncio.AbstractEventLoop) -> int:
        # Timers and callbacks are in no public list; a loop without these has none known.
        waiting = len(getattr(loop, "_scheduled", ())) + len(getattr(loop, "_ready", ()))
        return waiting + len(self._asyncio.all_tasks(loop))

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = None
        self.fds = 0
        try:
            tasks = self._asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(self._asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            self._asyncio.set_event_loop(None)
            loop.close()


async def _await(awaitable: Any) -> Any:
    return await awaitable
