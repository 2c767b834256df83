"""Throughput of eight callers on eight workers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import trio

from .bare_echo import EchoProcess
from .claims import Bench, BenchmarkFailed, Claim
from .entrants import TRIO_PARALLEL, add_peer, echo_in_this_process
from .measure import Contestant, Round, Unavailable, interleave_into
from .report import Goal, Section
from .workspace import ECHO, call_tool, open_bench_runtime, write_workspace

CALLERS = 8
BASE = "bare echo, 8 processes"
OURS = "raw_exec, 8 workers"
ARGUMENTS = {"text": "Ship the docs\n", "count": 3}


def _crowd(make_call: Callable[[int], Callable[[], Awaitable[object]]]) -> Round:
    """Let every caller do the same number of calls at once; one sample: calls per second."""
    callers = [make_call(number) for number in range(CALLERS)]

    async def one(call: Callable[[], Awaitable[object]], calls: int) -> None:
        for _ in range(calls):
            await call()

    async def run(calls: int) -> list[float]:
        start = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for call in callers:
                nursery.start_soon(one, call, calls)
        return [calls * CALLERS / (time.perf_counter() - start)]

    return run


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    space = write_workspace(bench, "capacity", {"plain": ECHO})
    with ExitStack() as stack:
        echoes = [stack.enter_context(EchoProcess()) for _ in range(CALLERS)]

        def echo_call(number: int) -> Callable[[], Awaitable[object]]:
            return lambda: echoes[number].call(ARGUMENTS)

        async with open_bench_runtime(bench, space) as runtime:

            def own_call(_number: int) -> Callable[[], Awaitable[object]]:
                return lambda: call_tool(runtime, "plain", ARGUMENTS)

            contestants = [
                Contestant(BASE, _crowd(echo_call)),
                Contestant(OURS, _crowd(own_call)),
            ]
            add_peer(section, contestants, f"{TRIO_PARALLEL}, 8 workers", _trio_parallel)
            await interleave_into(
                section,
                contestants,
                rounds=bench.round_count(16, 6),
                calls=bench.size(60, 15),
                warm_up=10,
                higher_is_better=True,
            )
            started = runtime.statistics().pool.started
            if started < CALLERS:
                raise BenchmarkFailed(f"only {started} workers served {CALLERS} callers")
    section.notes.append("more is better; p90 is what 90 % of the rounds reach")


def _trio_parallel() -> Round:
    try:
        import trio_parallel
    except ImportError as exc:
        raise Unavailable(f"the package 'trio-parallel' is not installed: {exc}") from exc
    limiter = trio.CapacityLimiter(CALLERS)

    def make(_number: int) -> Callable[[], Awaitable[object]]:
        return lambda: trio_parallel.run_sync(
            echo_in_this_process, dict(ARGUMENTS), limiter=limiter
        )

    return _crowd(make)


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    return [
        Goal(
            "8 callers on 8 workers, throughput vs bare echo",
            0.8,
            section.ratio(OURS),
            at_least=True,
            note=section.missing(OURS, BASE),
        )
    ]


CLAIM = Claim("capacity", "Eight callers at once", "calls/s", BASE, run, judge)
