"""A copy of a writable tree, where the host can't mount a copy-on-write view of it.

The copy lies on the worker's own tmpfs and takes the tree's place in the private root, so the
call still changes nothing of the tree. What was copied is written down beside it, entry by
entry, with the change time that the copy has, which only the kernel can set, and a sum of what
is in each file: a page that was mapped for writing and read first is written without a new time.

The tree may be changed by others meanwhile: no link is followed, and no path leaves it.
"""

from __future__ import annotations

import errno
import os
import stat
import time
import zlib

from .steps import StepFailed, step
from .trees import RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, openat2

__all__ = ["MANIFEST", "content_sum", "copy_tree"]

MANIFEST = "manifest"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_CHUNK_BYTES = 1 << 20
_PAGE_BYTES = 64 * 1024
_CLOCK_REALTIME_COARSE = 5
_LOOK_SECONDS, _MAX_LOOKS = 0.0005, 200


def copy_tree(tree: int, place: str, path: str, limit_bytes: int) -> int:
    """Copy a tree into ``place/upper`` and list it in ``place/manifest``.

    Args:
        tree: Descriptor of the tree's top.
        place: An empty directory with an empty ``upper`` in it.
        path: Of the tree, for messages.
        limit_bytes: Of room that its files may take.

    Returns:
        The room they take.

    Raises:
        StepFailed: With step ``"copy"``: it is too large, or has something that can't be copied.
    """
    copy = _Copy(path, limit_bytes)
    with step("copy"):
        top = os.open(f"{place}/upper", _FOLDER | os.O_CLOEXEC)
        try:
            copy.run(tree, top)
        finally:
            os.close(top)
        with open(f"{place}/{MANIFEST}", "xb") as manifest:
            manifest.write(b"\0".join(copy.listed))
    _pass_tick()
    return copy.used


def _pass_tick() -> None:
    """Wait until a change would be stamped with another time than the last copy has."""
    begin = time.time_ns()
    for _ in range(_MAX_LOOKS):
        if time.clock_gettime_ns(_CLOCK_REALTIME_COARSE) > begin:
            return
        time.sleep(_LOOK_SECONDS)
    raise StepFailed("copy", errno.ETIME, "the kernel's clock stands still")


class _Copy:
    """One copy under way."""

    def __init__(self, path: str, limit_bytes: int) -> None:
        self.path = path
        self.limit = limit_bytes
        self.used = 0
        self.listed: list[bytes] = []
        self._folders: list[tuple[str, os.stat_result]] = []

    def run(self, tree: int, top: int) -> None:
        pending = [""]
        while pending:
            folder = pending.pop()
            source, target = _beneath(tree, folder), _beneath(top, folder)
            try:
                pending += [
                    f"{folder}/{name}".lstrip("/") for name in self._one(folder, source, target)
                ]
            finally:
                os.close(source)
                os.close(target)
        # Last, and from below: one that may not be written could not have been filled.
        for folder, status in reversed(self._folders):
            fd = _beneath(top, folder)
            os.fchmod(fd, stat.S_IMODE(status.st_mode))
            os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.close(fd)

    def _one(self, folder: str, source: int, target: int) -> list[str]:
        """Copy what lies in one directory; return the names of the directories in it."""
        inner = []
        for name in os.listdir(source):
            path = f"{folder}/{name}".lstrip("/")
            status = os.stat(name, dir_fd=source, follow_symlinks=False)
            kind, told = "d", 0
            if stat.S_ISDIR(status.st_mode):
                os.mkdir(name, 0o700, dir_fd=target)
                self._folders.append((path, status))
                inner.append(name)
            elif stat.S_ISLNK(status.st_mode):
                kind = "l"
                os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            elif stat.S_ISREG(status.st_mode):
                kind, told = "f", self._file(name, source, target)
            else:
                raise StepFailed(
                    "copy", errno.EINVAL, f"{self.path}/{path} is no file, folder or link"
                )
            changed = os.stat(name, dir_fd=target, follow_symlinks=False).st_ctime_ns
            self.listed.append(b"%s%d %d %s" % (kind.encode(), changed, told, os.fsencode(path)))
        return inner

    def _file(self, name: str, source: int, target: int) -> int:
        """Copy a file; return the sum of the copy."""
        flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        old = os.open(name, os.O_RDONLY | flags, dir_fd=source)
        try:
            status = os.fstat(old)
            self.used += status.st_blocks * 512
            if self.used > self.limit:
                raise StepFailed(
                    "copy",
                    errno.EFBIG,
                    f"the files in {self.path!r} take more than copy_bytes, {self.limit}",
                )
            new = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o600, dir_fd=target)
            try:
                _copy_data(old, new, status.st_size)
                os.fchmod(new, stat.S_IMODE(status.st_mode) & 0o1777)
                os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
                return content_sum(new)
            finally:
                os.close(new)
        finally:
            os.close(old)


def content_sum(fd: int) -> int:
    """Return a sum of a file's bytes and where they lie; holes and zeros are the same.

    ``raw_exec.transactions.observe_copy`` works it out the same way. It tells what was changed
    without being meant to be hidden: what it misses is not committed, and harms nobody.
    """
    total, at = 0, 0
    while True:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA) & -_PAGE_BYTES
        except OSError as exc:
            if exc.errno == errno.ENXIO:
                return total
            raise
        page = os.pread(fd, _PAGE_BYTES, at)
        if not page:
            return total
        if page.count(0) != len(page):
            total = zlib.crc32(page, zlib.crc32(b"%d" % at, total))
        at += len(page)


def _beneath(top: int, path: str) -> int:
    return openat2(top, path or ".", _FOLDER, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)


def _copy_data(old: int, new: int, size: int) -> None:
    """Copy what is not a hole."""
    os.ftruncate(new, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(old, at, os.SEEK_DATA)
            end = min(os.lseek(old, at, os.SEEK_HOLE), size)
        except OSError as exc:
            if exc.errno == errno.ENXIO:
                return
            if exc.errno != errno.EINVAL:
                raise
            end = size  # a file system without holes
        while at < end:
            data = os.pread(old, min(_CHUNK_BYTES, end - at), at)
            if not data:
                return  # somebody cut it meanwhile
            at += os.pwrite(new, data, at)
