"""The first call: from nothing, from a running launcher, from a spare."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

import raw_exec

from .claims import Bench, Claim
from .entrants import MCP_PYTHON, MCP_TYPESCRIPT, add_peer
from .host import node_path, run_to_end
from .mcp_peers import server_command, start_and_call
from .measure import Contestant, Round, interleave_into, timed
from .report import Goal, Section, Summary, ratio_goal
from .workspace import (
    ARGUMENTS,
    ECHO,
    Workspace,
    call_tool,
    handler_spec,
    in_turn,
    open_bench_runtime,
    same_tools,
    write_workspace,
)

BASE = "node -e 0, clean environment"
WORKER_ONLY = "raw_exec, launcher running, no worker"
NOTHING = "raw_exec, runtime open, no launcher"
ALL = "raw_exec, configuration read, runtime opened, first call"
SPARE = "raw_exec, a spare is ready"


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    rounds = bench.round_count(16, 4)
    started = same_tools("cold", rounds, ECHO)
    spared = same_tools("spare", rounds, ECHO)
    # Idle workers of earlier rounds stay: ending one to make room is not part of a first call.
    space = write_workspace(
        bench,
        "cold",
        {"starter": ECHO, **started, **spared},
        limits={"max_workers": 2 * rounds + 2},
    )
    alone = write_workspace(bench, "cold-alone", {"plain": ECHO})
    node = [node_path(), "-e", "0"]

    async def bare_node() -> None:
        run_to_end(node)

    contestants = [Contestant(BASE, timed(bare_node))]
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(open_bench_runtime(bench, space))
        await call_tool(runtime, "starter", ARGUMENTS)
        cold, ready = iter(in_turn(list(started))), iter(in_turn(list(spared)))

        async def spare(calls: int) -> list[float]:
            samples = []
            for _ in range(calls):
                name = next(ready)
                await runtime.pool.warm(handler_spec(runtime, name, space.cwd))
                start = time.perf_counter()
                await call_tool(runtime, name, ARGUMENTS)
                samples.append(time.perf_counter() - start)
            return samples

        contestants += [
            Contestant(WORKER_ONLY, timed(lambda: call_tool(runtime, next(cold), ARGUMENTS))),
            Contestant(NOTHING, _open_then_call(bench, alone, time_all=False)),
            Contestant(ALL, _open_then_call(bench, alone, time_all=True)),
            Contestant(SPARE, spare),
        ]
        for name, kind in ((MCP_TYPESCRIPT, "typescript"), (MCP_PYTHON, "python")):
            add_peer(
                section,
                contestants,
                name,
                lambda kind=kind: _mcp_start(kind),  # type: ignore[misc]
                rounds=min(rounds, bench.size(5, 1)),
                note="start, initialize, call",
            )
        await interleave_into(section, contestants, rounds=rounds, calls=1, scale=1e3)
    section.notes += [
        "every row but the one with the configuration is timed from dispatch to outcome; "
        "its process is ended outside the timing",
        "the compiled wasm engine is cached; these tools have no descriptors",
    ]


def _open_then_call(bench: Bench, space: Workspace, *, time_all: bool) -> Round:
    """Each call in a runtime of its own, closed outside the timing."""

    async def run(calls: int) -> list[float]:
        samples = []
        for _ in range(calls):
            begin = time.perf_counter()
            config = raw_exec.load_config(space.config)
            async with raw_exec.open_runtime(
                config, cwd=space.cwd, cache_dir=bench.cache, spares=0
            ) as runtime:
                start = begin if time_all else time.perf_counter()
                await call_tool(runtime, "plain", ARGUMENTS)
                samples.append(time.perf_counter() - start)
        return samples

    return run


def _mcp_start(kind: str) -> Round:
    server_command(kind)

    async def call(calls: int) -> list[float]:
        return [start_and_call(kind, ARGUMENTS) for _ in range(calls)]

    return call


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    spare: Summary | None = section.row(SPARE)
    return [
        ratio_goal(section, "first ESM call, nothing started", NOTHING, limit=1.5),
        ratio_goal(section, "first ESM call, launcher running", WORKER_ONLY, limit=1.5),
        Goal(
            "first ESM call on a ready spare",
            1.0,
            None if spare is None else spare.p50,
            "ms",
            note=section.missing(SPARE),
        ),
    ]


CLAIM = Claim("cold", "The first call", "ms", BASE, run, judge)
