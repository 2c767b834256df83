"""A plugin that dies on every start is not started in a storm (corpus S20)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from raw_exec.errors import WorkerBroken
from raw_exec.pool.breaker import CircuitBreaker


def _spec(key: str = "a") -> Any:
    return SimpleNamespace(key=(key,), label=f"agent/{key}")


async def test_three_failures_in_a_row_begin_a_pause(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The refusal says how often, for how long, and why."""
    breaker = CircuitBreaker()
    for _ in range(2):
        breaker.note_failure(_spec(), "exited with status 1")
        breaker.check(_spec())
    breaker.note_failure(_spec(), "exited with status 1")
    with pytest.raises(WorkerBroken) as caught:
        breaker.check(_spec())
    assert caught.value.detail == {"crash_loop": 3, "retry_after_ms": 1000}
    assert "exited with status 1" in caught.value.message
    breaker.check(_spec("b"))  # another domain is not affected
    await trio.sleep(1.1)
    breaker.check(_spec())


async def test_the_pause_grows_and_a_success_ends_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """1, 5, 30, then 120 seconds."""
    breaker = CircuitBreaker()
    seen = []
    for _ in range(7):
        breaker.note_failure(_spec(), "x")
        try:
            breaker.check(_spec())
        except WorkerBroken as exc:
            seen.append(exc.detail["retry_after_ms"])
    assert seen == [1000, 5000, 30000, 120000, 120000]
    breaker.note_success(_spec())
    breaker.check(_spec())
