"""What a call may leave behind, and what has to be undone before the next one."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from ..limits import Limits
from .spec import WorkerSpec
from .worker import Worker

__all__ = ["record_modes", "restore_modes", "retire_reason"]

_TOLERATED_FDS = 8
"""Runtimes open a few descriptors of their own at the first use of some feature."""


def retire_reason(worker: Worker, spec: WorkerSpec, limits: Limits) -> str | None:
    """Say why a worker must not serve again, from what its last call left behind."""
    if spec.plan.isolation == "fresh":
        return "fresh isolation"
    if worker.calls >= limits.max_calls:
        return "call count"
    left = worker.left
    if left is None:
        return None
    for name in () if left.is_clean else left.names:
        if name != "fds" or left.fds > _TOLERATED_FDS:
            return f"left {name}"
    if worker.base_rss == 0:
        worker.base_rss = left.rss_bytes
    elif left.rss_bytes - worker.base_rss > limits.growth_bytes:
        return "growth"
    return None


def record_modes(store: Path) -> dict[Path, int]:
    """Return the modes that the directories above the snapshots, and theirs, should keep."""
    base = store.parent.parent
    kept = {store.parent: 0o700, store: 0o700}
    status = base.stat()
    if status.st_uid == os.geteuid():
        kept = {base: stat.S_IMODE(status.st_mode), **kept}
    return kept


def restore_modes(modes: Mapping[Path, int]) -> None:
    """Undo what a plugin did to directories of ours, outer ones first, so that others still load.

    Landlock has no right for ``chmod``: where there is no mount namespace, a handler with
    our uid can lock us out of our own directories, though not read or write in them.
    """
    for path, mode in modes.items():
        if path.exists() and stat.S_IMODE(path.stat().st_mode) != mode:
            path.chmod(mode)
