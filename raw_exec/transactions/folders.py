"""Directories beneath a root, opened by path and kept open for the next name in them."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from . import syscalls
from .errors import CommitConflict

__all__ = ["Ancestors", "Folders", "open_root", "parents_of", "split_path"]

_KEPT: Final = 32


class Folders:
    """Opens the parents of paths beneath one directory. Not a path is resolved in any other way.

    Args:
        base: Descriptor of the directory; stays the caller's.
        flags: How parents are opened.
        still: Nobody else moves directories in it, so one may be opened from the directory
            above, where that is open. Without, each is resolved from the base, which costs as
            much as it is deep.
    """

    def __init__(
        self, base: int, flags: int = syscalls.PATH_DIRECTORY, *, still: bool = False
    ) -> None:
        self.base = base
        self._flags = flags
        self._still = still
        self._open: OrderedDict[bytes, int] = OrderedDict()

    def __enter__(self) -> Folders:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def folder(self, path: bytes) -> int:
        """Return a descriptor of a directory; valid until other ones are asked for.

        Raises:
            OSError: As ``open_beneath``.
        """
        if not path:
            return self.base
        fd = self._open.get(path)
        if fd is None:
            above, name = split_path(path)
            from_above = self._open.get(above) if self._still else None
            if from_above is not None:
                fd = syscalls.open_beneath(from_above, name, self._flags)
            else:
                fd = syscalls.open_beneath(self.base, path, self._flags)
            self._open[path] = fd
            if len(self._open) > _KEPT:
                _path, oldest = self._open.popitem(last=False)
                os.close(oldest)
        else:
            self._open.move_to_end(path)
        return fd

    def parent(self, path: bytes) -> tuple[int, bytes]:
        """Return a descriptor of the directory that ``path`` is in, and its name there."""
        above, name = split_path(path)
        return self.folder(above), name

    def close(self) -> None:
        """Close what is open; ``base`` stays."""
        while self._open:
            _path, fd = self._open.popitem()
            os.close(fd)


@contextmanager
def open_root(
    root: str, identity: tuple[int, int] | None, flags: int = syscalls.PATH_DIRECTORY
) -> Iterator[int]:
    """Open the top of a tree by its path, and see that it is the one that the view was put over.

    Args:
        root: Absolute path.
        identity: Device and inode; not checked when ``None``.
        flags: How it is opened.

    Raises:
        CommitConflict: It is gone, or another directory is there. Security: whoever can rename a
            folder above the tree could have the changes made elsewhere, for as long as a person
            looks at them.
    """
    try:
        fd = os.open(root, flags)
    except OSError as exc:
        reason = f"the folder can't be opened any more: {exc.strerror}"
        raise CommitConflict([(b"", reason)], root=root) from exc
    try:
        status = os.fstat(fd)
        if identity is not None and (status.st_dev, status.st_ino) != identity:
            raise CommitConflict([(b"", "the folder was replaced by another")], root=root)
        yield fd
    finally:
        os.close(fd)


class Ancestors:
    """Finds the nearest marked directory above a path; each directory is looked at once.

    Args:
        is_marked: Says so of a path. A mark that is set after something below it was asked for
            is not seen.
    """

    def __init__(self, is_marked: Callable[[bytes], bool]) -> None:
        self._is_marked = is_marked
        self._known: dict[bytes, bytes | None] = {}

    def nearest(self, path: bytes) -> bytes | None:
        """Return the nearest marked path above ``path``, the root itself left out."""
        climbed: list[bytes] = []
        found = None
        for above in parents_of(path):
            if above in self._known:
                found = self._known[above]
                break
            climbed.append(above)
            if self._is_marked(above):
                found = above
                break
        self._known.update(dict.fromkeys(climbed, found))
        return found


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """Return the path of the parent, empty at the top, and the last name."""
    above, _slash, name = path.rpartition(b"/")
    return above, name


def parents_of(path: bytes) -> Iterator[bytes]:
    """Yield the paths above ``path``, nearest first, the root itself left out."""
    above = path
    while above := above.rpartition(b"/")[0]:
        yield above
