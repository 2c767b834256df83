"""How often one caller may ask: a bucket that refills, for each key and each address."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["RateLimiter"]


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimiter:
    """Token buckets, one for each name; the longest unused are forgotten.

    A forgotten bucket is a full one, so ``max_names`` has to be more than what can be used
    up within one refill. Not thread-safe: used from the event loop only.

    Args:
        burst: Requests at once.
        per_second: Requests in the long run.
        now: A monotonic clock, in seconds.
    """

    def __init__(
        self, burst: int, per_second: float, max_names: int, now: Callable[[], float]
    ) -> None:
        self._burst = burst
        self._per_second = per_second
        self._max_names = max_names
        self._now = now
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def __contains__(self, name: str) -> bool:
        return name in self._buckets

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, name: str) -> float:
        """Take one request out of a bucket; return 0, or the seconds until there is one."""
        now = self._now()
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(float(self._burst), now)
            while len(self._buckets) > self._max_names:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(name)
        refilled = bucket.tokens + (now - bucket.at) * self._per_second
        bucket.tokens = min(float(self._burst), refilled)
        bucket.at = now
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self._per_second
        bucket.tokens -= 1
        return 0.0

    def forget(self, name: str) -> None:
        """Drop a bucket."""
        self._buckets.pop(name, None)
