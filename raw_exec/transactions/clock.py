"""The clock that the kernel stamps files with; it moves once a tick, 1 to 10 ms."""

from __future__ import annotations

import time
from typing import Final

__all__ = ["LOOK_SECONDS", "MAX_LOOKS", "coarse_ns"]

_CLOCK_REALTIME_COARSE: Final = 5
"""Not named in ``time``."""
LOOK_SECONDS: Final = 0.0005
MAX_LOOKS: Final = 100
"""Looks at it before it is taken as set back, since a tick is over long before."""


def coarse_ns() -> int:
    """Return its time, nanoseconds; up to a tick behind ``time.time_ns()``."""
    return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
