"""What the facades for asyncio and for plain programs add to a warm call.

Measured in two ways. The difference to calls made one after another in trio holds more than
the facade's own time: while a call goes from thread to thread, the worker and a processor
come to rest, and the call itself takes longer for it, as it does in trio after any rest.
So what a call spends outside the call itself is measured too, within the same call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

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
RESTED = "raw_exec in trio, each call after a rest of 0.1 ms"
BLOCKING_OUTSIDE = "raw_exec.blocking, outside the call itself"
AIO_OUTSIDE = "raw_exec.aio, outside the call itself"
THREAD_HOP = "trio.from_thread.run of nothing, from a plain thread"

_GOAL_MS = 0.15
_REST_SECONDS = 0.0001


class _Watched:
    """The native tools, and how long the last call was in there."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self.seconds = 0.0

    async def dispatch(self, *args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return await self._native.dispatch(*args, **options)
        finally:
            self.seconds = time.perf_counter() - start


def _checked(result: raw_exec.ToolResult) -> None:
    if result.is_error:
        raise BenchmarkFailed(f"{result.code}: {result.text:.300}")


def _in_a_thread(work: Callable[[int], list[float]]) -> Round:
    """Time calls in a thread of their own, while this loop does nothing."""

    async def run(calls: int) -> list[float]:
        return await trio.to_thread.run_sync(work, calls)

    return run


def _blocking(runtime: raw_exec.blocking.Runtime, *, outside: bool) -> Round:
    tools = raw_exec.blocking.RuntimeTools(runtime._loop)
    watched = _watch(tools)

    def work(calls: int) -> list[float]:
        samples = []
        for _ in range(calls):
            start = time.perf_counter()
            _checked(tools.dispatch("plain", dict(ARGUMENTS)))
            seconds = time.perf_counter() - start
            samples.append(seconds - watched.seconds if outside else seconds)
        return samples

    return _in_a_thread(work)


def _aio(runtime: raw_exec.blocking.Runtime, *, outside: bool) -> Round:
    # One facade is made of the other's thread, so that both measure the same runtime.
    tools = raw_exec.aio.RuntimeTools(runtime._loop)
    watched = _watch(tools)

    async def calling(calls: int) -> list[float]:
        samples = []
        for _ in range(calls):
            start = time.perf_counter()
            _checked(await tools.dispatch("plain", dict(ARGUMENTS)))
            seconds = time.perf_counter() - start
            samples.append(seconds - watched.seconds if outside else seconds)
        return samples

    return _in_a_thread(lambda calls: asyncio.run(calling(calls)))


def _watch(tools: Any) -> _Watched:
    watched = tools._native = _Watched(tools._native)
    return watched


def _rested(runtime: raw_exec.Runtime) -> Round:
    async def run(calls: int) -> list[float]:
        samples = []
        for _ in range(calls):
            await trio.sleep(_REST_SECONDS)
            start = time.perf_counter()
            await call_tool(runtime, "plain", ARGUMENTS)
            samples.append(time.perf_counter() - start)
        return samples

    return run


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
                    Contestant(RESTED, _rested(native)),
                    Contestant(BLOCKING, _blocking(runtime, outside=False)),
                    Contestant(BLOCKING_OUTSIDE, _blocking(runtime, outside=True)),
                    Contestant(AIO, _aio(runtime, outside=False)),
                    Contestant(AIO_OUTSIDE, _aio(runtime, outside=True)),
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
    goals = []
    for name, row, outside in (
        ("asyncio", AIO, AIO_OUTSIDE),
        ("blocking", BLOCKING, BLOCKING_OUTSIDE),
    ):
        found = section.row(outside)
        own = None if found is None else found.p50
        added = section.difference(row, BASE)
        goals += [
            Goal(f"the {name} facade's own time", _GOAL_MS, own, "ms",
                 note=section.missing(outside)),
            Goal(f"the {name} facade adds to calls one after another", _GOAL_MS, added, "ms",
                 note=section.missing(row, BASE)),
        ]  # fmt: skip
    return goals


CLAIM = Claim("facades", "Calls through a facade", "ms", BASE, run, judge)
