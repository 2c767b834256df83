"""A fresh sandboxed Python process for every call."""

from __future__ import annotations

import sys
import time

import trio

from raw_exec import Runtime

from .claims import Bench, BenchmarkFailed, Claim
from .host import run_to_end
from .measure import Contestant, Round, interleave_into, timed
from .report import Goal, Section
from .workspace import ARGUMENTS, ECHO, PYTHON_ECHO, call_tool, open_bench_runtime, write_workspace

BASE = "python -I -S -c 0"
FRESH = "raw_exec, Python, new process inside the call"
FROM_SPARE = "raw_exec, Python, from a ready spare"
FROM_SPARE_ESM = "raw_exec, ESM, from a ready spare"
_SPARE_SECONDS = 10


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    fresh = write_workspace(bench, "fresh", {"python": PYTHON_ECHO}, isolation="fresh")
    spared = write_workspace(
        bench, "fresh-spare", {"python": PYTHON_ECHO, "plain": ECHO}, isolation="fresh"
    )
    bare = [sys.executable, "-I", "-S", "-c", "0"]

    async def bare_python() -> None:
        run_to_end(bare)

    async with (
        open_bench_runtime(bench, fresh, spares=0) as without,
        open_bench_runtime(bench, spared, spares=1) as with_spares,
    ):
        contestants = [
            Contestant(BASE, timed(bare_python)),
            Contestant(FRESH, timed(lambda: call_tool(without, "python", ARGUMENTS))),
            Contestant(FROM_SPARE, from_spare(with_spares, "python", spares=2)),
            Contestant(FROM_SPARE_ESM, from_spare(with_spares, "plain", spares=2)),
        ]
        await call_tool(with_spares, "python", ARGUMENTS)
        await call_tool(with_spares, "plain", ARGUMENTS)
        await interleave_into(
            section,
            contestants,
            rounds=bench.round_count(15, 4),
            calls=bench.size(5, 2),
            warm_up=2,
            scale=1e3,
        )
    section.notes.append(
        "raw_exec rows end when the call's process tree is killed, reaped and its files removed"
    )


def from_spare(runtime: Runtime, name: str, *, spares: int) -> Round:
    """Wait, untimed, until the spares are up again, then call."""

    async def run(calls: int) -> list[float]:
        samples = []
        for _ in range(calls):
            with trio.move_on_after(_SPARE_SECONDS) as scope:
                # The pool has no event for this, and what it does meanwhile is not timed.
                while runtime.statistics().pool.spares < spares:  # noqa: ASYNC110
                    await trio.sleep(0.002)
            if scope.cancelled_caught:
                raise BenchmarkFailed(f"no spare was started: {runtime.statistics().pool}")
            start = time.perf_counter()
            await call_tool(runtime, name, ARGUMENTS)
            samples.append(time.perf_counter() - start)
        return samples

    return run


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    row = section.row(FRESH)
    return [
        Goal(
            "fresh sandboxed Python process per call",
            12.0,
            None if row is None else row.p50,
            "ms",
            note=section.missing(FRESH),
        )
    ]


CLAIM = Claim("fresh", "A fresh process per call", "ms", BASE, run, judge)
