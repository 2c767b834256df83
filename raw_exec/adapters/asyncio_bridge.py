"""Calls between an asyncio loop and the thread of a trio loop, in both directions."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from .thread import LoopThread

__all__ = ["call_in_loop", "call_in_thread", "wait_for_thread"]

T = TypeVar("T")
_CALLBACK_END_SECONDS = 5.0
"""How long a cancelled callback may take to end before it is left alone."""


class _Waiter:
    """Waits, in an asyncio task, for one notice from another thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()
        self.told = False

    def tell(self) -> None:
        """Give the notice, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            pass  # the asyncio loop is closed: nobody waits any more

    def _wake(self) -> None:
        self.told = True
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self, on_cancel: Callable[[], object]) -> None:
        """Return when told. If cancelled, call ``on_cancel``, wait all the same, and go on.

        Raises:
            CancelledError: The task was cancelled meanwhile.
        """
        try:
            await self._future
        except asyncio.CancelledError:
            on_cancel()
            while not self.told:
                self._future = self._loop.create_future()
                try:
                    await self._future
                except asyncio.CancelledError:
                    pass  # asked already; the first one goes on below
            raise
        except BaseException:  # the coroutine is thrown away: nobody can wait
            on_cancel()
            raise


async def call_in_thread(loop: LoopThread[Any], function: Callable[[], Awaitable[T]]) -> T:
    """Run a function in the trio loop; return, or raise, once nothing of it runs any more."""
    waiter = _Waiter()
    submission = loop.submit(function, waiter.tell)
    await waiter.wait(submission.cancel)
    return submission.result()


async def wait_for_thread(loop: LoopThread[Any], *, opening: bool = False) -> None:
    """Open what a thread keeps open, or close it.

    Raises:
        Exception: What opening or closing raised.
    """
    waiter = _Waiter()
    if opening:
        loop.start(waiter.tell)
        try:
            await waiter.wait(lambda: loop.close(_ignore))
            loop.check_open()
        except BaseException:
            await wait_for_thread(loop)
            raise
        return
    if loop.close(waiter.tell):
        await waiter.wait(_ignore)
    loop.finish()


def _ignore() -> None:
    """There is nothing to do."""


def call_in_loop(
    home: asyncio.AbstractEventLoop, function: Callable[..., Any]
) -> Callable[..., Awaitable[Any]]:
    """Make a function of an asyncio program one that the trio loop can wait for.

    It runs in ``home``. Cancelling the wait cancels it, and waits until it has ended.
    """

    async def call(*args: Any) -> Any:
        done = trio.Event()
        token = trio.lowlevel.current_trio_token()
        context = contextvars.copy_context()
        task: list[asyncio.Task[Any]] = []
        outcome: list[asyncio.Task[Any]] = []

        async def run() -> Any:
            value = function(*args)
            return await value if inspect.isawaitable(value) else value

        def settle(ended: asyncio.Task[Any]) -> None:
            outcome.append(ended)
            try:
                token.run_sync_soon(done.set)
            except trio.RunFinishedError:
                pass

        def start() -> None:
            made = home.create_task(run(), context=context)
            task.append(made)
            made.add_done_callback(settle)

        # RuntimeError, if the asyncio loop is closed, goes to whoever asks.
        home.call_soon_threadsafe(start)
        try:
            await done.wait()
        except trio.Cancelled:
            try:
                home.call_soon_threadsafe(lambda: task[0].cancel())
            except RuntimeError:
                done.set()  # the asyncio loop is closed, and the task with it
            # An asyncio loop that stands still must not keep this one from closing.
            with trio.move_on_after(_CALLBACK_END_SECONDS, shield=True):
                await done.wait()
            raise
        ended = outcome[0]
        if ended.cancelled():
            raise RuntimeError("the asyncio task of a callback was cancelled")
        return ended.result()

    return call
