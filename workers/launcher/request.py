"""What a set-up child is told: the spawn, and what the launcher decided about it.

Sent as JSON to children forked by the zygote, handed over in memory to the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .plan import HostPlan, parse_plan
from .steps import StepFailed

__all__ = ["SpawnRequest", "decode_request", "encode_request"]


class SpawnRequest(NamedTuple):
    """One spawn.

    Args:
        id: The supervisor's name for it.
        kind: ``"exec"`` or ``"python"``.
        argv: Program and arguments (kind ``exec``); ``argv[0]`` is absolute.
        env: The whole environment, without ``HOME`` and the temporary directories.
        cwd: Working directory.
        targets: Descriptor numbers the received descriptors get.
        plan: The confinement.
        scratch: The private directory on disk, ``None`` without one.
        abi: Landlock version to use, 0 for none.
        namespaces: Build the private namespaces.
        stub: ``"none"``, ``"tree"`` (a subreaper) or ``"init"`` (PID 1 of a namespace).
        cgroup_join: Files to write the process id to.
        cgroup: ``"v2"``, ``"v1"`` or ``None``.
        memory_capped: A memory cgroup limit is in force.
        launcher_pid: Who the parent must be.
        sessions: How many sessions the tree may have; 0 for no bound.
    """

    id: str
    kind: str
    argv: list[str]
    env: dict[str, str]
    cwd: str
    targets: list[int]
    plan: HostPlan
    scratch: str | None
    abi: int
    namespaces: bool
    stub: str
    cgroup_join: list[str]
    cgroup: str | None
    memory_capped: bool
    launcher_pid: int
    sessions: int


def encode_request(request: SpawnRequest) -> dict[str, Any]:
    """Return the request as JSON data."""
    return {**request._asdict(), "plan": request.plan._asdict()}


def decode_request(raw: dict[str, Any]) -> SpawnRequest:
    """Read back what ``encode_request`` made."""
    return SpawnRequest(**{**raw, "plan": parse_plan(raw["plan"])})


def _strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) and "\0" not in v for v in value)


def check_message(raw: dict[str, Any], descriptors: int) -> None:
    """Check the supervisor's ``spawn`` message, the plan apart.

    Raises:
        StepFailed: With step ``"request"``.
    """

    def refuse(text: str) -> StepFailed:
        return StepFailed("request", 0, text)

    kind, argv, env = raw.get("kind"), raw.get("argv"), raw.get("env")
    if kind not in ("exec", "python"):
        raise refuse(f"kind is {kind!r:.40}; it is exec or python")
    if not _strings(argv):
        raise refuse("argv is not a list of strings without NUL")
    assert isinstance(argv, list)  # noqa: S101 - for the type checker
    if kind == "exec" and not (argv and argv[0].startswith("/")):
        raise refuse("argv[0] is not an absolute path")
    if not isinstance(env, dict) or not _strings([*env.keys(), *env.values()]):
        raise refuse("env is not an object of strings without NUL")
    if any("=" in name or not name for name in env):
        raise refuse("env has an empty name or one with '='")
    cwd = raw.get("cwd")
    if not isinstance(cwd, str) or not cwd.startswith("/") or "\0" in cwd:
        raise refuse(f"cwd is not an absolute path: {cwd!r:.80}")
    targets = raw.get("fds")
    if not isinstance(targets, list) or any(type(t) is not int or not 0 <= t < 64 for t in targets):
        raise refuse(f"fds is {targets!r:.80}; numbers are 0 to 63")
    if len(set(targets)) != len(targets) or len(targets) != descriptors:
        raise refuse(f"fds names {len(set(targets))} numbers, {descriptors} descriptors came")
    name = raw.get("scratch")
    if name is not None and (
        not isinstance(name, str)
        or name in ("", ".", "..")
        or "/" in name
        or "\0" in name
        or len(name) > 200
    ):
        raise refuse(f"scratch is not a plain name: {name!r:.80}")
