"""Questions about a sandbox plan: whether a path or a host is among what it grants."""

from __future__ import annotations

import os
from typing import Any

from ..errors import WorkerError
from ..pool import find_node
from ..sandbox import (
    RuntimeFiles,
    SandboxPlan,
    explain_network,
    explain_path,
    node_files,
    python_files,
)

__all__ = ["decide_host", "decide_path", "find_runtime_files"]

_LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")


def find_runtime_files(language: str) -> RuntimeFiles | None:
    """Return what the language's runtime needs to read, ``None`` if it is not installed."""
    if language != "esm":
        return python_files()
    try:
        return node_files(find_node().path)
    except WorkerError:
        return None


def decide_path(
    plan: SandboxPlan, path: str, cwd: str, runtime: RuntimeFiles | None
) -> dict[str, Any]:
    """Say whether a handler could read and write a path, and which grant says so.

    The kernel judges where a path leads, so links are followed as they are now.
    """
    named = os.path.normpath(os.path.join(cwd, path))
    real = os.path.realpath(named)
    verdict = explain_path(plan, real, runtime=runtime)
    reason = verdict.reason
    if real != named and plan.sandbox:
        reason += f"; it leads to {real!r}, which is what counts"
    return {
        "path": named,
        "real_path": real,
        "read": verdict.read,
        "write": verdict.write,
        "grant": verdict.grant,
        "reason": reason,
    }


def decide_host(plan: SandboxPlan, host: str) -> dict[str, Any]:
    """Say whether a handler could connect to a host."""
    allowed = not plan.sandbox or plan.network == "host"
    if plan.network == "loopback":
        allowed = allowed or host.lower() in _LOOPBACK
    return {"host": host, "allowed": allowed, "reason": explain_network(plan)}
