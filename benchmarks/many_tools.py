"""Ten thousand tools: how long until they are listed, and what a call among them costs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sized
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import raw_exec
from raw_exec.tools import load_registry

from .claims import Bench, BenchmarkFailed, Claim
from .measure import Contestant, interleave_into, timed
from .report import Goal, Section, ratio_goal, summarise
from .workspace import (
    ARGUMENTS,
    ECHO,
    Workspace,
    call_tool,
    open_bench_runtime,
    same_tools,
    write_workspace,
)

COUNT = 10_000
BASE = "dispatch, 1 tool"
MANY = "dispatch, 10,000 tools"
LIST = "list 10,000 tools, each with a schema of its own"
LIST_ALIKE = "list 10,000 tools, all with the same schema"


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    one = write_workspace(bench, "one-tool", {"plain": ECHO})
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=_in_memory_folder(bench)))
        quickly = replace(bench, work=Path(folder))
        alike = same_tools("tool", COUNT, ECHO)
        various = same_tools("tool", COUNT, replace(ECHO, own_schema=True))
        many = replace(write_workspace(quickly, "various", various), cwd=one.cwd)
        listed = [_list(many) for _ in range(bench.size(2, 0))]
        listed_alike = []
        if not bench.quick:
            same = write_workspace(quickly, "alike", alike)
            listed_alike = [_list(same) for _ in range(2)]
        small = await stack.enter_async_context(open_bench_runtime(bench, one))
        # Opening a runtime starts nothing, so this is the same work as listing.
        start = time.perf_counter()
        large = await stack.enter_async_context(open_bench_runtime(bench, many))
        _check(large.registry.definitions())
        listed.append(time.perf_counter() - start)
        contestants = [
            Contestant(BASE, timed(lambda: call_tool(small, "plain", ARGUMENTS))),
            Contestant(MANY, timed(lambda: call_tool(large, f"tool_{COUNT - 1}", ARGUMENTS))),
        ]
        await interleave_into(
            section,
            contestants,
            rounds=bench.round_count(72, 30),
            calls=bench.size(20, 10),
            warm_up=60,
            scale=1e3,
        )
    section.rows.append(summarise(LIST, [listed], scale=1e3))
    if listed_alike:
        section.rows.append(summarise(LIST_ALIKE, [listed_alike], scale=1e3))
    section.notes.append("listed: configuration read, every tool loaded, definitions made")


def _in_memory_folder(bench: Bench) -> Path:
    """Return where 20,000 files are written in a second or two; on a disk it takes twenty."""
    memory = Path("/dev/shm")  # noqa: S108 - a private folder is made in there
    return memory if os.access(memory, os.W_OK) else bench.work


def _list(space: Workspace) -> float:
    start = time.perf_counter()
    _check(load_registry(raw_exec.load_config(space.config)).definitions())
    return time.perf_counter() - start


def _check(definitions: Sized) -> None:
    if len(definitions) != COUNT:
        raise BenchmarkFailed(f"{len(definitions)} definitions instead of {COUNT}")


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    listed = section.row(LIST)
    return [
        Goal(
            "10,000 tools listed",
            2.0,
            None if listed is None else listed.p50 / 1000,
            "s",
            note=section.missing(LIST),
        ),
        ratio_goal(section, "dispatch among 10,000 tools vs 1 tool", MANY, limit=1.1),
    ]


CLAIM = Claim("many", "10,000 tools", "ms", BASE, run, judge)
