"""The copy-on-write view of one call, as the supervisor holds it.

It is taken before the call and read when the worker's whole tree is dead. Its descriptors keep
the upper layers; the worker never has a name for them.
"""

from __future__ import annotations

import os
from typing import Final

import trio

from ..pool import Child, ViewRoot
from . import clock
from .changes import ChangeSet
from .folders import open_root
from .observe import observe
from .observe_copy import observe_copy, read_manifest

__all__ = ["View", "start_of_call"]

_MANIFEST: Final = "manifest"
"""The launcher's name for the list beside a copy."""


async def start_of_call(began_ns: int) -> int:
    """Return a time that no file changed before ``began_ns`` is stamped with.

    Such a file would else look like one that was changed during the call. A file's stamp can
    be as fine as the clock or as coarse as a tick, so this waits until the coarse clock has
    passed the fine one's time, at most a tick; nothing of the call may look at the tree before.
    If cancelled, nothing is held.

    Args:
        began_ns: ``time.time_ns()`` when the dispatch began.
    """
    for _ in range(clock.MAX_LOOKS):
        if (now := clock.coarse_ns()) > began_ns:
            return now
        await trio.sleep(clock.LOOK_SECONDS)
    # The clock was set back: conflicts may be told that are none, never the reverse.
    return clock.coarse_ns()


class View:
    """The upper layers of one call's writable trees. Use ``take``; end with ``close``.

    Args:
        roots: The trees, as the launcher laid them out.
        uppers: A descriptor of each one's upper layer.
        manifests: For each that is a whole copy, a descriptor of the list of what was copied.
        started_ns: When the call began, from ``start_of_call``.
    """

    def __init__(
        self,
        roots: tuple[ViewRoot, ...],
        uppers: list[int],
        started_ns: int,
        manifests: dict[str, int] | None = None,
    ) -> None:
        self.roots = roots
        self.started_ns = started_ns
        self._uppers = uppers
        self._manifests = manifests or {}

    @classmethod
    def take(cls, child: Child, started_ns: int) -> View:
        """Take hold of a worker's views before it ends."""
        uppers: list[int] = []
        manifests: dict[str, int] = {}
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            for root in child.views:
                uppers.append(os.open(root.upper, flags | os.O_DIRECTORY, dir_fd=child.scratch_fd))
                if root.copied:
                    beside = f"{os.path.dirname(root.upper)}/{_MANIFEST}"
                    manifests[root.path] = os.open(beside, flags, dir_fd=child.scratch_fd)
        except BaseException:
            _close([*uppers, *manifests.values()])
            raise
        return cls(child.views, uppers, started_ns, manifests)

    def layers(self) -> tuple[tuple[ViewRoot, int], ...]:
        """Return each tree with a descriptor of its upper layer; valid until ``close``."""
        return tuple(zip(self.roots, self._uppers, strict=True))

    def is_untouched(self) -> bool:
        """Say whether there is nothing at all in the upper layers; a few system calls."""
        return not self._manifests and all(
            _is_empty(upper) and not _was_touched(root, upper)
            for root, upper in zip(self.roots, self._uppers, strict=True)
        )

    def change_sets(self) -> tuple[ChangeSet, ...]:
        """Read what was changed, tree by tree; trees without a change are left out.

        Blocks while it reads. The sets are valid until ``close``.

        Raises:
            CommitConflict: A tree is not the one that the view was put over.
            CommitRefused: Something can't be told as a change.
        """
        sets = []
        for root, upper in zip(self.roots, self._uppers, strict=True):
            if not root.copied and _is_empty(upper) and not _was_touched(root, upper):
                continue
            _check_identity(root)
            if root.copied:
                copied = read_manifest(self._manifests[root.path], root.path)
                changes = observe_copy(upper, root.path, copied, top_mode=root.mode)
            else:
                changes = observe(upper, root.path, started_ns=self.started_ns, top_mode=root.mode)
            if changes:
                identity = root.device, root.inode
                sets.append(ChangeSet(root.path, upper, self.started_ns, changes, identity))
        return tuple(sets)

    def is_full(self) -> bool:
        """Say whether the quota of the call's scratch is used up, in bytes or in files."""
        if not self._uppers:
            return False
        status = os.fstatvfs(self._uppers[0])
        return status.f_bavail == 0 or status.f_favail == 0

    def close(self) -> None:
        """Let the upper layers go. Idempotent."""
        _close(self._uppers)
        _close(list(self._manifests.values()))
        self._manifests.clear()


def _close(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())


def _is_empty(upper: int) -> bool:
    with os.scandir(upper) as entries:
        return next(entries, None) is None


def _was_touched(root: ViewRoot, upper: int) -> bool:
    mode = os.fstat(upper).st_mode & 0o7777
    return mode != root.mode or any(
        not name.startswith("user.overlay.") for name in os.listxattr(upper)
    )


def _check_identity(root: ViewRoot) -> None:
    with open_root(root.path, (root.device, root.inode)):
        pass
