"""What a running spawn uses now, read from ``/proc`` and its cgroup."""

from __future__ import annotations

import os
from typing import Any

from .scratch import measure
from .spawn import Spawn
from .tree import descendants, process_count

__all__ = ["find_exceeded", "measure_usage"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


def _one(pid: int) -> tuple[int, int]:
    """Return resident bytes and CPU milliseconds of one process; zeros when gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:
            resident = int(statm.read().split()[1]) * _PAGE
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        return resident, (int(fields[11]) + int(fields[12])) * 1000 // _TICK
    except (OSError, ValueError, IndexError):
        return 0, 0


def measure_usage(spawn: Spawn | None) -> dict[str, Any]:
    """Return the ``usage`` fields of one spawn; zeros when it is gone."""
    pids: list[int] = []
    if spawn is not None and spawn.worker_pid is not None:
        pids = [spawn.worker_pid, *descendants(spawn.worker_pid)]
        if spawn.main_pid is not None and spawn.main_pid != spawn.worker_pid:
            pids = descendants(spawn.main_pid) or pids
    parts = [_one(pid) for pid in pids]
    scratch = 0
    if spawn is not None and spawn.scratch_fd is not None:
        scratch = measure(spawn.scratch_fd).bytes
    return {
        "rss_bytes": sum(resident for resident, _ in parts),
        "cpu_ms": sum(cpu for _, cpu in parts),
        "processes": len(pids),
        "scratch_bytes": scratch,
        "memory_peak_bytes": spawn.leaf.peak() if spawn is not None and spawn.leaf else None,
    }


def find_exceeded(spawn: Spawn) -> dict[str, Any] | None:
    """Say which limit, of those no kernel mechanism holds here, a spawn is over.

    In the baseline tier nothing caps the sum of a directory's files, nor, without a
    cgroup, the number of processes of a tree; the loop looks a few times a second. So a worker
    may exceed these for a moment, bounded by what it can write in that time.
    """
    plan = spawn.plan
    if spawn.state != "running" or not plan.sandbox:
        return None
    if spawn.scratch_fd is not None and not spawn.scratch_private and plan.scratch_bytes:
        used = measure(spawn.scratch_fd)
        if used.bytes > plan.scratch_bytes or not used.complete:
            return {"name": "scratch_bytes", "limit": plan.scratch_bytes, "used": used.bytes}
    # The kernel counts per user namespace, but exempts uid 0.
    counted = spawn.leaf is not None or (spawn.stub == "init" and os.getuid() != 0)
    if spawn.stub != "none" and not counted and plan.pids_max and spawn.main_pid:
        count = process_count(spawn.main_pid) - 1
        if count > plan.pids_max:
            return {"name": "pids_max", "limit": plan.pids_max, "used": count}
    return None
