"""One spawned process tree, as the supervisor knows it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

__all__ = ["Child", "ExitNotice", "ViewRoot"]


@dataclass(frozen=True, slots=True)
class ExitNotice:
    """How a child ended.

    Args:
        code: Exit status, when it exited.
        signal: Signal number, when one killed it.
        core: Whether the kernel says it dumped core.
        cpu_ms: User and system time of the child and what it waited for.
        max_rss_bytes: Its largest resident size.
        oom: Evidence of an out-of-memory kill, ``{"source": ...}``, or ``None``.
        limit: A watched limit that was exceeded, ``{"name", "limit", "used"}``, or ``None``.
        killed_extra: Other processes of its tree that had to be killed.
        lost: The launcher died, so nothing else here is known.
    """

    code: int | None = None
    signal: int | None = None
    core: bool = False
    cpu_ms: int = 0
    max_rss_bytes: int = 0
    oom: Mapping[str, Any] | None = None
    limit: Mapping[str, Any] | None = None
    killed_extra: int = 0
    lost: bool = False

    def describe(self) -> str:
        """Return a phrase such as ``"exited with status 3"``."""
        if self.lost:
            return "was lost when the launcher died"
        if self.signal is not None:
            try:
                name = signal.Signals(self.signal).name
            except ValueError:
                name = f"signal {self.signal}"
            return f"was killed by {name}"
        return f"exited with status {self.code}"


@dataclass(frozen=True, slots=True)
class ViewRoot:
    """A writable tree that a child sees through a copy-on-write view.

    Args:
        path: Real path of the tree.
        upper: The view's upper layer, relative to the private directory.
        device: Of the tree's top when the view was mounted.
        inode: Of the tree's top when the view was mounted.
        mode: Permission bits that the upper layer's top was made with.
        read_only: The tree is on a read-only mount, and so is the view.
        copied: The upper layer is a whole copy, where no view could be mounted.
    """

    path: str
    upper: str
    device: int
    inode: int
    mode: int
    read_only: bool
    copied: bool = False


@dataclass(slots=True, eq=False)
class Child:
    """One spawned process tree.

    Args:
        id: Our name for it on the control socket.
        pid: Its process ID as the launcher sees it.
        pidfd: A descriptor for it; closed by ``Launcher`` at the exit notice.
        enforced: What the kernel enforces on it, as the launcher reports.
        scratch: Its private directory as the child sees it.
        scratch_fd: That directory, or -1; closed by ``Launcher`` at the exit notice.
        scratch_private: It is a file system of its own, with several directories in it.
        views: Its writable trees, when it sees views of them.
    """

    id: str
    pid: int
    pidfd: int
    enforced: dict[str, Any]
    scratch: str
    scratch_fd: int = -1
    scratch_private: bool = False
    views: tuple[ViewRoot, ...] = ()
    seen: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    """What ``note_seen`` found below the views."""
    scratch_clean: int = -1
    """What ``_scratch_mark`` said when the directory was known to be empty."""
    exit: ExitNotice | None = None
    exited: trio.Event = field(default_factory=trio.Event)
    on_exit: trio.CancelScope | None = None
    """A scope to cancel when the child ends, so that a reader needs no second task."""

    def __post_init__(self) -> None:
        self.note_clean()

    def note_clean(self) -> None:
        """Remember how the empty private directory looks."""
        self.scratch_clean = self._scratch_mark()

    def note_seen(self, paths: Iterable[str]) -> None:
        """Remember what lies at paths that a waiting child has looked up in a view.

        A view shows the tree below as it is when a name is first looked up, and goes on to
        show that; a child that waits for a call must not show what was replaced since.
        """
        for root in self.views:
            self.seen[root.path] = (root.device, root.inode)
        tops = tuple(root.path.rstrip("/") + "/" for root in self.views)
        self.seen.update({path: _identity(path) for path in paths if path.startswith(tops)})

    @property
    def is_copied(self) -> bool:
        """Whether it works on a copy, which shows the tree as it was when it was started."""
        return any(root.copied for root in self.views)

    @property
    def is_current(self) -> bool:
        """Whether all that ``note_seen`` noted is still there, and nothing is a copy of it."""
        if self.is_copied:
            return False
        return all(_identity(path) == noted for path, noted in self.seen.items())

    @property
    def has_files(self) -> bool:
        """Whether something may have been left in the private directory; one system call."""
        return self._scratch_mark() != self.scratch_clean

    def _scratch_mark(self) -> int:
        if self.scratch_fd < 0:
            return -1
        if self.scratch_private:
            # A tmpfs counts its files.
            status = os.fstatvfs(self.scratch_fd)
            return status.f_files - status.f_ffree
        return os.fstat(self.scratch_fd).st_mtime_ns

    def end(self, notice: ExitNotice) -> None:
        """Record how it ended and wake whoever waits for it."""
        if self.exit is not None:
            return
        self.exit = notice
        self.exited.set()
        fd, self.pidfd = self.pidfd, -1
        if fd >= 0:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)
        scratch, self.scratch_fd = self.scratch_fd, -1
        if scratch >= 0:
            os.close(scratch)
        if self.on_exit is not None:
            self.on_exit.cancel()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
