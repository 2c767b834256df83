"""Mounts as descriptors: cloned, changed while attached nowhere, then put in place."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable

from .syscalls import libc_call, syscall

__all__ = [
    "MS_NODEV",
    "MS_NOEXEC",
    "MS_NOSUID",
    "MS_RDONLY",
    "RESOLVE_BENEATH",
    "RESOLVE_NO_SYMLINKS",
    "clone_here",
    "clone_tree",
    "detach",
    "mount",
    "move_mount",
    "openat2",
    "set_attributes",
]

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x4, 0x8
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE = 1
_MOVE_BY_DESCRIPTORS = 0x4 | 0x40
_MNT_DETACH = 2
_UNREACHABLE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.EXDEV)


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Mount a file system, or change how mounts at ``target`` propagate."""
    libc_call(
        "mount",
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )


def detach(target: str) -> None:
    """Take a mount out of this namespace; what holds a descriptor of it keeps it."""
    libc_call("umount2", os.fsencode(target), _MNT_DETACH)


def openat2(directory: int, path: str, flags: int, resolve: int) -> int:
    """Open with a restriction on how ``path`` is resolved; close-on-exec."""
    how = ctypes.create_string_buffer(struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, resolve), 24)
    return syscall("openat2", directory, os.fsencode(path), how, 24)


def set_attributes(fd: int, attributes: int, *, recursive: bool) -> None:
    """Add mount attributes to the tree at ``fd``."""
    wanted = ctypes.create_string_buffer(struct.pack("=QQQQ", attributes, 0, 0, 0), 32)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    syscall("mount_setattr", fd, b"", flags, wanted, 32)


def clone_tree(
    path: str, attributes: int, check: Callable[[int], None] | None = None
) -> int | None:
    """Return a detached copy of the mounts at ``path``, or ``None`` when out of reach.

    Args:
        path: Absolute, without links.
        attributes: Set before anyone can see the copy.
        check: Given a descriptor of what is cloned; it may raise to refuse it.
    """
    try:
        source = openat2(_AT_FDCWD, path, os.O_PATH, RESOLVE_NO_SYMLINKS)
    except OSError as exc:
        if exc.errno in _UNREACHABLE:
            return None
        raise
    try:
        if check is not None:
            check(source)
        tree = syscall(
            "open_tree",
            source,
            b"",
            _AT_EMPTY_PATH | _AT_RECURSIVE | _OPEN_TREE_CLONE | os.O_CLOEXEC,
        )
    finally:
        os.close(source)
    set_attributes(tree, attributes, recursive=True)
    return tree


def clone_here(directory: int, name: str) -> int:
    """Return a detached copy of the mount at ``name``, the one mount only."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC
    return syscall("open_tree", directory, os.fsencode(name), flags)


def move_mount(tree: int, point: int) -> None:
    """Attach a detached tree at the place that ``point`` is a descriptor of."""
    syscall("move_mount", tree, b"", point, b"", _MOVE_BY_DESCRIPTORS)
