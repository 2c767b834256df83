"""A thousand calls given up at every moment between their start and their result."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

import raw_exec
from toolbox import footprint, py_config

CALLS = 1000
CALLERS = 4
MOMENTS = 50
LAST_SECONDS = 0.08
"""The latest moment; a call that needs a new worker takes about half of that."""

NOTE = """\
with open(args["name"], "x"):
    pass
return {"content": [{"type": "text", "text": args["name"]}]}"""


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_thousand_aborts_race_completion_and_each_outcome_is_true(tmp_path: Path) -> None:
    """What has a result was done, what was given up before its handler was not, nothing is left."""
    before = footprint()
    config = py_config(tmp_path, NOTE)
    done: set[str] = set()
    given_up: set[str] = set()

    async def race(runtime: raw_exec.Runtime, first: int) -> None:
        for number in range(first, CALLS, CALLERS):
            name = f"n{number}"
            with trio.move_on_after(LAST_SECONDS * (number // CALLERS % MOMENTS) / MOMENTS):
                result = await runtime.registry.dispatch("t", {"name": name})
                assert (result.text, result.is_error) == (name, False), result
                done.add(name)
            if name not in done:
                given_up.add(name)

    with trio.fail_after(200):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            async with trio.open_nursery() as nursery:
                for first in range(CALLERS):
                    nursery.start_soon(race, runtime, first)
            statistics = runtime.statistics()
            after = await runtime.registry.dispatch("t", {"name": "after"})
    made = {name for name in os.listdir(tmp_path) if name.startswith("n")}
    assert len(done) + len(given_up) == CALLS
    assert done <= made
    assert done
    assert given_up - made, "no call was given up before its handler ran"
    assert (statistics.calls_in_flight, after.text) == (0, "after")
    assert footprint() == before
