"""Keeps a plugin that dies on every start from being started in a storm."""

from __future__ import annotations

from dataclasses import dataclass

import trio

from ..errors import WorkerBroken
from .spec import WorkerSpec

__all__ = ["CircuitBreaker"]

_FAILURES = 3
"""Failures in a row after which a pause begins."""
_PAUSE_SECONDS = (1.0, 5.0, 30.0, 120.0)


@dataclass(slots=True)
class _Record:
    failures: int = 0
    not_before: float = 0.0
    reason: str = ""


class CircuitBreaker:
    """Counts failed starts per trust domain."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, ...], _Record] = {}

    def check(self, spec: WorkerSpec) -> None:
        """Let a start through, or say how long it is paused and why.

        Raises:
            WorkerBroken: Code ``worker_crashed``, with ``retry_after_ms``.
        """
        record = self._records.get(spec.key)
        if record is None:
            return
        left = record.not_before - trio.current_time()
        if left > 0:
            raise WorkerBroken(
                "worker_crashed",
                f"{spec.label} failed to start {record.failures} times in a row; "
                f"not tried again for {left:.1f} s (last: {record.reason})",
                detail={"crash_loop": record.failures, "retry_after_ms": int(left * 1000)},
            )

    def note_failure(self, spec: WorkerSpec, reason: str) -> None:
        """Count a worker that died or hung before its plugin was loaded."""
        record = self._records.setdefault(spec.key, _Record())
        record.failures += 1
        record.reason = reason
        over = record.failures - _FAILURES
        if over >= 0:
            pause = _PAUSE_SECONDS[min(over, len(_PAUSE_SECONDS) - 1)]
            record.not_before = trio.current_time() + pause

    def note_success(self, spec: WorkerSpec) -> None:
        """Forget earlier failures: a plugin was loaded."""
        self._records.pop(spec.key, None)
