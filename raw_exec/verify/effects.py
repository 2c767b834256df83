"""What a handler really did to files, against what the tool said that it would do.

Rules:

1. A path that is gone was deleted or renamed away; one that is new, or has other content,
   another kind or other permission bits, was written or is the destination of a rename. Two
   paths are a rename when the same inode with the same content stands under another name.
2. Every change must be covered by a declared effect on that path: ``delete`` or
   ``rename_source`` for what is gone, ``write`` or ``rename_destination`` for the rest. A
   change that is not covered is undeclared.
3. Making the folders above a declared write needs no effect of its own. An effect on a
   folder that is removed or moved covers what is in it.
4. An effect that nothing was done about is only a warning: a call may find that it has
   nothing to do.

A declared path is taken as it is written and, where it leads through a symlink, also as the
path it leads to. Not covered: what is changed outside of the case's folder. The sandbox
judges that; a case is run without any other write grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..text import escape_text
from .folder import Node

__all__ = ["Change", "Declared", "Verdict", "compare_effects", "declared_effects", "find_changes"]

_REMOVING: Final = frozenset(("delete", "rename_source"))
_PLACING: Final = frozenset(("write", "rename_destination"))


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened to one path.

    Args:
        operation: ``"write"``, ``"delete"``, ``"rename_source"`` or ``"rename_destination"``,
            as effects call it.
        path: Relative to the case's folder; ``""`` is the folder itself.
        detail: What exactly: ``"created"``, ``"content"``, ``"mode 644 to 755"``…
        kind: Of what is there now, or was.
        visible: ``False`` for a file that was written with what it held before.
    """

    operation: str
    path: str
    detail: str
    kind: str
    visible: bool = True

    def __str__(self) -> str:
        shown = escape_text(_shown(self.path), keep_newlines=False)
        return f"{self.operation} {shown or '.'} ({self.detail})"

    def as_dict(self) -> dict[str, str]:
        """Return plain JSON data; bytes that are not UTF-8 are escaped."""
        path = _shown(self.path) or "."
        return {"operation": self.operation, "path": path, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Declared:
    """One item of ``files`` in described effects.

    Args:
        operation: As described.
        path: As described, absolute.
        names: Relative paths that it covers: itself, and where it leads; empty when it is
            not in the case's folder.
    """

    operation: str
    path: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a comparison.

    Args:
        undeclared: Changes that no effect covers.
        undone: Effects that nothing was done about.
        outside: Effects outside of the case's folder, which are not looked at.
    """

    undeclared: tuple[Change, ...]
    undone: tuple[Declared, ...]
    outside: tuple[Declared, ...]


def declared_effects(
    effects: Any, cwd: str, real: Mapping[str, str] | None = None
) -> tuple[Declared, ...]:
    """Take the file operations out of described effects.

    Args:
        effects: What ``describeEffects`` gave, checked.
        cwd: The case's folder, absolute and without links.
        real: Where declared paths led before the call, when elsewhere.
    """
    files = effects.get("files") if isinstance(effects, dict) else None
    out = []
    for item in files if isinstance(files, list) else ():
        if not (isinstance(item, dict) and isinstance(item.get("path"), str)):
            continue
        if not isinstance(item.get("operation"), str):
            continue
        path = item["path"]
        found = dict.fromkeys((path, (real or {}).get(path, path)))
        names = tuple(
            one[len(cwd) + 1 :] for one in found if one == cwd or one.startswith(f"{cwd}/")
        )
        out.append(Declared(item["operation"], path, names))
    return tuple(out)


def find_changes(before: Mapping[str, Node], after: Mapping[str, Node]) -> tuple[Change, ...]:
    """Return what happened between two looks at a folder, in order of path."""
    gone = {path: node for path, node in before.items() if path not in after}
    new = {path: node for path, node in after.items() if path not in before}
    replaced = {
        path: node
        for path, node in after.items()
        if path in before and before[path].inode != node.inode
    }
    moved = dict(_renames(gone, new | replaced))
    sources = {source: target for target, source in moved.items()}
    out: list[Change] = []
    for path in sorted({*before, *after}):
        if path in gone:
            if path in sources:
                detail = f"to {_shown(sources[path])}"
                out.append(Change("rename_source", path, detail, gone[path].kind))
            else:
                out.append(Change("delete", path, f"{gone[path].kind} removed", gone[path].kind))
        elif path in moved:
            detail = f"from {_shown(moved[path])}{', replacing it' if path in before else ''}"
            out.append(Change("rename_destination", path, detail, after[path].kind))
        elif path in new:
            kind = new[path].kind
            out.append(Change("write", path, f"{kind} created", kind))
        else:
            change = _changed(path, before[path], after[path])
            if change is not None:
                out.append(change)
    return tuple(out)


def _shown(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()


def _renames(gone: Mapping[str, Node], placed: Mapping[str, Node]) -> Iterable[tuple[str, str]]:
    """Yield destination and source. An inode number may be used again, so content counts."""
    by_inode: dict[tuple[int, int], list[str]] = {}
    for path, node in gone.items():
        by_inode.setdefault(node.inode, []).append(path)
    for path in sorted(placed):
        node = placed[path]
        for source in by_inode.get(node.inode, ()):
            if gone[source].same_content(node):
                by_inode[node.inode].remove(source)
                yield path, source
                break


def _changed(path: str, old: Node, now: Node) -> Change | None:
    if old.kind != now.kind:
        return Change("write", path, f"{old.kind} replaced by {now.kind}", now.kind)
    facts = []
    if old.sha256 != now.sha256:
        facts.append(f"content, {old.size} to {now.size} bytes")
    if old.target != now.target:
        facts.append("link target")
    if old.mode != now.mode:
        facts.append(f"mode {old.mode:o} to {now.mode:o}")
    if facts:
        return Change("write", path, ", ".join(facts), now.kind)
    touched = (old.inode, old.stamp) != (now.inode, now.stamp)
    if touched and now.kind != "directory":
        return Change("write", path, "same content", now.kind, visible=False)
    return None


def compare_effects(changes: Iterable[Change], declared: Iterable[Declared]) -> Verdict:
    """Compare what happened with what was declared."""
    changes, declared = tuple(changes), tuple(declared)
    removing = {name for item in declared if item.operation in _REMOVING for name in item.names}
    placing = {name for item in declared if item.operation in _PLACING for name in item.names}
    moved_in = {
        name for item in declared if item.operation == "rename_destination" for name in item.names
    }
    above = {parent for name in placing for parent in _parents(name)}
    undeclared = []
    for change in changes:
        if not change.visible:
            continue
        if change.operation in _REMOVING:
            covered = change.path in removing or not removing.isdisjoint(_parents(change.path))
        else:
            covered = change.path in placing or not moved_in.isdisjoint(_parents(change.path))
            if change.kind == "directory" and change.detail == "directory created":
                covered = covered or change.path in above
        if not covered:
            undeclared.append(change)
    removed = {change.path for change in changes if change.operation in _REMOVING}
    placed = {change.path for change in changes if change.operation in _PLACING}
    undone = []
    for item in declared:
        done = removed if item.operation in _REMOVING else placed
        if item.names and done.isdisjoint(item.names):
            undone.append(item)
    return Verdict(
        undeclared=tuple(undeclared),
        undone=tuple(undone),
        outside=tuple(item for item in declared if not item.names),
    )


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
