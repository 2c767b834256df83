"""A context manager that a task of its own keeps open until nobody needs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import trio

__all__ = ["Kept"]

T = TypeVar("T")


class Kept(Generic[T]):
    """One resource, open between ``start`` and ``close``.

    Args:
        open_resource: Gives the context manager; entered and left in the task of ``start``.
    """

    def __init__(self, open_resource: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._open_resource = open_resource
        self._release = trio.Event()
        self._gone = trio.Event()
        self._gone.set()
        self._error: BaseException | None = None
        self._value: list[T] = []
        self.used_at = 0.0
        """When it was last used, by trio's clock."""
        self.users = 0

    @property
    def value(self) -> T:
        """The resource."""
        return self._value[0]

    @property
    def is_open(self) -> bool:
        """Whether it can be used: open, and nobody has begun to close it."""
        return bool(self._value) and not self._release.is_set()

    async def start(self, nursery: trio.Nursery) -> T:
        """Open it in a task of the nursery.

        Raises:
            Exception: What opening raised.
        """
        self._gone = trio.Event()
        ready = trio.Event()
        nursery.start_soon(self._run, ready)
        try:
            await ready.wait()
        except BaseException:
            self._release.set()
            raise
        if not self._value:
            assert self._error is not None  # noqa: S101
            raise self._error
        self.used_at = trio.current_time()
        return self._value[0]

    async def _run(self, ready: trio.Event) -> None:
        try:
            async with self._open_resource() as value:
                self._value.append(value)
                ready.set()
                await self._release.wait()
        except Exception as exc:
            self._error = exc
        finally:
            self._value.clear()
            ready.set()
            self._gone.set()

    async def close(self) -> None:
        """Let go and wait for the end, which can't be cancelled.

        Raises:
            Exception: What closing raised, or what ended it before.
        """
        self._release.set()
        with trio.CancelScope(shield=True):
            await self._gone.wait()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def is_idle_since(self, time: float) -> bool:
        """Whether nobody uses it, and nobody has since then."""
        return self.users == 0 and self.used_at <= time

    def __enter__(self) -> T:
        self.users += 1
        return self.value

    def __exit__(self, *_: object) -> None:
        self.users -= 1
        self.used_at = trio.current_time()
