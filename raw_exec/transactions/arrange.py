"""Turn a list of changes into the few renames that make them: pure.

A new directory, and one that replaces what lay below it wholly, is put together beside the tree
and moved in as one thing, with all that is in it. A directory that goes is moved away as one
thing. So no step is ever inside of another one, and each is one rename.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from .changes import Change
from .errors import CommitRefused
from .folders import Ancestors, split_path

__all__ = ["STAGING_PREFIX", "Arrangement", "Placement", "arrange", "is_relative"]

STAGING_PREFIX: Final = b".raw-commit-"
"""Names at the top of a tree that are a commit's own."""


@dataclass(slots=True)
class Placement:
    """A thing that is put together beside the tree and moved in.

    Args:
        change: The thing itself.
        inside: What is in it, when it is a directory; parents first.
    """

    change: Change
    inside: list[Change] = field(default_factory=list)


@dataclass(slots=True)
class Arrangement:
    """The steps of one tree.

    Args:
        placements: By path.
        removals: What goes, each with everything in it.
        folders: Directories that stay and in which something is moved, or whose own mode
            changes; ``b""`` is the root.
        changed_folders: Those whose own mode or owner changes.
    """

    placements: dict[bytes, Placement] = field(default_factory=dict)
    removals: list[Change] = field(default_factory=list)
    folders: set[bytes] = field(default_factory=set)
    changed_folders: dict[bytes, Change] = field(default_factory=dict)


def arrange(
    changes: Iterable[Change], is_folder_below: Callable[[bytes], bool], *, root: str
) -> Arrangement:
    """Arrange the changes of one tree.

    Args:
        changes: Parents before children.
        is_folder_below: Whether a directory lies in the tree at a path now.
        root: The tree, for messages.

    Raises:
        CommitRefused: A change is of a kind, or at a path, that is never committed.
    """
    out = Arrangement()
    removed: set[bytes] = set()
    covering = Ancestors(lambda path: path in out.placements or path in removed)
    refused: list[tuple[bytes, str]] = []
    for change in changes:
        problem = _problem(change)
        if problem is not None:
            refused.append((change.path, problem))
            continue
        above = covering.nearest(change.path)
        if above is not None:
            # What is deleted inside of a thing that is replaced wholly is gone with it.
            if change.action != "delete":
                if above in removed:
                    refused.append((change.path, "lies in a directory that was deleted"))
                else:
                    out.placements[above].inside.append(change)
            continue
        if change.action == "delete":
            removed.add(change.path)
            out.removals.append(change)
        elif change.kind == "dir" and _stays(change, is_folder_below):
            out.changed_folders[change.path] = change
            out.folders.add(change.path)
            continue
        else:
            out.placements[change.path] = Placement(change)
        out.folders.add(split_path(change.path)[0])
    if refused:
        raise CommitRefused(refused, root=root)
    return out


def _stays(change: Change, is_folder_below: Callable[[bytes], bool]) -> bool:
    return change.existed and not change.opaque and is_folder_below(change.path)


def is_relative(path: bytes) -> bool:
    """Whether a path consists of plain names only: none is empty, ``.`` or ``..``."""
    whole = b"/" + path + b"/"
    return not any(part in whole for part in (b"//", b"/./", b"/../", b"\0"))


def _problem(change: Change) -> str | None:
    if not is_relative(change.path):
        return "is not a path beneath the root"
    if change.path.startswith(STAGING_PREFIX):
        return f"names that begin with {STAGING_PREFIX.decode()} are kept for commits"
    if change.action == "delete":
        return None
    if change.kind == "special":
        return "is a device node, a socket or a named pipe"
    if change.kind not in ("file", "dir", "link"):
        return f"is of an unknown kind, {change.kind!r}"
    return None
