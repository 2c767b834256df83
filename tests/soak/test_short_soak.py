"""A soak short enough for every run of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from requires import require_node

from .soak import soak


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_short_soak_ends_with_what_it_began_with(tmp_path: Path) -> None:
    """Equal counts, one known outcome per call, workers and launcher killed."""
    require_node()
    with trio.fail_after(380):
        report = await soak(tmp_path, calls=1500, seconds=12, costly=0.3)
    assert report.problems() == []
    assert report.started == report.ended > 100
    assert sum(report.outcomes.values()) == report.ended
    assert report.faults["launcher restarted"] >= 1
