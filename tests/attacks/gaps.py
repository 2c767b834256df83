"""Known gaps by name. SECURITY.md lists the same sentences; a gap that closed fails its case."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["GAPS"]

GAPS: Mapping[str, str] = {
    "stat-oracle": "without a mount namespace a tool can ask whether a path exists, its size and "
    "times (stat, access), and change its working directory to it; contents and listings stay "
    "unreadable",
    "watch-oracle": "without a mount namespace a tool can be told (inotify) of changes, with file "
    "names, in folders that the account running raw_exec can read",
    "metadata-write": "without a mount namespace a tool can change mode and times of files that "
    "the account running raw_exec owns; contents, owners and extended attributes stay unchangeable",
    "scratch-watch": "without a mount namespace no kernel mechanism holds the sum of the files in "
    "the private directory: the launcher looks a few times a second and ends the tool, which by "
    "then may have written more; a single file is held exactly",
    "memory-sum": "without a cgroup memory is held for each process: a tool that may start "
    "processes can use the limit once for each of them, and memory files beside it",
    "process-list": "without a PID namespace a tool whose profile grants reading /proc can list "
    "the processes of the host with their command lines; their memory, environment and "
    "descriptors stay unreadable",
    "process-watch": "without a cgroup and as uid 0 the launcher counts the processes of a tool "
    "that may start them, every 20 ms; a fork bomb may for that long have more than are allowed",
    "cpu-share": "no tier gives a tool a share of the processors: what its time limit allows it "
    "can use on all of them; a cgroup only lets others go first. Where the kernel groups processes "
    "by session (sched_autogroup_enabled) and raw_exec runs as an ordinary user without a cgroup, "
    "a tool has at most 16 sessions at a time, so that what ends it gets its turn",
    "io-share": "no tier bounds how much a tool reads and writes in its time, nor how fast; what "
    "can lie there at one time is bounded in the private directory only",
    "shared-locks": "a tool can lock (flock) and watch (dnotify) files that it can read, the "
    "runtime's own included, which other tools can notice; nobody waits for such a lock",
}
