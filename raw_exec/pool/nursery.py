"""A nursery for background services that does not wrap its user's exceptions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

__all__ = ["is_cancellation", "open_service_nursery"]


@asynccontextmanager
async def open_service_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery whose body may raise; its exception comes out as it was raised.

    A plain nursery puts it into an exception group, which a caller of ``open_runtime``
    could not expect. Failures of the services themselves still come as a group.
    """
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            except BaseException as exc:
                failure = exc
                raise
    except BaseExceptionGroup as group:
        if failure is not None and (group.exceptions == (failure,) or is_cancellation(group)):
            raise failure from failure.__cause__
        raise


def is_cancellation(exc: BaseException) -> bool:
    """Say whether an exception is cancellation and nothing else, grouped or not."""
    if isinstance(exc, BaseExceptionGroup):
        return exc.split(trio.Cancelled)[1] is None
    return isinstance(exc, trio.Cancelled)
