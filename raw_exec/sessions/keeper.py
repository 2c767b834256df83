"""What the sessions of a runtime share: one history, and who asks the questions."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from ..history import History, open_history
from ..interactions import Adapter, InteractionService

__all__ = ["SessionKeeper", "open_keeper"]


class SessionKeeper:
    """The history and the questions of a runtime, opened by its first session."""

    def __init__(self, path: str | os.PathLike[str] | None, adapter: Adapter | None) -> None:
        self._path = path
        self._adapter = adapter
        self._stack = AsyncExitStack()
        self._lock = trio.Lock()
        self._opened: tuple[History, InteractionService] | None = None

    async def open(self) -> tuple[History, InteractionService]:
        """Return the history and the questions.

        Raises:
            HistoryError: The file can't be used.
        """
        async with self._lock:
            if self._opened is None:
                history = await self._stack.enter_async_context(open_history(self._path))
                questions = InteractionService(history, self._adapter)
                self._stack.push_async_callback(questions.close)
                self._opened = history, questions
            return self._opened

    async def aclose(self) -> None:
        """Interrupt pending questions and let go of the file."""
        with trio.CancelScope(shield=True):
            await self._stack.aclose()


@asynccontextmanager
async def open_keeper(
    path: str | os.PathLike[str] | None, adapter: Adapter | None
) -> AsyncIterator[SessionKeeper]:
    """Open what sessions of a runtime share. A file is opened at once, to be refused at once.

    Raises:
        HistoryError: The file can't be used.
    """
    keeper = SessionKeeper(path, adapter)
    try:
        if path is not None:
            await keeper.open()
        yield keeper
    finally:
        await keeper.aclose()
