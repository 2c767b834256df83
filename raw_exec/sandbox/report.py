"""What is in force around a worker, as the launcher measured it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InternalError

__all__ = ["TIERS", "Enforcement", "parse_enforcement"]

TIERS = ("none", "baseline", "namespaces", "cgroup")
"""Weakest first. Each tier includes the ones before it."""


@dataclass(frozen=True, slots=True)
class Enforcement:
    """Restrictions in force on one worker.

    Args:
        tier: The highest tier all of whose parts are in force.
        landlock: Kernel ABI in use, 0 for none.
        seccomp: The system call filter is in force.
        namespaces: Kinds that are private.
        cgroup: ``"v2"``, ``"v1"`` or ``None``.
        rlimits: Names of the resource limits set.
        no_new_privs: Setuid programs are inert.
        capabilities_dropped: No capability is left.
        uid: User id it runs as.
        network: ``"none"``, ``"loopback"`` or ``"host"``.
        processes: ``"none"`` or ``"allowed"``.
        view: Writable trees are copy-on-write views; the call's changes are settled after it.
        sessions: How many it may have at a time; 0 where only its processes are counted.
    """

    tier: str
    landlock: int
    seccomp: bool
    namespaces: tuple[str, ...]
    cgroup: str | None
    rlimits: tuple[str, ...]
    no_new_privs: bool
    capabilities_dropped: bool
    uid: int
    network: str
    processes: str
    view: bool = False
    sessions: int = 0

    def lines(self) -> tuple[str, ...]:
        """Describe each restriction in a line for people."""
        if self.tier == "none":
            return ("not confined: the operator turned the sandbox off for this tool",)
        out = [f"tier {self.tier}, as uid {self.uid} without capabilities"]
        gaps = _landlock_gaps(self.landlock, bool(self.namespaces))
        out.append(f"files: Landlock ABI {self.landlock}" + (f"; {gaps}" if gaps else ""))
        out.append("system calls: filtered by seccomp" if self.seccomp else "system calls: open")
        spaces = ", ".join(self.namespaces) or "none; other processes of this user can be listed"
        out.append(f"namespaces: {spaces}")
        out.append(
            f"memory and processes: capped by cgroup {self.cgroup}"
            if self.cgroup
            else "memory and processes: capped by resource limits, per process"
        )
        out.append(f"network: {self.network}")
        within = f", in {self.sessions} sessions at most" if self.sessions else ""
        out.append(f"new processes: {self.processes}{within}")
        if self.view:
            out.append("writable folders: copy-on-write views, settled after the call")
        return tuple(out)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON data, in the launcher protocol's spelling."""
        return {
            "tier": self.tier,
            "landlock": self.landlock,
            "seccomp": self.seccomp,
            "namespaces": list(self.namespaces),
            "cgroup": self.cgroup,
            "rlimits": list(self.rlimits),
            "no_new_privs": self.no_new_privs,
            "capabilities_dropped": self.capabilities_dropped,
            "uid": self.uid,
            "network": self.network,
            "processes": self.processes,
            "view": self.view,
            "sessions": self.sessions,
        }


def _landlock_gaps(abi: int, mount_namespace: bool) -> str:
    gaps = []
    if not mount_namespace:
        gaps.append("existence and mode of other files are visible and own files' modes changeable")
    if 0 < abi < 3:
        gaps.append("truncating own files elsewhere is not denied")
    if 0 < abi < 6:
        gaps.append("signals are limited by the filter only")
    return ", ".join(gaps)


def parse_enforcement(raw: Mapping[str, Any]) -> Enforcement:
    """Read ENFORCED.

    Raises:
        InternalError: A field is missing or unknown: supervisor and launcher differ.
    """
    try:
        values = dict(raw)
        return Enforcement(
            **{
                **values,
                "namespaces": tuple(values["namespaces"]),
                "rlimits": tuple(values["rlimits"]),
            }
        )
    except (KeyError, TypeError) as exc:
        raise InternalError("internal", f"launcher reported an unknown enforcement: {exc}") from exc
