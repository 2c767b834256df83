"""Counts of a pool and its runtime, for tests and operators."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PoolStatistics", "RuntimeStatistics"]


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """A snapshot of the pool for tests and operators.

    Args:
        live: Worker processes, starting ones included.
        idle: Of these, waiting for a call.
        spares: Of the idle, started but without a plugin.
        waiting: Calls that wait for room.
        started: Workers started so far.
        calls: Calls served so far.
        retired: Ended workers by reason.
        launcher_restarts: How often the launcher had to be started again.
    """

    live: int
    idle: int
    spares: int
    waiting: int
    started: int
    calls: int
    retired: dict[str, int]
    launcher_restarts: int


@dataclass(frozen=True, slots=True)
class RuntimeStatistics:
    """A snapshot for tests and operators.

    Args:
        pool: Workers and calls.
        calls_in_flight: Dispatches that have no outcome yet.
        launcher_pid: Process ID of the launcher, or ``None`` before the first worker.
        live_trees: Process trees the launcher has not reported dead.
    """

    pool: PoolStatistics
    calls_in_flight: int
    launcher_pid: int | None
    live_trees: int
