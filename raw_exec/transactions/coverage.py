"""Which changes a tool's declared effects cover, and which effects nothing was done about.

Rules:

1. ``delete`` and ``rename_source`` cover that a path goes; on a directory, also all that lay in it.
2. ``write`` and ``rename_destination`` cover that a path is created or changed;
   ``rename_destination`` on a directory, also all that is in it.
3. Making a directory needs no effect of its own where one of rule 2 covers a path in it.
4. Where a directory replaces another one wholly, each thing that is gone needs rule 1; the
   directory needs an effect only when its mode is another.
5. A directory in the place of something else, and something else in the place of a directory,
   need rule 1 for what is gone beside rules 2 and 3 for what is new.
6. A link needs rule 2 for where it leads too. Else a call that may write one name could make it
   stand for any file, and the next one write to that under the name.

A declared path is a name. It covers what it is written as, and where links of the tree below lead
it, as the call found them: ``write`` follows a link to its end, the others only on the way. So a
call that may write ``notes/today`` may write the file behind that link. Trees are looked at as
they are now, before the commit: what a call changed on its view counts for nothing here. Whoever
else could turn a link of the tree meanwhile can write to the tree itself.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from ..effects.paths import normalise_effect_path
from . import syscalls
from .changes import Change, ChangeSet
from .folders import Ancestors, Folders, open_root, parents_of
from .observe import MAX_PATH_BYTES

__all__ = ["not_done", "uncovered"]

_REMOVING: Final = frozenset(("delete", "rename_source"))
_PLACING: Final = frozenset(("write", "rename_destination"))
_MAX_GONE: Final = 100_000
_MAX_DECLARED_BYTES: Final = 2 * MAX_PATH_BYTES
_GONE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@dataclass(slots=True)
class _Declared:
    """One declared effect, and the absolute paths that it stands for."""

    operation: str
    path: str
    names: tuple[bytes, ...]


@dataclass
class _Cover:
    """What is covered in one tree, as paths relative to it."""

    removing: set[bytes] = field(default_factory=set)
    placing: set[bytes] = field(default_factory=set)
    moved_in: set[bytes] = field(default_factory=set)
    above: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._removed_above = Ancestors(lambda path: path in self.removing)
        self._moved_above = Ancestors(lambda path: path in self.moved_in)

    def removes(self, path: bytes) -> bool:
        # The tree itself may be named: everything is in it.
        if path in self.removing or b"" in self.removing:
            return True
        return self._removed_above.nearest(path) is not None

    def places(self, path: bytes) -> bool:
        if path in self.placing or b"" in self.moved_in:
            return True
        return self._moved_above.nearest(path) is not None


def uncovered(sets: Sequence[ChangeSet], effects: Any, cwd: str) -> tuple[Change, ...]:
    """Return the changes that no declared effect covers.

    Args:
        sets: What the call changed.
        effects: What ``describeEffects`` gave, checked; ``None`` when the tool declares none,
            which covers nothing.
        cwd: Where relative declared paths start, absolute.

    Returns:
        Changes of ``sets`` themselves, tree by tree, in their order. A directory that replaces
        another stands for what is gone with it.
    """
    declared = _declared(effects, cwd)
    out: list[Change] = []
    for one in sets:
        cover = _cover(one.root, declared)
        with _Below(one) as below:
            out += [change for change in one.changes if not _is_covered(change, cover, below)]
    return tuple(out)


def not_done(sets: Sequence[ChangeSet], effects: Any, cwd: str) -> tuple[dict[str, str], ...]:
    """Return the declared effects that no change answers to, as ``{path, operation}``.

    A file that was written with the bytes it already held is no change. An effect outside of
    every tree can't have happened, so it is among them.
    """
    removed: set[bytes] = set()
    placed: set[bytes] = set()
    for one in sets:
        base = os.fsencode(os.path.realpath(one.root)).rstrip(b"/")
        with _Below(one) as below:
            for change in one.changes:
                path = base + b"/" + change.path
                if change.action == "delete":
                    removed.add(path)
                    continue
                placed.add(path)
                if change.kind == "link" and (target := below.target(change.path)) is not None:
                    placed.add(os.path.join(base, target) if target else base)
                old = below.kind(change.path) if change.existed else None
                if old is not None and (change.opaque or (old == "dir") != (change.kind == "dir")):
                    removed.add(path)
                    removed.update(base + b"/" + gone for gone in below.gone(change))
    # A directory that something was put into was done something to.
    filled: set[bytes] = set()
    for path in placed:
        _add_parents(path, filled)
    above = Ancestors(lambda path: path in removed)
    out = []
    for item in _declared(effects, cwd):
        if item.operation in _REMOVING:
            done = any(name in removed or above.nearest(name) for name in item.names)
        else:
            done = any(name in placed or name in filled for name in item.names)
        if not done:
            out.append({"path": item.path, "operation": item.operation})
    return tuple(out)


def _is_covered(change: Change, cover: _Cover, below: _Below) -> bool:
    path = change.path
    if change.action == "delete":
        return cover.removes(path)
    placed = cover.places(path)
    made_on_the_way = placed or path in cover.above
    old = below.kind(path) if change.existed else None
    if change.kind == "dir":
        if old == "dir" and not change.opaque:
            return placed  # its mode
        if old == "dir":
            if not cover.removes(path) and not all(map(cover.removes, below.gone(change))):
                return False
            return made_on_the_way or cover.removes(path) or below.same_mode(path)
        return made_on_the_way and (old is None or cover.removes(path))
    if old == "dir" and not cover.removes(path):
        return False
    if not placed or change.kind != "link" or change.action == "metadata":
        return placed
    target = below.target(path)
    return target is None or cover.places(target)


class _Below:
    """The tree as it is now, before the commit."""

    def __init__(self, one: ChangeSet) -> None:
        self._upper = one.upper
        self._bases = (os.fsencode(one.root), os.fsencode(os.path.realpath(one.root)))
        self._kept = {c.path: c.kind == "dir" for c in one.changes if c.action != "delete"}
        self._opened = ExitStack()
        self._fd = self._opened.enter_context(open_root(one.root, one.identity))
        self._folders = Folders(self._fd)

    def __enter__(self) -> _Below:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._folders.close()
        self._opened.close()

    def kind(self, path: bytes) -> str | None:
        """Return ``dir`` or ``other`` for what is there."""
        status = self._look(path)
        if status is None:
            return None
        return "dir" if stat.S_ISDIR(status.st_mode) else "other"

    def same_mode(self, path: bytes) -> bool:
        """Whether a directory has the same mode below and above."""
        old = self._look(path)
        fd = syscalls.open_beneath(self._upper, path, syscalls.PATH_DIRECTORY)
        try:
            return old is not None and old.st_mode == os.fstat(fd).st_mode
        finally:
            os.close(fd)

    def target(self, path: bytes) -> bytes | None:
        """Return where a new link leads, relative to the tree; ``None`` when out of it.

        A link that leads out is never committed. One name is looked up, no link is followed.
        """
        above, _slash, name = path.rpartition(b"/")
        fd = syscalls.open_beneath(self._upper, above, syscalls.PATH_DIRECTORY)
        try:
            told = syscalls.read_link(fd, name)
        finally:
            os.close(fd)
        for base in dict.fromkeys(self._bases):
            full = os.path.normpath(os.path.join(base, above, told))
            if (inside := _relative(full, base)) is not None:
                return inside
        return None

    def gone(self, change: Change) -> Iterator[bytes]:
        """Yield what lies in a directory that ``change`` replaces, and was not made anew."""
        pending, left = [change.path], _MAX_GONE
        while pending:
            path = pending.pop()
            for name, is_dir in self._entries(path):
                left -= 1
                inner = path + b"/" + name
                if left < 0:
                    # Not looked at one by one: whoever replaces this much names the directory.
                    yield change.path
                    return
                kept_as_dir = self._kept.get(inner)
                if kept_as_dir is not is_dir:
                    yield inner
                if is_dir and kept_as_dir is not None:
                    pending.append(inner)

    def _look(self, path: bytes) -> os.stat_result | None:
        try:
            parent, name = self._folders.parent(path)
            return syscalls.look(parent, name)
        except OSError as exc:
            if exc.errno in _GONE:
                return None
            raise

    def _entries(self, path: bytes) -> list[tuple[bytes, bool]]:
        try:
            fd = syscalls.open_beneath(self._fd, path, syscalls.READ_DIRECTORY)
        except OSError as exc:
            if exc.errno in _GONE:
                return []
            raise
        try:
            out = []
            for name in syscalls.list_names(fd):
                status = syscalls.look(fd, name)
                out.append((name, status is not None and stat.S_ISDIR(status.st_mode)))
            return out
        finally:
            os.close(fd)


def _declared(effects: Any, cwd: str) -> list[_Declared]:
    files = effects.get("files") if isinstance(effects, dict) else None
    real: dict[bytes, bytes] = {}
    out = []
    for item in files if isinstance(files, list) else ():
        if not isinstance(item, dict):
            continue
        path, operation = item.get("path"), item.get("operation")
        if not (isinstance(path, str) and isinstance(operation, str)):
            continue
        if operation in _REMOVING or operation in _PLACING:
            out.append(_Declared(operation, path, _names(operation, path, cwd, real)))
    return out


def _names(operation: str, path: str, cwd: str, real: dict[bytes, bytes]) -> tuple[bytes, ...]:
    """Return what a declared path stands for; ``real`` remembers where directories lead."""
    try:
        written = os.fsencode(normalise_effect_path(path, cwd))
    except ValueError:  # also a path that is no text of this system
        return ()
    if len(written) > _MAX_DECLARED_BYTES:
        return ()  # no change has such a path
    above, _slash, name = written.rpartition(b"/")
    if above not in real:
        real[above] = _real_path(above or b"/")
    on_the_way = os.path.join(real[above], name)
    found = [written, on_the_way]
    if operation == "write" and os.path.islink(on_the_way):
        found.append(os.path.realpath(on_the_way))
    return tuple(dict.fromkeys(found))


def _real_path(path: bytes) -> bytes:
    """Return where a path leads, at no cost for the part of it that is not there."""
    end = 0
    while end >= 0:
        end = path.find(b"/", end + 1)
        there = path if end < 0 else path[:end]
        if not os.path.lexists(there):
            above, _slash, missing = there.rpartition(b"/")
            return os.path.join(os.path.realpath(above or b"/"), missing + path[len(there) :])
    return os.path.realpath(path)


def _cover(root: str, declared: Sequence[_Declared]) -> _Cover:
    cover = _Cover()
    bases = dict.fromkeys((os.fsencode(root), os.fsencode(os.path.realpath(root))))
    for item in declared:
        for name in item.names:
            for base in bases:
                path = _relative(name, base)
                if path is None:
                    continue
                if item.operation in _REMOVING:
                    cover.removing.add(path)
                else:
                    cover.placing.add(path)
                    _add_parents(path, cover.above)
                    if item.operation == "rename_destination":
                        cover.moved_in.add(path)
    return cover


def _relative(name: bytes, base: bytes) -> bytes | None:
    prefix = base.rstrip(b"/") + b"/"
    if name.startswith(prefix):
        return name[len(prefix) :]
    return b"" if name == base else None


def _add_parents(path: bytes, found: set[bytes]) -> None:
    for above in parents_of(path):
        if above in found:
            return  # and so is all that is above it
        found.add(above)
