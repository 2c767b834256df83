"""A case's folder: written before the call, looked at before and after.

Rules:

1. Nothing is followed: a symlink is what it says, not what it leads to. Only regular files
   are opened.
2. A handler may leave anything: files without permission bits, sockets, names that are not
   UTF-8, a sparse file of a terabyte, ten thousand levels. What is read and counted is
   bounded; past the bounds ``FolderError`` says so and the case fails.
3. The process tree that had the folder is dead when it is looked at, so nothing changes
   meanwhile (unless the operator's profile has no sandbox).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .case import StartFile

__all__ = ["FolderError", "FolderReader", "Node", "read_folder", "write_folder"]

MAX_NODES: Final = 50_000
MAX_DEPTH: Final = 64
MAX_READ_BYTES: Final = 512 * 1024 * 1024
_CHUNK_BYTES: Final = 1024 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS: Final = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "directory"),
    (stat.S_ISLNK, "symlink"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
)


class FolderError(ValueError):
    """The folder holds more than is looked at."""


@dataclass(frozen=True, slots=True)
class Node:
    """What is at one path.

    Args:
        kind: ``"file"``, ``"directory"``, ``"symlink"``, ``"fifo"``, ``"socket"`` or
            ``"device"``.
        mode: Permission bits; 0 for a symlink, which has none of its own.
        size: Bytes of a file.
        sha256: Of a file's bytes, hexadecimal.
        target: Of a symlink.
        inode: Device and inode number: the same file under another name has the same.
        stamp: When data or metadata last changed, nanoseconds; says that a file was
            written with what was in it before.
    """

    kind: str
    mode: int
    size: int = 0
    sha256: str = ""
    target: str = ""
    inode: tuple[int, int] = (0, 0)
    stamp: tuple[int, int] = (0, 0)

    def same_content(self, other: Node) -> bool:
        """Whether kind, bytes and target are equal; permission bits aside."""
        mine = (self.kind, self.size, self.sha256, self.target)
        return mine == (other.kind, other.size, other.sha256, other.target)


def write_folder(folder: Path, files: Mapping[str, StartFile]) -> None:
    """Put a case's files into an empty folder of ours.

    Parents are made as needed. ``parse_case`` has made sure that no path leads through a file
    or a symlink. Modes come last, so that a read-only folder can be filled.

    Raises:
        OSError: The disk is full, for one.
    """
    for path, item in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if item.kind == "directory":
            target.mkdir(exist_ok=True)
        elif item.kind == "symlink":
            target.symlink_to(item.target)
        else:
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            with os.fdopen(fd, "wb") as file:
                file.write(item.data)
    for path in sorted(files, reverse=True):
        mode = files[path].mode
        if mode is not None:
            (folder / path).chmod(mode)


def read_folder(folder: Path) -> dict[str, Node]:
    """Return everything in a folder by relative path; the folder itself is ``""``.

    Names that are not UTF-8 hold surrogates, as everywhere in Python.

    Raises:
        FolderError: There is more than this looks at, or the folder is gone.
    """
    try:
        fd = os.open(folder, _DIRECTORY)
    except OSError as exc:
        raise FolderError(f"the case's folder can't be opened: {exc.strerror}") from exc
    reader = FolderReader()
    try:
        info = os.fstat(fd)
        reader.nodes[""] = _node(info, "directory")
        reader.walk(fd, "", 1)
    finally:
        os.close(fd)
    return reader.nodes


def _node(info: os.stat_result, kind: str, *, sha256: str = "", target: str = "") -> Node:
    return Node(
        kind=kind,
        mode=0 if kind == "symlink" else stat.S_IMODE(info.st_mode),
        size=info.st_size if kind == "file" else 0,
        sha256=sha256,
        target=target,
        inode=(info.st_dev, info.st_ino),
        stamp=(info.st_mtime_ns, info.st_ctime_ns),
    )


class FolderReader:
    """Reads a folder into ``nodes``, within the bounds of this module."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._left = MAX_READ_BYTES

    def walk(self, fd: int, prefix: str, depth: int) -> None:
        """Take what is in an open directory.

        Raises:
            FolderError: There is more than is looked at.
        """
        if depth > MAX_DEPTH:
            raise FolderError(f"there are more than {MAX_DEPTH} levels of folders")
        for name in sorted(os.listdir(fd)):
            if len(self.nodes) >= MAX_NODES:
                raise FolderError(f"there are more than {MAX_NODES} files")
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            self.take(fd, name, f"{prefix}{name}", info, depth)

    def take(self, fd: int, name: str, path: str, info: os.stat_result, depth: int) -> None:
        """Take one name in an open directory, and what is in it."""
        kind = next((kind for test, kind in _KINDS if test(info.st_mode)), "device")
        digest = target = ""
        if kind == "file":
            digest = self._digest(fd, name, info)
        elif kind == "symlink":
            target = os.readlink(name, dir_fd=fd)
        self.nodes[path] = _node(info, kind, sha256=digest, target=target)
        if kind == "directory":
            self._enter(fd, name, path, info, depth)

    def _enter(self, fd: int, name: str, path: str, info: os.stat_result, depth: int) -> None:
        mode = stat.S_IMODE(info.st_mode)
        lacking = mode & 0o500 != 0o500
        if lacking:
            os.chmod(name, mode | 0o500, dir_fd=fd)
        inner = os.open(name, _DIRECTORY, dir_fd=fd)
        try:
            self.walk(inner, f"{path}/", depth + 1)
        finally:
            if lacking:
                os.fchmod(inner, mode)
            os.close(inner)

    def _digest(self, fd: int, name: str, info: os.stat_result) -> str:
        self._left -= info.st_size
        if self._left < 0:
            raise FolderError(f"the files have more than {MAX_READ_BYTES} bytes")
        mode = stat.S_IMODE(info.st_mode)
        lacking = not mode & 0o400
        if lacking:
            os.chmod(name, mode | 0o400, dir_fd=fd)
        state = hashlib.sha256()
        file = os.open(name, _FILE, dir_fd=fd)
        try:
            if lacking:
                os.fchmod(file, mode)
            while chunk := os.read(file, _CHUNK_BYTES):
                state.update(chunk)
        finally:
            os.close(file)
        return state.hexdigest()
