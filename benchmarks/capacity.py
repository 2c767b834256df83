"""Throughput of eight callers on eight workers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import trio

from .bare_echo import EchoProcess
from .claims import Bench, BenchmarkFailed, Claim
from .entrants import TRIO_PARALLEL, add_peer, trio_parallel_call
from .measure import Contestant, Round, interleave_into
from .report import Goal, Section
from .workspace import ARGUMENTS, ECHO, call_tool, open_bench_runtime, write_workspace

CALLERS = 8
BASE = "bare echo, 8 processes"
OURS = "raw_exec, 8 workers"


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
    call = trio_parallel_call(ARGUMENTS, trio.CapacityLimiter(CALLERS))
    return _crowd(lambda _number: call)


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
