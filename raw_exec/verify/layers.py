"""What a call did on a copy-on-write view, which nobody else ever sees.

The case's folder itself stays as it was; what the call changed lies in the view's upper layer. Laid
over what was there before, it gives the same picture as looking at a folder after the call.

A view knows no renames: the old path is hidden and the new one is a file of its own. What is
new and has the content of something that is gone counts as that, moved.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from .. import transactions
from ..dispatch import Call
from ..transactions import ChangeSet, not_done, show_path, uncovered
from .effects import Change
from .folder import FolderError, FolderReader, Node

__all__ = ["Seen", "is_in", "lay_over", "look_at_view"]

_DETAILS: Final = {"create": "created", "write": "changed", "delete": "removed"}
_OPAQUE: Final = ("user.overlay.opaque", "trusted.overlay.opaque")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a call did on a view.

    Args:
        after: The case's folder as the call left it.
        elsewhere: Changes outside of it, with absolute paths.
        bare: Those that no declared effect covers.
        undone: Operation and path of effects there that nothing was done about.
        roots: The trees outside that the view was over.
    """

    after: Mapping[str, Node]
    elsewhere: tuple[Change, ...] = ()
    bare: tuple[Change, ...] = ()
    undone: tuple[tuple[str, str], ...] = ()
    roots: tuple[str, ...] = ()

    def covers(self, path: str) -> bool:
        """Whether a path is in one of the trees outside."""
        return any(is_in(path, root) for root in self.roots)


def look_at_view(call: Call, before: Mapping[str, Node]) -> Seen:
    """Read the view of a call, while it is there.

    Args:
        call: It ran on a view.
        before: Its working directory before, by relative path.

    Raises:
        FolderError: There is more than is looked at.
        RawExecError: Something elsewhere can't be told as a change.
    """
    assert call.view is not None  # noqa: S101  (asked before)
    after = dict(before)
    for root, upper in call.view.layers():
        if is_in(root.path, call.cwd):
            after = lay_over(after, upper, root.path[len(call.cwd) :].strip("/"))
    roots = tuple(r.path for r, _upper in call.view.layers() if not is_in(r.path, call.cwd))
    sets = [found for found in call.view.change_sets() if found.root in roots]
    bare = {id(change) for change in uncovered(sets, call.effects, call.cwd)}
    missing = not_done(sets, call.effects, call.cwd)
    listed = [(_elsewhere(found, one), id(one) in bare) for found in sets for one in found.changes]
    return Seen(
        after,
        tuple(change for change, _bare in listed),
        tuple(change for change, is_bare in listed if is_bare),
        tuple(
            (item["operation"], item["path"])
            for item in missing
            if any(is_in(item["path"], root) for root in roots)
        ),
        roots,
    )


def _elsewhere(found: ChangeSet, change: transactions.Change) -> Change:
    path = f"{found.root.rstrip('/')}/{show_path(change.path)}"
    operation = "delete" if change.action == "delete" else "write"
    detail = _DETAILS.get(change.action, change.action)
    return Change(operation, path, f"{change.kind} {detail}", change.kind)


def is_in(path: str, root: str) -> bool:
    """Whether a path is a folder or lies in it; both absolute."""
    return path == root or path.startswith(f"{root.rstrip('/')}/")


def lay_over(before: Mapping[str, Node], upper: int, prefix: str) -> dict[str, Node]:
    """Return what a folder looks like through a view.

    Args:
        before: The folder as it is, by relative path.
        upper: Descriptor of the upper layer's top.
        prefix: Relative path in the folder that the layer lies over; empty for all of it.

    Raises:
        FolderError: There is more than is looked at.
    """
    reader = _LayerReader(before)
    top = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=upper)
    try:
        reader.walk(top, f"{prefix}/" if prefix else "", prefix.count("/") + 1)
    finally:
        os.close(top)
    return _with_moves(before, reader.nodes)


class _LayerReader(FolderReader):
    """Reads a layer into the nodes of the folder below it."""

    def __init__(self, before: Mapping[str, Node]) -> None:
        super().__init__()
        self.nodes.update(before)

    def take(self, fd: int, name: str, path: str, info: os.stat_result, depth: int) -> None:
        if stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
            self._drop(path)
            return
        below = self.nodes.get(path)
        replaced = not stat.S_ISDIR(info.st_mode) or _is_opaque(fd, name)
        if replaced and below is not None and below.kind == "directory":
            self._drop(path)
        super().take(fd, name, path, info, depth)

    def _drop(self, path: str) -> None:
        for known in [k for k in self.nodes if k == path or k.startswith(f"{path}/")]:
            del self.nodes[known]


def _is_opaque(fd: int, name: str) -> bool:
    for attribute in _OPAQUE:
        try:
            value = os.getxattr(f"/proc/self/fd/{fd}/{name}", attribute, follow_symlinks=False)
        except PermissionError as exc:
            raise FolderError(f"a directory of the view can't be read: {exc.strerror}") from exc
        except OSError:
            continue
        if value == b"y":
            return True
    return False


def _with_moves(before: Mapping[str, Node], after: dict[str, Node]) -> dict[str, Node]:
    gone: dict[tuple[str, int, str, str], list[Node]] = {}
    for path, node in before.items():
        if path not in after and node.kind in ("file", "symlink"):
            gone.setdefault(_content(node), []).append(node)
    for path in sorted(after):
        node = after[path]
        old = before.get(path)
        if old is not None and old.same_content(node):
            continue
        sources = gone.get(_content(node))
        if sources:
            after[path] = replace(node, inode=sources.pop(0).inode)
    return after


def _content(node: Node) -> tuple[str, int, str, str]:
    return node.kind, node.size, node.sha256, node.target
