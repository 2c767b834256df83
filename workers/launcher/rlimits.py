"""Resource limits. ``RLIMIT_DATA`` caps private memory; ``RLIMIT_AS`` would break V8.

Does not cover shared mappings, ``/dev/shm`` or page cache: that takes a cgroup,
and without one the seccomp filter refuses anonymous shared mappings.
"""

from __future__ import annotations

import os
import resource

from .plan import HostPlan
from .steps import StepFailed

__all__ = ["apply_rlimits"]

_NAMES = {
    "data": resource.RLIMIT_DATA,
    "fsize": resource.RLIMIT_FSIZE,
    "nofile": resource.RLIMIT_NOFILE,
    "core": resource.RLIMIT_CORE,
    "cpu": resource.RLIMIT_CPU,
    "stack": resource.RLIMIT_STACK,
}
# Nothing a worker needs: locked memory escapes caps, message queues are kernel memory.
_ZERO = {
    "memlock": resource.RLIMIT_MEMLOCK,
    "msgqueue": resource.RLIMIT_MSGQUEUE,
    "nice": resource.RLIMIT_NICE,
    "rtprio": resource.RLIMIT_RTPRIO,
}


def _lower(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    # A stack limit is set soft and hard alike: a worker must not raise its own.
    resource.setrlimit(which, (value, value))
    if resource.getrlimit(which) != (value, value):
        raise StepFailed("rlimits", 0, f"limit {which} did not stay at {value}")


def apply_rlimits(plan: HostPlan, *, count_processes: bool) -> list[str]:
    """Set soft and hard limits of this process and read each back.

    Args:
        plan: Only ``core`` is applied when ``plan.sandbox`` is false.
        count_processes: This is a new user namespace, where ``RLIMIT_NPROC`` counts only
            the worker's own tasks. It never counts those of uid 0.

    Returns:
        The names of the limits in force.
    """
    wanted = dict(plan.rlimits)
    # Security: with 0 the kernel still pipes a core to a helper that core_pattern
    # names; 1 byte is too little for a file and switches the helper off as well.
    wanted["core"] = max(wanted.get("core", 0), 1)
    if not plan.sandbox:
        wanted = {"core": wanted["core"]}
    for name, value in wanted.items():
        _lower(_NAMES[name], value)
    names = sorted(wanted)
    if plan.sandbox:
        for which in _ZERO.values():
            _lower(which, 0)
        names += sorted(_ZERO)
        if plan.pids_max and os.getuid() != 0 and (count_processes or plan.processes):
            # The kernel counts tasks per user, in each user namespace apart.
            others = 0 if count_processes else _tasks_of_this_user()
            _lower(resource.RLIMIT_NPROC, others + plan.pids_max)
            names.append("nproc")
    return names


def _tasks_of_this_user() -> int:
    """Count the threads of every process with our real uid."""
    uid, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue  # It ended meanwhile.
    return count
