"""What the process of a hook may do, and where it starts.

By default it may read its own snapshot, the working directory of the event and the folder
of the configuration; it writes nothing but its private scratch, has no network and starts
no other program. An entry ``hook/<selection ID>`` (or a glob that begins with ``hook/``) in
``sandbox.tools`` gives it another profile; no other glob does, so that a profile for tools
never widens a hook.

Not covered: a hook can read the configuration file, literal variables included.
"""

from __future__ import annotations

from pathlib import Path

from ..config import Config
from ..policy import compile_glob
from ..sandbox import SandboxPlan, derive_plan

__all__ = ["DEFAULT_PROFILE", "hook_plan", "hook_profile"]

DEFAULT_PROFILE = "hook"
"""Shown as the profile where no entry of ``sandbox.tools`` names one."""

_PREFIX = "hook/"
_SCRATCH_BYTES = 1024 * 1024


def hook_profile(config: Config, identity: str) -> str | None:
    """Return the name of the profile that the operator gives a hook, if he does."""
    wanted = _PREFIX + identity
    exact = config.sandbox.tools.get(wanted)
    if exact is not None:
        return exact
    found = None
    for glob, name in config.sandbox.tools.items():
        if glob.startswith(_PREFIX) and compile_glob(glob).match(wanted):
            found = name
    return found


def hook_plan(config: Config, identity: str, *, cwd: str) -> SandboxPlan:
    """Derive what a hook may do for an event.

    Args:
        config: The configuration.
        identity: Selection ID of the hook.
        cwd: Absolute working directory of the event.

    Raises:
        SandboxError: The profile that the configuration gives it can't be granted.
    """
    profile = hook_profile(config, identity)
    if profile is not None:
        return derive_plan(
            config.sandbox,
            tool_identity=_PREFIX + identity,
            profile=profile,
            cwd=cwd,
            config_directory=str(config.directory),
            home=str(Path.home()),
            limits=config.limits,
        )
    return SandboxPlan(
        profile=DEFAULT_PROFILE,
        read=tuple(sorted({str(config.directory), cwd})),
        write=(),
        network="none",
        processes=False,
        tier="baseline",
        isolation="fresh",
        effects="declared",
        sandbox=True,
        memory_bytes=config.limits.memory_bytes,
        scratch_bytes=min(config.limits.scratch_bytes, _SCRATCH_BYTES),
    )
