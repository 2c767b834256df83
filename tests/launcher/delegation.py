"""Control groups that belong to an ordinary user, as a service manager would delegate them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.launcher.cgroup import parse_membership, parse_mounts

__all__ = ["delegated_groups", "remove_groups"]

_NAME = f"raw-test-{os.getpid()}"
_CONTROLLERS = ("memory", "pids", "cpu")


@contextmanager
def delegated_groups(user: int) -> Iterator[None]:
    """Be in groups of ``user`` while the block starts a process of that user.

    Nothing happens where only version 2 is mounted or groups can't be made: a launcher then
    says that it has none, and the tests that need one say so. ``remove_groups`` ends them.
    """
    homes: list[Path] = []
    try:
        with contextlib.suppress(OSError):
            for home in _homes():
                group = home / _NAME
                group.mkdir(exist_ok=True)
                for path in (group, *group.iterdir()):
                    if path.is_file() or path == group:
                        os.chown(path, user, user)
                (group / "cgroup.procs").write_text(str(os.getpid()))
                homes.append(home)
        yield
    finally:
        for home in homes:
            (home / "cgroup.procs").write_text(str(os.getpid()))


def remove_groups() -> None:
    """Remove the groups, unless a process of another test is in them still."""
    for home in _homes():
        with contextlib.suppress(OSError):
            (home / _NAME).rmdir()


def _homes() -> list[Path]:
    membership = parse_membership(Path("/proc/self/cgroup").read_text())
    mounts = parse_mounts(Path("/proc/self/mountinfo").read_text())
    homes = []
    for controller in _CONTROLLERS:
        if controller in mounts and controller in membership:
            root, point = mounts[controller]
            homes.append(Path(point, os.path.relpath(membership[controller], root)))
    return homes
