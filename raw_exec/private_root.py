"""The directory a runtime keeps to itself: snapshots and workers' scratch.

It is locked while its runtime lives, so the next runtime of the same user can tell what
an earlier one, killed by force, left behind, and removes it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ._resources import launcher_module

__all__ = ["open_private_root", "remove_tree"]

_PREFIX = "raw-exec-"
_LOCK = "lock"


@contextmanager
def open_private_root(parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Make a directory of mode 0700, remove it at the end, and sweep stale ones first.

    Args:
        parent: Where to make it; the user's temporary directory by default.
    """
    base = Path(parent) if parent is not None else Path(tempfile.gettempdir())
    _sweep(base)
    root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base)).resolve()
    new = root / f"{_LOCK}.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Race: another runtime may sweep now; it looks for this name, and finds it locked.
        new.rename(root / _LOCK)
        yield root
    finally:
        remove_tree(root)
        os.close(lock)


def _sweep(base: Path) -> None:
    for path in base.glob(f"{_PREFIX}*"):
        try:
            status = path.lstat()
            if not path.is_dir() or path.is_symlink() or status.st_uid != os.geteuid():
                continue
            fd = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # not ours, or just being made or removed by its owner
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(path)
        except BlockingIOError:
            pass  # its runtime is alive
        finally:
            os.close(fd)


def remove_tree(root: Path) -> bool:
    """Remove a tree that a tool may have made, as the launcher does; links are not followed.

    Returns:
        Whether it is gone.
    """
    try:
        parent = os.open(root.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        return bool(launcher_module("scratch").remove(parent, root.name))
    finally:
        os.close(parent)
