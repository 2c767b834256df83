"""How often one caller may ask."""

from __future__ import annotations

import pytest

from raw_exec.serving import RateLimiter


class Ticks:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


def test_a_bucket_empties_and_refills(ticks) -> None:
    """Our choice: a burst, then a steady rate."""
    limiter = RateLimiter(2, 0.5, 10, ticks)
    assert [limiter.take("a") for _ in range(3)] == [0.0, 0.0, 2.0]
    assert limiter.take("b") == 0.0
    ticks.seconds += 1
    assert limiter.take("a") == 1.0
    ticks.seconds += 1
    assert limiter.take("a") == 0.0
    ticks.seconds += 1000
    assert [limiter.take("a") for _ in range(3)] == [0.0, 0.0, 2.0]


def test_the_longest_unused_buckets_are_forgotten(ticks) -> None:
    """Security: whoever invents names does not fill the memory."""
    limiter = RateLimiter(1, 1, 3, ticks)
    for name in "abc":
        limiter.take(name)
    limiter.take("a")
    limiter.take("d")
    assert ["b" in limiter, "a" in limiter, len(limiter)] == [False, True, 3]
    limiter.forget("a")
    assert "a" not in limiter
