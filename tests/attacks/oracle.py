"""The universal oracle: what must hold after every case, whatever the case did.

The numbers are those of the corpus. Each function returns sentences about what is wrong.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import signal
from collections import Counter
from dataclasses import dataclass
from typing import Any

import psutil
import trio

from raw_exec import ToolResult
from raw_exec.dispatch.outcome import CODES
from raw_exec.text import escape_text
from tests.attacks.lab import GRACE_MS, LOAD_MS, Lab

__all__ = [
    "EXTRA_MS", "Footing", "allowance", "benign", "end_marked", "grown_bytes", "inspect", "lives",
    "take_footing",
]  # fmt: skip

EXTRA_MS = 500
_BENIGN_SECONDS = 1.0
_DEAD_SECONDS = 3.0
_REMOVED_SECONDS = 5.0
_PIPES_PER_WORKER = 5
_MOST_SLACK = 2.0
_SPARE_THREADS = 3
"""trio keeps worker threads for ten idle seconds."""


def allowance() -> float:
    """Return what multiplies time bounds: more than 1 only while more runs than there are CPUs."""
    fixed = os.environ.get("RAW_EXEC_SLACK")
    if fixed:
        return float(fixed)
    return min(_MOST_SLACK, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


@dataclass(frozen=True, slots=True)
class Footing:
    """What is compared before and after one case."""

    world: dict[str, Any]
    threads: int
    rss: int
    descriptors: Counter[str]


def _resident() -> int:
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # freed pages are not growth
    except AttributeError:
        pass  # not glibc
    return int(psutil.Process().memory_info().rss)


def take_footing(lab: Lab) -> Footing:
    """Measure before a case."""
    rss = _resident()
    return Footing(lab.world.state(), len(os.listdir("/proc/self/task")), rss, _descriptors(lab))


async def inspect(
    lab: Lab, before: Footing, results: list[ToolResult], seconds: float
) -> list[str]:
    """Check (1) to (7) and (9); ``benign`` is (8)."""
    problems: list[str] = []
    for result in results:
        problems += _outcome(lab, result, seconds)
    if lab.broken:
        return [*problems, "U6: the launcher or the sibling's worker died"]
    if (unsettled := await lab.settle()) is not None:
        problems.append(f"U6: {unsettled}")
    problems += [f"U4: reached {what}" for what in lab.world.poll_listeners()]
    problems += _world(before.world, lab.world.state())
    problems += await _processes(lab)
    problems += await _footprint(lab, before)
    problems += await _scratch(lab)
    return problems


def _outcome(lab: Lab, result: ToolResult, seconds: float) -> list[str]:
    problems = []
    code = result.code
    if result.origin == "host" and (not result.is_error or code not in CODES):
        problems.append(f"U1: code {code!r} is not in the closed set")
    if not result.stage or not result.tool_call_id:
        problems.append("U1: the outcome lacks its stage or id")
    # A worker may take its time to start and to load, and no longer.
    start = min(float(result.usage.get("start_ms", LOAD_MS * 2)), LOAD_MS * 2)
    bound = start + seconds * 1000 + GRACE_MS + EXTRA_MS * allowance()
    if result.elapsed_ms > bound:
        problems.append(f"U2: took {result.elapsed_ms:.0f} ms; {bound:.0f} ms are allowed")
    text = json.dumps(result.as_dict(), ensure_ascii=False, default=repr)
    problems += [f"U3: {name} is in the outcome" for name in lab.world.leaked(text)]
    if result.enforced and result.enforced["tier"] != lab.tier:
        problems.append(f"enforced {result.enforced['tier']!r}, not {lab.tier!r}")
    logs = "".join(result.logs.values())
    if escape_text(logs) != logs:
        problems.append("a log has terminal controls unescaped")
    return problems


def _world(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [
        f"U5: {name} changed: {_difference(before[name], after[name])}"
        for name in before
        if before[name] != after[name]
    ]


def _difference(before: Any, after: Any) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [k for k in {*before, *after} if before.get(k) != after.get(k)]
        return ", ".join(f"{k}: {before.get(k)} -> {after.get(k)}" for k in keys)[:400]
    return f"{before!r} -> {after!r}"[:400]


async def _processes(lab: Lab) -> list[str]:
    """(6) No process, alive or zombie, belongs to a call that is over."""
    wrong = ["not looked"]
    with trio.move_on_after(_DEAD_SECONDS):
        while wrong:
            wrong = [f"U6: zombie {p.pid} ({_name(p)})" for p in lab.descendants() if _is_zombie(p)]
            wrong += [f"U6: process {pid} outlived its call" for pid in _marked(lab.world.mark)]
            counts = await lab.process_counts()
            if any(count != 1 for count in counts):
                wrong.append(f"U6: idle trees have {counts} processes")
            # A worker and what starts it; the sibling's two are not looked at.
            extra = len(lab.descendants()) - 2 * (len(counts) - 1)
            if extra > 0:
                wrong.append(f"U6: {extra} processes below the launcher belong to no worker")
            if lab.broken:
                return ["U6: the launcher or the sibling's worker died"]
            if wrong:
                await trio.sleep(0.01)
    return wrong


def lives(process: psutil.Process) -> bool:
    """Whether a process runs; one that is only to be reaped does not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return "gone"


def _marked(name: str) -> list[int]:
    """Processes of this host that an attack gave its mark, by name or command line."""
    mark = name.encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        if any(mark in _read(f"/proc/{entry}/{part}") for part in ("comm", "cmdline")):
            found.append(int(entry))
    return found


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def end_marked(lab: Lab) -> None:
    """End what got away: it is ours, and must not be left to the host."""
    for pid in _marked(lab.world.mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _descriptors(lab: Lab) -> Counter[str]:
    """Count what this process holds, by what it is, without what workers account for."""
    found: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the listing's own
        kind = re.sub(r"[0-9]+", "", link)
        # A view's scratch is mounted nowhere here, so its descriptor leads to a root of its own.
        scratch = "/scratch" in link or (lab.on_view and link == "/")
        found["scratch" if scratch else kind] += 1
    stats = lab.runtime.statistics()
    # A worker that died while idle is noticed when a call would take it: until then its
    # pipes are open, and its pidfd is not.
    found["pipe:[]"] -= _PIPES_PER_WORKER * stats.pool.live
    found["anon_inode:[pidfd]"] -= stats.live_trees
    found["scratch"] = max(0, found["scratch"] - stats.pool.live)
    return found


def _changed(lab: Lab, before: Footing) -> dict[str, int]:
    gc.collect()
    now, then = _descriptors(lab), before.descriptors
    return {kind: now[kind] - then[kind] for kind in {*now, *then} if now[kind] != then[kind]}


async def _footprint(lab: Lab, before: Footing) -> list[str]:
    """(7) Descriptors exactly, threads up to those trio keeps."""
    problems = []
    changed = _changed(lab, before)
    # Race: a spare that is being started has its pipes before it counts as live. What
    # leaks stays.
    with trio.move_on_after(_DEAD_SECONDS):
        while changed:
            await trio.sleep(0.01)
            changed = _changed(lab, before)
    if changed:
        problems.append(f"U7: descriptors changed by {changed}")
    threads = len(os.listdir("/proc/self/task"))
    if threads > before.threads + _SPARE_THREADS:
        problems.append(f"U7: {threads} threads, {before.threads} before")
    return problems


def grown_bytes(before: Footing) -> int:
    """(7) Growth of the supervisor's memory since ``before``."""
    return _resident() - before.rss


async def _scratch(lab: Lab) -> list[str]:
    """(9) Private directories on disk belong to live workers, each with one."""
    excess = 1
    with trio.move_on_after(_REMOVED_SECONDS):
        while excess > 0:
            live = lab.runtime.statistics().pool.live if lab.tier == "baseline" else 0
            excess = len(lab.scratch_folders()) - live
            if excess > 0:
                await trio.sleep(0.02)
    return [f"U9: {excess} scratch folders belong to no worker"] if excess > 0 else []


async def benign(lab: Lab, *tools: str | None) -> list[str]:
    """(8) Benign calls, to the same and to another plugin, succeed within a second each."""
    problems = []
    for name in filter(None, tools):
        result = await lab.call(name, seconds=10, good=True)
        if result.text != "good" or result.is_error:
            problems.append(f"U8: {name} answered {result.code}: {result.text[:200]}")
        bound = _BENIGN_SECONDS * 1000 * allowance()
        if result.elapsed_ms > bound:
            problems.append(f"U8: {name} took {result.elapsed_ms:.0f} ms, over {bound:.0f}")
    return problems
