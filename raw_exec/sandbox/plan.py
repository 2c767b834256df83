"""The sandbox plan: one profile, with this call's paths and limits put in.

Rules
1. A plan is pure data. Deriving it touches no file, so ``raw tools explain`` and a
   test need no kernel, and two calls with equal inputs share pooled workers.
2. Write implies read. Grants add up; a narrower grant takes nothing away.
3. A grant of something that does not exist grants nothing. It is not an error: a
   profile may name optional folders.
4. A variable without a value (``$CONFIG`` without a file) is an error, never ``/``.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ..config import ProfileSpec, SandboxConfig
from ..errors import SandboxError
from ..limits import Limits

__all__ = ["SandboxPlan", "derive_plan", "descriptor_plan", "in_view"]


@dataclass(frozen=True)
class SandboxPlan:
    """What one worker is granted, host details apart.

    Args:
        profile: Name of the profile it came from.
        read: Absolute paths, readable recursively, sorted; ``write`` is included.
        write: Absolute paths, changeable recursively, sorted.
        network: ``"none"``, ``"loopback"`` (a private one) or ``"host"``.
        processes: Whether new processes and programs are allowed.
        tier: The least enforcement that is acceptable.
        isolation: ``"pooled"`` or ``"fresh"``.
        effects: ``"declared"``; ``"observed"`` or ``"enforced"`` for a call on a copy-on-write
            view of ``write``.
        sandbox: ``False``: no confinement, written down by the operator.
        memory_bytes: Private memory of the worker.
        scratch_bytes: Files in its private directory.
        warnings: What a person should know about these grants.
        commit: ``"success"``, or ``"always"`` to commit also what a call changed that returned
            an error.
        copy_bytes: Where no view can be mounted: copy up to this much instead; 0 refuses.
    """

    profile: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    network: str
    processes: bool
    tier: str
    isolation: str
    effects: str
    sandbox: bool
    memory_bytes: int
    scratch_bytes: int
    warnings: tuple[str, ...] = ()
    commit: str = "success"
    copy_bytes: int = 0

    @property
    def view(self) -> bool:
        """Whether a call runs on a copy-on-write view of what it may write."""
        return self.effects != "declared"

    @cached_property
    def key(self) -> str:
        """Stable hash of everything that decides whether two calls may share a worker."""
        facts = [
            self.read,
            self.write,
            self.network,
            self.processes,
            self.tier,
            self.isolation,
            self.sandbox,
            self.memory_bytes,
            self.scratch_bytes,
            self.effects,
            self.copy_bytes,
        ]
        text = json.dumps(facts, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def derive_plan(
    config_sandbox: SandboxConfig,
    *,
    tool_identity: str,
    profile: str,
    cwd: str | Path,
    config_directory: str | Path | None,
    home: str | Path | None,
    limits: Limits,
) -> SandboxPlan:
    """Put a call's paths and limits into a profile.

    Args:
        config_sandbox: The checked ``sandbox`` section.
        tool_identity: For messages.
        profile: Name of the profile the tool runs under.
        cwd: Working directory of the call, for ``$CWD``.
        config_directory: Folder of the configuration file, for ``$CONFIG``.
        home: Home folder of the operator, for ``$HOME``.
        limits: For the memory and scratch bounds.

    Raises:
        SandboxError: An unknown profile, or a variable that has no value here.
    """
    spec = config_sandbox.profiles.get(profile)
    if spec is None:
        raise SandboxError(
            "sandbox_unavailable",
            f"sandbox profile {profile!r} does not exist",
            where=tool_identity,
            hint=f"profiles: {', '.join(config_sandbox.profiles)}",
            step="plan",
        )
    values = {"$CWD": cwd, "$CONFIG": config_directory, "$HOME": home}
    write = _substitute(spec.write, values, spec, tool_identity)
    read = _substitute(spec.read, values, spec, tool_identity)
    plan = SandboxPlan(
        profile=spec.name,
        read=tuple(sorted({*read, *write})),
        write=tuple(sorted(set(write))),
        network=spec.network,
        processes=spec.processes == "allowed",
        tier=spec.tier,
        isolation=spec.isolation,
        effects=spec.effects,
        sandbox=spec.sandbox != "none",
        memory_bytes=limits.memory_bytes,
        scratch_bytes=limits.scratch_bytes,
        warnings=tuple(_warnings(spec, read, write, home)),
        commit=spec.commit,
        copy_bytes=spec.copy_bytes,
    )
    return _on_view(plan, spec.effects) if plan.view else plan


def in_view(plan: SandboxPlan) -> SandboxPlan:
    """Return the plan of the same tool for a call that runs on a view: a dry run, for one.

    Raises:
        SandboxError: The plan has no sandbox, so there is nothing to put a view in.
    """
    if plan.view:
        return plan
    if not plan.sandbox:
        raise SandboxError(
            "sandbox_unavailable",
            f"profile {plan.profile!r} runs tools without any confinement, and a copy-on-write "
            "view needs it",
            step="view",
            hint="give the tool a profile with the sandbox on",
        )
    return _on_view(plan, "observed")


def _on_view(plan: SandboxPlan, effects: str) -> SandboxPlan:
    # A view is a mount; its upper layer holds the changes of one call.
    tier = "namespaces" if plan.tier == "baseline" else plan.tier
    return replace(plan, effects=effects, isolation="fresh", tier=tier)


def descriptor_plan(limits: Limits) -> SandboxPlan:
    """Return the plan of a worker that only describes calls: it may touch nothing.

    It always runs in a process of its own kind and is never the worker that handles.
    """
    return SandboxPlan(
        profile="descriptor",
        read=(),
        write=(),
        network="none",
        processes=False,
        tier="baseline",
        isolation="pooled",
        effects="declared",
        sandbox=True,
        memory_bytes=limits.memory_bytes,
        scratch_bytes=min(limits.scratch_bytes, 1024 * 1024),
    )


def _substitute(
    grants: tuple[str, ...],
    values: dict[str, str | Path | None],
    spec: ProfileSpec,
    tool_identity: str,
) -> list[str]:
    out = []
    for grant in grants:
        head, slash, rest = grant.partition("/")
        path = grant
        if head.startswith("$"):
            value = values.get(head)
            if value is None:
                raise SandboxError(
                    "sandbox_unavailable",
                    f"sandbox profile {spec.name!r} grants {grant!r}, and {head} has no value here",
                    where=tool_identity,
                    hint="write an absolute path, or run where it has one",
                    step="plan",
                )
            path = f"{value}{slash}{rest}"
        if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
            raise SandboxError(
                "sandbox_unavailable",
                f"sandbox profile {spec.name!r} grants {path!r}, which is not a plain "
                "absolute path",
                where=tool_identity,
                hint="an absolute path without '..'",
                step="plan",
            )
        # normpath keeps two leading slashes, which POSIX leaves open.
        out.append("/" + posixpath.normpath(path).lstrip("/"))
    return out


def _warnings(
    spec: ProfileSpec, read: list[str], write: list[str], home: str | Path | None
) -> list[str]:
    out = []
    if spec.sandbox == "none":
        out.append(f"profile {spec.name!r} runs tools without any confinement")
    wide = {"/", "/home", "/root", "/etc", "/run", "/var", "/proc"}
    if home is not None:
        wide.add(posixpath.normpath(str(home)))
    for access, paths in (("write", write), ("read", read)):
        out += [f"grants {access} on all of {path!r}" for path in paths if path in wide]
    if spec.network == "host":
        out.append("grants the whole network, services on this host included")
    return out
