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

    ``fds`` is how many descriptors the present loop holds; ``left`` how many tasks and timers
    the last awaitable left, however it ended.
    """

    __slots__ = ("_asyncio", "_loop", "fds", "left")

    def __init__(self) -> None:
        # Imported here: it costs 3 MB and 30 ms, and most handlers are plain functions.
        import asyncio

        self._asyncio = asyncio
        self._loop: asyncio.AbstractEventLoop | None = None
        self.fds = 0
        self.left = 0

    def finish(self, awaitable: Any, deliver_with: Callable[[Callable[..., Any]], None]) -> Any:
        """Run an awaitable to its end and return its value.

        Args:
            awaitable: What the handler returned.
            deliver_with: Told how to run a callback in the loop from another thread.
        """
        loop = self._loop or self._open()
        deliver_with(loop.call_soon_threadsafe)
        threads = count_python_threads()
        try:
            value, raised = loop.run_until_complete(_outcome(awaitable))
        finally:
            self.left = self._count_left(loop)
            if self.left or count_python_threads() > threads:
                self._close(loop)
        if raised is None:
            return value
        try:
            raise raised
        finally:
            # Else this frame and its exception hold each other, and all that the handler held.
            del raised

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


async def _outcome(awaitable: Any) -> tuple[Any, BaseException | None]:
    # The loop breaks off at a SystemExit, with a callback of its own unfinished.
    try:
        return await awaitable, None
    except BaseException as exc:
        return None, exc
