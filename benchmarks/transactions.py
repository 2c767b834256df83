"""Calls on a copy-on-write view, and the commit of what they changed."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import trio

from raw_exec.transactions.changes import Change, ChangeSet
from raw_exec.transactions.commit import commit

from .claims import Bench, BenchmarkFailed, Claim
from .fresh_python import from_spare
from .measure import Contestant, Round, interleave_into, timed
from .report import Goal, Section, ratio_goal
from .workspace import (
    ARGUMENTS,
    PYTHON_ECHO,
    Workspace,
    call_tool,
    open_bench_runtime,
    write_workspace,
)

BASE = "fresh process, files in place"
VIEW = "fresh process on a view, nothing to commit"
LARGE = "the same in a tree of 100,000 files"
BASE_SPARE = "from a ready spare, files in place"
VIEW_SPARE = "from a ready spare on a view"
COPY = "copy 1,000 files of 4 KiB"
COPY_SYNCED = "copy them and wait for the disk"
COMMIT = "commit them"
_MANY = 100_000
_FILES = 1000
_FILE_BYTES = 4096


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    plain = write_workspace(bench, "in_place", {"python": PYTHON_ECHO}, isolation="fresh")
    view = _with_view(write_workspace(bench, "view", {"python": PYTHON_ECHO}, isolation="fresh"))
    large = _with_view(write_workspace(bench, "large", {"python": PYTHON_ECHO}, isolation="fresh"))
    await trio.to_thread.run_sync(_fill, large.cwd, _MANY)
    await trio.to_thread.run_sync(_fill, view.cwd, 10)
    async with (
        open_bench_runtime(bench, plain, spares=0) as in_place,
        open_bench_runtime(bench, view, spares=0) as on_view,
        open_bench_runtime(bench, large, spares=0) as on_large,
        open_bench_runtime(bench, plain, spares=1) as in_place_spared,
        open_bench_runtime(bench, view, spares=1) as on_view_spared,
    ):
        found = (await on_view.launcher.capabilities())["overlay"]
        if not found["works"]:
            raise BenchmarkFailed(f"no view can be had here: {found['message']}")
        await call_tool(in_place_spared, "python", ARGUMENTS)
        await call_tool(on_view_spared, "python", ARGUMENTS)
        contestants = [
            Contestant(BASE, timed(lambda: call_tool(in_place, "python", ARGUMENTS))),
            Contestant(VIEW, timed(lambda: call_tool(on_view, "python", ARGUMENTS))),
            Contestant(LARGE, timed(lambda: call_tool(on_large, "python", ARGUMENTS))),
            Contestant(BASE_SPARE, from_spare(in_place_spared, "python", spares=1)),
            Contestant(VIEW_SPARE, from_spare(on_view_spared, "python", spares=1)),
            *_commits(bench.work / "commit"),
        ]
        await interleave_into(
            section,
            contestants,
            rounds=bench.round_count(8, 4),
            calls=bench.size(5, 2),
            warm_up=1,
            scale=1e3,
        )
    section.notes.append(
        "a call on a view waits up to one tick of the kernel's clock before it begins, so that "
        "a file written just before it is not taken for one written meanwhile"
    )
    section.notes.append("a commit journals and waits for the disk; copying alone does not")


def _with_view(space: Workspace) -> Workspace:
    config = json.loads(space.config.read_text("utf-8"))
    config["sandbox"]["profiles"]["workspace"] = {"effects": "observed"}
    space.config.write_text(json.dumps(config), "utf-8")
    return space


def _fill(folder: Path, count: int) -> None:
    for number in range(count):
        if number % 1000 == 0:
            (folder / f"d{number // 1000}").mkdir()
        os.close(os.open(folder / f"d{number // 1000}" / f"f{number}", os.O_CREAT | os.O_WRONLY))


def _commits(home: Path) -> list[Contestant]:
    """Return contestants that bring the same new files into an empty folder."""
    source = home / "source"
    source.mkdir(parents=True)
    names = [b"f%d" % number for number in range(_FILES)]
    for name in names:
        (source / os.fsdecode(name)).write_bytes(name * (_FILE_BYTES // len(name)))
    changes = tuple(Change(name, "create", "file", False) for name in sorted(names))
    target, state = home / "target", home / "state"

    def copy() -> None:
        shutil.copytree(source, target, dirs_exist_ok=True)

    def copy_synced() -> None:
        copy()
        for name in os.listdir(target):
            fd = os.open(target / name, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)

    def committed() -> None:
        upper = os.open(source, os.O_RDONLY | os.O_DIRECTORY)
        try:
            commit([ChangeSet(str(target), upper, time.time_ns(), changes)], state_dir=state)
        finally:
            os.close(upper)

    return [
        Contestant(COPY, _emptied(target, copy)),
        Contestant(COPY_SYNCED, _emptied(target, copy_synced)),
        Contestant(COMMIT, _emptied(target, committed)),
    ]


def _emptied(target: Path, work: Callable[[], None]) -> Round:
    """Time ``work`` on an empty folder; making it empty again is not timed."""

    def once() -> float:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        start = time.perf_counter()
        work()
        spent = time.perf_counter() - start
        found = len(os.listdir(target))
        if found != _FILES:
            raise BenchmarkFailed(f"{found} files are there instead of {_FILES}")
        return spent

    async def run(calls: int) -> list[float]:
        return [await trio.to_thread.run_sync(once) for _ in range(calls)]

    return run


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    more = section.difference(VIEW, BASE)
    return [
        Goal(
            "view and empty commit over a fresh process",
            10.0,
            more,
            "ms",
            note=section.missing(VIEW, BASE),
        ),
        ratio_goal(
            section, "a call in a tree of 100,000 files vs one of 10", LARGE, limit=1.2, base=VIEW
        ),
        ratio_goal(section, "commit of 1,000 files of 4 KiB", COMMIT, limit=2.0, base=COPY),
    ]


CLAIM = Claim("transactions", "Calls on a copy-on-write view", "ms", BASE, run, judge)
