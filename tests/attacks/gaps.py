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
}
