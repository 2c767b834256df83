"""What the facades for asyncio and for plain programs add to a warm call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import trio

import raw_exec
import raw_exec.aio
import raw_exec.blocking

from .claims import Bench, BenchmarkFailed, Claim
from .measure import Contestant, Round, interleave_into, timed
from .report import Goal, Section
from .workspace import ARGUMENTS, ECHO, Workspace, call_tool, open_bench_runtime, write_workspace

BASE = "raw_exec in trio, a warm call"
BLOCKING = "raw_exec.blocking, the same from a plain thread"
AIO = "raw_exec.aio, the same from an asyncio loop"
THREAD_HOP = "trio.from_thread.run of nothing, from a plain thread"

_GOAL_MS = 0.15


def _checked(result: raw_exec.ToolResult) -> None:
    if result.is_error:
        raise BenchmarkFailed(f"{result.code}: {result.text:.300}")


def _in_a_thread(work: Callable[[int], list[float]]) -> Round:
    """Time calls in a thread of their own, while this loop does nothing."""

    async def run(calls: int) -> list[float]:
        return await trio.to_thread.run_sync(work, calls)

    return run


def _blocking(runtime: raw_exec.blocking.Runtime) -> Round:
    def work(calls: int) -> list[float]:
        samples = []
        for _ in range(calls):
            start = time.perf_counter()
            _checked(runtime.registry.dispatch("plain", dict(ARGUMENTS)))
            samples.append(time.perf_counter() - start)
        return samples

    return _in_a_thread(work)


def _aio(runtime: raw_exec.blocking.Runtime) -> Round:
    # One facade is made of the other's thread, so that both measure the same runtime.
    tools = raw_exec.aio.RuntimeTools(runtime._loop)

    async def call() -> None:
        _checked(await tools.dispatch("plain", dict(ARGUMENTS)))

    def work(calls: int) -> list[float]:
        return asyncio.run(_timed(call, calls))

    return _in_a_thread(work)


async def _timed(call: Callable[[], Awaitable[None]], calls: int) -> list[float]:
    return await timed(call)(calls)


def _hop(calls: int) -> list[float]:
    samples = []
    for _ in range(calls):
        start = time.perf_counter()
        trio.from_thread.run(trio.lowlevel.checkpoint)
        samples.append(time.perf_counter() - start)
    return samples


def _open(bench: Bench, space: Workspace) -> raw_exec.blocking.Runtime:
    config = raw_exec.load_config(space.config)
    return raw_exec.blocking.open_runtime(config, cwd=space.cwd, cache_dir=bench.cache, spares=0)


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    space = write_workspace(bench, "facades", {"plain": ECHO})
    async with open_bench_runtime(bench, space) as native:
        # In a thread: opening and closing wait for another loop.
        runtime = await trio.to_thread.run_sync(_open, bench, space)
        try:
            await interleave_into(
                section,
                [
                    Contestant(BASE, timed(lambda: call_tool(native, "plain", ARGUMENTS))),
                    Contestant(BLOCKING, _blocking(runtime)),
                    Contestant(AIO, _aio(runtime)),
                    Contestant(THREAD_HOP, _in_a_thread(_hop), is_peer=True),
                ],
                rounds=bench.round_count(40, 8),
                calls=bench.size(50, 20),
                warm_up=20,
                scale=1e3,
            )
        finally:
            await trio.to_thread.run_sync(runtime.close)
    section.notes.append("the loop of a facade runs in a thread: there and back are two hops")


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    return [
        Goal(
            f"the {name} facade adds to a call",
            _GOAL_MS,
            section.difference(row, BASE),
            "ms",
            note=section.missing(row, BASE),
        )
        for name, row in (("asyncio", AIO), ("blocking", BLOCKING))
    ]


CLAIM = Claim("facades", "Calls through a facade", "ms", BASE, run, judge)
