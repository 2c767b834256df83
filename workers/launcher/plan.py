"""HOSTPLAN, checked: what the supervisor asks a spawn to be confined to.

The supervisor is trusted, its messages are not assumed to be free of bugs: a
plan with an unknown key or a wrong type is refused before anything is forked.
"""

from __future__ import annotations

from typing import NamedTuple

from .steps import StepFailed

__all__ = ["TIERS", "HostPlan", "parse_plan"]

TIERS = ("baseline", "namespaces", "cgroup")
NETWORKS = ("none", "loopback", "host")
RLIMITS = ("data", "fsize", "nofile", "core", "cpu", "stack")


class HostPlan(NamedTuple):
    """One spawn's confinement, in the launcher's own terms.

    Args:
        read: Absolute paths that may be read, recursively.
        write: Absolute paths that may be read and changed, recursively.
        exec: Absolute paths that may be executed, recursively.
        network: ``"none"``, ``"loopback"`` (a private one) or ``"host"``.
        processes: Whether new processes may be created.
        tier: The least that must be in force.
        use: Optional mechanisms that may be used: ``namespaces``, ``cgroup``.
        sandbox: ``False`` turns confinement off (trusted tools only).
        view: Writable trees are copy-on-write; what a call changes stays in its scratch.
        copy_bytes: Where no view can be mounted, copy the trees if they take no more room than
            this; 0 to refuse.
        rlimits: Name (lower case) to value, in the kernel's unit for each.
        memory_bytes: For a memory cgroup; 0 for none.
        scratch_bytes: Quota of the private directory; 0 for none.
        pids_max: Processes and threads; 0 for none.
    """

    read: tuple[str, ...]
    write: tuple[str, ...]
    exec: tuple[str, ...]
    network: str
    processes: bool
    tier: str
    use: tuple[str, ...]
    sandbox: bool
    rlimits: dict[str, int]
    memory_bytes: int
    scratch_bytes: int
    pids_max: int
    view: bool = False
    copy_bytes: int = 0


def _refuse(message: str) -> StepFailed:
    return StepFailed("plan", 0, message)


def _paths(raw: dict[str, object], key: str) -> tuple[str, ...]:
    value = raw.get(key, [])
    if not isinstance(value, list):
        raise _refuse(f"plan.{key} is not a list of paths: {value!r:.80}")
    for path in value:
        if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
            raise _refuse(f"plan.{key} has an entry that is not an absolute path: {path!r:.80}")
        if ".." in path.split("/"):
            raise _refuse(f"plan.{key} has a path with '..': {path!r:.80}")
    return tuple(value)


def _number(raw: dict[str, object], key: str) -> int:
    value = raw.get(key) or 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _refuse(f"plan.{key} is not a number of at least 0: {value!r:.80}")
    return value


def _flag(raw: dict[str, object], key: str) -> bool:
    value = raw.get(key)
    if not isinstance(value, bool):
        raise _refuse(f"plan.{key} is not true or false: {value!r:.80}")
    return value


def _choice(raw: dict[str, object], key: str, choices: tuple[str, ...]) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or value not in choices:
        raise _refuse(f"plan.{key} is {value!r:.80}; it is one of {', '.join(choices)}")
    return value


def parse_plan(raw: object) -> HostPlan:
    """Check a decoded HOSTPLAN.

    Raises:
        StepFailed: With step ``"plan"``: an unknown key, a wrong type or value.
    """
    if not isinstance(raw, dict):
        raise _refuse(f"plan is not an object: {raw!r:.80}")
    unknown = sorted(set(raw) - set(HostPlan._fields))
    if unknown:
        raise _refuse(f"plan has unknown keys: {', '.join(map(repr, unknown))}")
    use = raw.get("use", [])
    if not isinstance(use, list) or any(item not in ("namespaces", "cgroup") for item in use):
        raise _refuse(f"plan.use is {use!r:.80}; entries are namespaces, cgroup")
    rlimits = raw.get("rlimits") or {}
    if not isinstance(rlimits, dict):
        raise _refuse(f"plan.rlimits is not an object: {rlimits!r:.80}")
    rlimits = {name: value for name, value in rlimits.items() if value is not None}
    for name, value in rlimits.items():
        if (
            name not in RLIMITS
            or isinstance(value, bool)
            or not isinstance(value, int)
            or value < 0
        ):
            raise _refuse(f"plan.rlimits.{name} is {value!r:.40}; names are {', '.join(RLIMITS)}")
    if raw.get("view") and not raw.get("sandbox"):
        raise _refuse("plan.view needs plan.sandbox")
    return HostPlan(
        read=_paths(raw, "read"),
        write=_paths(raw, "write"),
        exec=_paths(raw, "exec"),
        network=_choice(raw, "network", NETWORKS),
        processes=_flag(raw, "processes"),
        tier=_choice(raw, "tier", TIERS),
        use=tuple(use),
        sandbox=_flag(raw, "sandbox"),
        rlimits=rlimits,
        memory_bytes=_number(raw, "memory_bytes"),
        scratch_bytes=_number(raw, "scratch_bytes"),
        pids_max=_number(raw, "pids_max"),
        view=_flag({"view": False, **raw}, "view"),
        copy_bytes=_number(raw, "copy_bytes"),
    )
