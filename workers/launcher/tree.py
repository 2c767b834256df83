"""Find and kill every descendant, however it detached itself.

A subreaper inherits orphans, so "no child left" (``ECHILD``) means "no descendant
left". Until then each round kills what it sees. Direct children are unreaped and
their numbers cannot be reused; deeper ones are killed through a pidfd that was
checked to be the same process, so a stranger is never hit.
"""

from __future__ import annotations

import os
import signal

__all__ = [
    "children_of",
    "descendants",
    "group_and_session",
    "kill_below",
    "process_count",
    "process_of",
    "session_count",
]


def children_of(pid: int) -> list[int]:
    """List the children of every thread of ``pid``; empty when it is gone."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as listing:
                found += [int(word) for word in listing.read().split()]
        except OSError:
            continue
    return found


def descendants(pid: int) -> list[int]:
    """List all descendants of ``pid``, nearest first."""
    seen: dict[int, None] = {}
    frontier = children_of(pid)
    while frontier:
        fresh = [child for child in frontier if child not in seen]
        seen.update(dict.fromkeys(fresh))
        frontier = [grandchild for child in fresh for grandchild in children_of(child)]
    return list(seen)


def _status_of(pid: int) -> list[bytes]:
    """Return the fields of a process after its name: state, parent, group, session, ..."""
    with open(f"/proc/{pid}/stat", "rb") as status:
        # The command name may hold anything, ')' and spaces included.
        return status.read().rpartition(b")")[2].split()


def _parent_of(pid: int) -> int:
    return int(_status_of(pid)[1])


def _kill_deep(pid: int, known: set[int]) -> None:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        # Race: the number could have been reused since it was listed; a process
        # whose parent is one of ours is ours.
        if _parent_of(pid) in known:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except (OSError, ValueError, IndexError):
        pass  # It ended meanwhile.
    finally:
        os.close(handle)


def kill_below(pid: int, *, spare: set[int] | None = None) -> int:
    """Send SIGKILL to each descendant of ``pid`` seen now; return how many.

    Args:
        pid: Usually the caller itself; its children must be the caller's to reap.
        spare: Direct children to leave alone, with all below them.
    """
    direct = [child for child in children_of(pid) if child not in (spare or ())]
    for child in direct:
        try:
            os.kill(child, signal.SIGKILL)
        except OSError:
            pass  # Already ended, waiting to be reaped.
    count = len(direct)
    known = {pid, *direct}
    for child in direct:
        for deep in descendants(child):
            known.add(deep)
            _kill_deep(deep, known)
            count += 1
    return count


def process_count(pid: int, stop: int = 1 << 30) -> int:
    """Count ``pid`` and its descendants, giving up beyond ``stop``."""
    count = 1
    frontier = children_of(pid)
    while frontier and count <= stop:
        count += len(frontier)
        frontier = [below for child in frontier for below in children_of(child)]
    return count


def group_and_session(pid: int) -> tuple[int, int] | None:
    """Return the process group and the session of a process; ``None`` when it is gone."""
    try:
        fields = _status_of(pid)
        return int(fields[2]), int(fields[3])
    except (OSError, ValueError, IndexError):
        return None


def session_count(pid: int) -> int:
    """Count the sessions that the descendants of ``pid`` are in."""
    found = [group_and_session(below) for below in descendants(pid)]
    return len({both[1] for both in found if both is not None})


def process_of(pidfd: int) -> int | None:
    """Return a process's number in this PID namespace, ``None`` when it is reaped."""
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("Pid:"):
                number = int(line.split()[1])
                return number if number > 0 else None
    return None
