"""What a running spawn uses now, read from ``/proc`` and its cgroup."""

from __future__ import annotations

import os
from typing import Any

from .scratch import measure
from .spawn import Spawn
from .tree import descendants, process_count

__all__ = [
    "counts_processes",
    "find_process_excess",
    "find_scratch_excess",
    "measure_usage",
]

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


def find_scratch_excess(spawn: Spawn) -> dict[str, Any] | None:
    """Say whether the private directory is over its quota, where no file system holds it.

    In the baseline tier nothing caps the sum of a directory's files; the loop looks a few
    times a second, so the quota may be exceeded by what can be written in that time.
    """
    plan = spawn.plan
    if spawn.scratch_fd is None or spawn.scratch_private or not plan.scratch_bytes:
        return None
    used = measure(spawn.scratch_fd)
    if used.bytes <= plan.scratch_bytes and used.complete:
        return None
    return {"name": "scratch_bytes", "limit": plan.scratch_bytes, "used": used.bytes}


def counts_processes(spawn: Spawn) -> bool:
    """Say whether the loop has to count a tree's processes, since the kernel does not.

    The kernel counts in a cgroup, and per user (``RLIMIT_NPROC``) for all but uid 0.
    """
    if spawn.stub == "none" or spawn.leaf is not None or not spawn.plan.pids_max:
        return False
    return os.getuid() == 0


def find_process_excess(spawn: Spawn) -> dict[str, Any] | None:
    """Say whether a tree has more processes than it may."""
    limit = spawn.plan.pids_max
    if spawn.main_pid is None:
        return None
    count = process_count(spawn.main_pid, limit) - 1
    return {"name": "pids_max", "limit": limit, "used": count} if count > limit else None
