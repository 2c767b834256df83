"""Findings of ``raw doctor``: what this host can enforce, what is missing, how to get it."""

from __future__ import annotations

import errno as errno_names
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Finding", "best_tier", "derive_findings"]

_FEATURES = (
    ("landlock", "files are confined by Landlock", "baseline"),
    ("seccomp", "system calls are filtered by seccomp", "baseline"),
    ("namespaces", "workers get private namespaces", "namespaces"),
    ("cgroup", "memory and processes are capped by a cgroup", "cgroup"),
    ("overlay", "calls can run on a copy-on-write view of their files", None),
)
_LEVELS = ("none", "baseline", "namespaces", "cgroup")


@dataclass(frozen=True, slots=True)
class Finding:
    """One feature of the host.

    Args:
        feature: ``landlock``, ``seccomp``, ``namespaces``, ``cgroup`` or ``overlay``.
        works: It was used in a throw-away process and it denied what it should.
        message: One line for people: what works, or which step failed with what.
        hint: How to get it, when it is missing.
        tier: The tier that needs it, ``None`` for what profiles ask for by ``effects``.
        detail: JSON data: version, kinds, step, errno.
    """

    feature: str
    works: bool
    message: str
    hint: str | None
    tier: str | None
    detail: dict[str, Any]


def derive_findings(capabilities: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Turn CAPS into findings, one per feature, weakest tier first."""
    out = []
    for feature, meaning, tier in _FEATURES:
        found = capabilities[feature]
        works = bool(found["works"])
        if works:
            message = f"{meaning} ({_version(feature, found)})"
        else:
            number = found.get("errno") or 0
            code = errno_names.errorcode.get(number, "")
            reason = str(found.get("message") or "the probe did not say why")
            if code and code not in reason:
                reason = f"{code}: {reason}"
            message = f"{feature} is not available: step {found.get('step')!r} failed: {reason}"
        detail = {
            key: found[key]
            for key in ("abi", "version", "kinds", "controllers", "path", "step", "errno")
            if found.get(key) not in (None, [])
        }
        hint = None if works else found.get("hint")
        out.append(Finding(feature, works, message, hint, tier, detail))
    return tuple(out)


def _version(feature: str, found: Mapping[str, Any]) -> str:
    if feature == "landlock":
        return f"ABI {found['abi']}"
    if feature == "namespaces":
        return ", ".join(found["kinds"])
    if feature == "cgroup":
        return f"{found['version']}: {', '.join(found['controllers'])}"
    if feature == "overlay":
        return "effects 'observed' and 'enforced', dry runs"
    return "this architecture is supported"


def best_tier(capabilities: Mapping[str, Any]) -> str:
    """Return the highest tier this host can enforce; ``"none"`` below the baseline."""
    missing = {f.tier for f in derive_findings(capabilities) if not f.works}
    best = "none"
    for tier in _LEVELS[1:]:
        if tier in missing:
            break
        best = tier
    return best
