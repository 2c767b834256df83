"""What a call changed under one writable tree: pure data.

A change set is read from the upper layer of a copy-on-write view and is what coverage, the diff and
the commit work on. Paths are bytes because a file name on Linux is bytes: it may hold a newline or
be no valid UTF-8, and neither may be lost between what was seen and what is committed.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Change", "ChangeSet"]


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is different from what lay below.

    Attributes:
        path: Relative to the root of its set; no leading slash, no component is `.` or `..`.
        action: `create` (nothing lay below), `write` (new content, a new kind or a new link
            target), `delete`, or `metadata` (only mode or extended attributes).
        kind: Of what is there afterwards, or was before a delete: `file`, `dir`, `link` or
            `special`.
        existed: Something lay below at the path when the call started.
        opaque: A directory that replaces what lay below it wholly.
    """

    path: bytes
    action: str
    kind: str
    existed: bool
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Every change of one call under one granted writable tree.

    Attributes:
        root: Absolute path of the granted tree.
        upper: Descriptor of the upper layer's directory, in overlay format (whiteouts, opaque
            markers), or of a whole copy of the tree. The set doesn't own it.
        started_ns: CLOCK_REALTIME_COARSE in nanoseconds when the tree was fixed as what the call
            saw.
        changes: Parents before children, sorted by path.
        identity: Device and inode of the tree's top that the view was put over; ``None`` where
            nobody can have put another one in its place.
    """

    root: str
    upper: int
    started_ns: int
    changes: tuple[Change, ...]
    identity: tuple[int, int] | None = None
