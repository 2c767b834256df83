"""Answers for ``raw tools explain``: what a plan grants, and why a path is or is not."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Any

from .plan import SandboxPlan
from .runtime_files import RuntimeFiles

__all__ = ["PathVerdict", "explain_effects", "explain_network", "explain_path", "explain_plan"]


@dataclass(frozen=True, slots=True)
class PathVerdict:
    """Whether a plan grants a path.

    Args:
        path: The path asked about, lexically normal.
        read: It may be read.
        write: It may be changed.
        grant: The grant that decides, ``None`` when there is none.
        reason: One line for people.
    """

    path: str
    read: bool
    write: bool
    grant: str | None
    reason: str


def explain_plan(plan: SandboxPlan) -> dict[str, Any]:
    """Return a plan as JSON data, in the order a person reads it."""
    return {
        "profile": plan.profile,
        "confined": plan.sandbox,
        "tier": plan.tier,
        "isolation": plan.isolation,
        "effects": plan.effects,
        "commit": plan.commit,
        "changes": explain_effects(plan),
        "copy_bytes": plan.copy_bytes,
        "read": list(plan.read),
        "write": list(plan.write),
        "network": plan.network,
        "processes": "allowed" if plan.processes else "none",
        "memory_bytes": plan.memory_bytes,
        "scratch_bytes": plan.scratch_bytes,
        "warnings": list(plan.warnings),
        "key": plan.key,
    }


def explain_effects(plan: SandboxPlan) -> str:
    """Say in one line what becomes of the files that a call changes."""
    if not plan.view:
        return "changed in place; what a tool describes is not checked"
    after = {
        "observed": "committed when it succeeds, and each is reported",
        "enforced": "committed only if it succeeds and has described every one",
    }[plan.effects]
    if plan.commit == "always":
        after = "committed also when it returns an error, and each is reported"
    return f"kept in a copy-on-write view of a process of its own; {after}"


def explain_path(
    plan: SandboxPlan, path: str, *, runtime: RuntimeFiles | None = None
) -> PathVerdict:
    """Say whether ``path`` would be readable and writable, and by which grant.

    Judges the name as written: the kernel judges the file it leads to, so a link
    inside a grant that points outside is denied although its name is granted.
    """
    wanted = "/" + posixpath.normpath("/" + path).lstrip("/")
    if not plan.sandbox:
        return PathVerdict(wanted, True, True, None, "the profile turns the sandbox off")
    for grants, writable in ((plan.write, True), (plan.read, False)):
        found = _covering(grants, wanted)
        if found is not None:
            access = "read and write" if writable else "read"
            return PathVerdict(
                wanted,
                True,
                writable,
                found,
                f"profile {plan.profile!r} grants {access} on {found!r}",
            )
    if runtime is not None:
        found = _covering(runtime.read, wanted)
        if found is not None:
            reason = f"the {runtime.name} runtime needs {found!r}; it is readable, never writable"
            return PathVerdict(wanted, True, False, found, reason)
    return PathVerdict(
        wanted, False, False, None, f"no grant of profile {plan.profile!r} covers it"
    )


def explain_network(plan: SandboxPlan) -> str:
    """Say in one line what the plan's network grant means."""
    if not plan.sandbox:
        return "the profile turns the sandbox off: the whole network"
    return {
        "none": "no sockets can be created",
        "loopback": "a private loopback; services of this host are not on it",
        "host": "the whole network, services on this host included",
    }[plan.network]


def _covering(grants: tuple[str, ...], path: str) -> str | None:
    covering = [g for g in grants if path == g or path.startswith(g.rstrip("/") + "/")]
    return max(covering, key=len, default=None)
