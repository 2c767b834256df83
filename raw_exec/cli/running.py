"""Run one async command: signals cancel it, a second one ends everything at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import trio

from .failures import EXIT_INTERRUPTED, Interrupted, only_cause

__all__ = ["run_async"]

T = TypeVar("T")


def run_async(function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function and return what it returns.

    The first SIGINT or SIGTERM cancels it, which ends and reaps its workers; the second
    ends this process at once, and the launcher then kills every worker.

    Raises:
        Interrupted: A signal cancelled it.
        Exception: What the function raised, without the groups that nurseries put round it.
    """
    try:
        return trio.run(_supervise, function)
    except BaseExceptionGroup as group:
        cause = only_cause(group)
        if cause is group:
            raise
        raise cause from group


async def _supervise(function: Callable[[], Awaitable[T]]) -> T:
    outcome: list[T] = []
    scope = trio.CancelScope()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, signals, scope)
            with scope:
                outcome.append(await function())
            nursery.cancel_scope.cancel()
    if not outcome:
        raise Interrupted
    return outcome[0]


async def _watch(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for _number in signals:
        if scope.cancel_called:
            # Everything that must be cleaned up is ended by the launcher when we are gone.
            os._exit(EXIT_INTERRUPTED)
        scope.cancel()
        if sys.stderr.isatty():
            print("\nstopping; press Ctrl-C again to kill", file=sys.stderr, flush=True)
