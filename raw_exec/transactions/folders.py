"""Directories beneath a root, opened by path and kept open for the next name in them."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from . import syscalls

__all__ = ["Folders", "parents_of", "split_path"]

_KEPT: Final = 32


class Folders:
    """Opens the parents of paths beneath one directory. Not a path is resolved in any other way.

    Args:
        base: Descriptor of the directory; stays the caller's.
        flags: How parents are opened.
    """

    def __init__(self, base: int, flags: int = syscalls.PATH_DIRECTORY) -> None:
        self.base = base
        self._flags = flags
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


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """Return the path of the parent, empty at the top, and the last name."""
    above, _slash, name = path.rpartition(b"/")
    return above, name


def parents_of(path: bytes) -> Iterator[bytes]:
    """Yield the paths above ``path``, nearest first, the root itself left out."""
    above = path
    while above := above.rpartition(b"/")[0]:
        yield above
