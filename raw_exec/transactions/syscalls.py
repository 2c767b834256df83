"""Every file system call of a commit and of its recovery, one small function each.

Rules:

1. Nothing here follows a symbolic link, and a path is only ever resolved beneath a descriptor
   (``open_beneath``): the kernel refuses links, ``..`` that leaves, and other mounts.
2. Each function calls ``fault`` first, when a test has set it. So a test can stop a commit
   between any two system calls, or make any one of them fail, and no step is missed.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Callable
from typing import Final

__all__ = [
    "append",
    "change_mode",
    "change_owner",
    "change_owner_of",
    "copy_data",
    "copy_xattrs",
    "drop_default_acl",
    "exchange",
    "exists",
    "list_names",
    "lock",
    "look",
    "make_directory",
    "make_file",
    "make_link",
    "make_symlink",
    "mode_of_path",
    "move",
    "open_at",
    "open_beneath",
    "read_link",
    "remove_directory",
    "remove_file",
    "set_times",
    "set_times_of",
    "sync",
    "sync_file_system",
    "write_at",
]

fault: Callable[[str], None] | None = None
"""Called with the name of each call before it is made; set by tests only."""

PATH_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_NR_OPENAT2: Final = 437
_RESOLVE_NO_XDEV: Final = 0x01
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_BENEATH: Final = 0x08
_RESOLVE: Final = (
    _RESOLVE_NO_XDEV | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH
)
_RENAME_NOREPLACE: Final = 1
_RENAME_EXCHANGE: Final = 2
_MAX_PATH_BYTES: Final = 3800
"""The kernel takes 4095 bytes at a time; a longer path is opened in parts."""
MAX_SYNCED_EACH: Final = 16
"""With more things than this, one wait for the whole file system is faster than one for each."""
_SMALL_BYTES: Final = 128 * 1024
_CHUNK_BYTES: Final = 8 * 1024 * 1024
_RETRIES: Final = 64

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_renameat2 = getattr(_libc, "renameat2", None)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def _point(name: str) -> None:
    if fault is not None:
        fault(name)


def _failed(name: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), name)


# ---------------------------------------------------------------- opening and looking


def open_beneath(base: int, path: bytes, flags: int) -> int:
    """Open a path beneath a directory, through real directories of one mount only.

    Args:
        base: Descriptor of the directory.
        path: Relative; empty for the directory itself.
        flags: As for ``open``; with ``O_PATH | O_NOFOLLOW`` the last part may be a link.

    Raises:
        OSError: ``ELOOP`` for a link on the way, ``EXDEV`` for a mount, ``ENOSYS`` before
            Linux 5.6.
    """
    start, opened = base, -1
    try:
        while len(path) > _MAX_PATH_BYTES:
            cut = path.rfind(b"/", 0, _MAX_PATH_BYTES)
            if cut <= 0:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            head, path = path[:cut], path[cut + 1 :]
            inner = _openat2(start, head, PATH_DIRECTORY)
            if opened >= 0:
                os.close(opened)
            start = opened = inner
        return _openat2(start, path or b".", flags)
    finally:
        if opened >= 0:
            os.close(opened)


def _openat2(base: int, path: bytes, flags: int) -> int:
    _point("openat2")
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _RESOLVE)
    for _attempt in range(_RETRIES):
        found = int(
            _syscall(
                ctypes.c_long(_NR_OPENAT2),
                ctypes.c_long(base),
                path,
                ctypes.byref(how),
                ctypes.c_long(ctypes.sizeof(how)),
            )
        )
        if found >= 0:
            return found
        # Race: a rename elsewhere in the system may have made the kernel lose its way.
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            break
    raise _failed("openat2")


def open_at(parent: int, name: bytes, flags: int, mode: int = 0o600) -> int:
    """Open one name in a directory; a link is never followed."""
    _point("open")
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=parent)


def look(parent: int, name: bytes) -> os.stat_result | None:
    """Return what one name in a directory is, or ``None`` when there is nothing."""
    _point("stat")
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def exists(parent: int, name: bytes) -> bool:
    """Whether a name is in a directory."""
    return look(parent, name) is not None


def list_names(fd: int) -> list[bytes]:
    """Return the names in a directory that is open for reading."""
    _point("getdents")
    return [os.fsencode(name) for name in os.listdir(fd)]


def read_link(parent: int, name: bytes) -> bytes:
    """Return the target of a link."""
    _point("readlink")
    return os.readlink(name, dir_fd=parent)


# ---------------------------------------------------------------- making and moving


def make_directory(parent: int, name: bytes, mode: int = 0o700) -> None:
    """Make a directory; the process's mask does not apply."""
    _point("mkdir")
    os.mkdir(name, mode, dir_fd=parent)


def make_file(parent: int, name: bytes) -> int:
    """Make a file that nobody else may open, and return a descriptor to write to it."""
    return open_at(parent, name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)


def make_symlink(parent: int, name: bytes, target: bytes) -> None:
    """Make a symbolic link."""
    _point("symlink")
    os.symlink(target, name, dir_fd=parent)


def make_link(old_parent: int, old: bytes, parent: int, name: bytes) -> None:
    """Give a file another name."""
    _point("link")
    os.link(old, name, src_dir_fd=old_parent, dst_dir_fd=parent, follow_symlinks=False)


def move(old_parent: int, old: bytes, parent: int, name: bytes) -> None:
    """Move to a name that must not be there.

    Raises:
        FileExistsError: It is.
    """
    _rename("rename", old_parent, old, parent, name, _RENAME_NOREPLACE)


def exchange(old_parent: int, old: bytes, parent: int, name: bytes) -> None:
    """Exchange two names in one step: at no moment is either missing."""
    _rename("exchange", old_parent, old, parent, name, _RENAME_EXCHANGE)


def _rename(what: str, old_parent: int, old: bytes, parent: int, name: bytes, flag: int) -> None:
    _point(what)
    if _renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), what)
    done = _renameat2(
        ctypes.c_int(old_parent), old, ctypes.c_int(parent), name, ctypes.c_uint(flag)
    )
    if done < 0:
        raise _failed(what)


def remove_file(parent: int, name: bytes) -> None:
    """Remove anything but a directory."""
    _point("unlink")
    os.unlink(name, dir_fd=parent)


def remove_directory(parent: int, name: bytes) -> None:
    """Remove an empty directory."""
    _point("rmdir")
    os.rmdir(name, dir_fd=parent)


# ---------------------------------------------------------------- content and metadata


def copy_data(source: int, target: int, status: os.stat_result) -> None:
    """Copy a file's bytes into an empty file; holes stay holes, blocks are shared if possible.

    Args:
        source: Open for reading.
        target: Open for writing.
        status: Of ``source``.

    Raises:
        OSError: The disk is full, for one; or the source ended early.
    """
    size = status.st_size
    if size <= _SMALL_BYTES and status.st_blocks * 512 >= size:
        _point("write")
        data = os.pread(source, size + 1, 0)
        if len(data) != size:
            raise OSError(errno.EIO, "the size of a file changed while it was copied")
        write_at(target, data, 0, counted=False)
        return
    _point("truncate")
    os.ftruncate(target, size)
    at = 0
    while at < size:
        try:
            start = os.lseek(source, at, os.SEEK_DATA)
        except OSError as exc:
            if exc.errno == errno.ENXIO:  # only a hole is left
                break
            if exc.errno != errno.EINVAL:
                raise
            start, at = at, size  # a file system without holes
        else:
            at = os.lseek(source, start, os.SEEK_HOLE)
        _copy_range(source, target, start, min(at, size))


def _copy_range(source: int, target: int, at: int, end: int) -> None:
    in_kernel = True
    while at < end:
        _point("copy_file_range")
        count = min(end - at, _CHUNK_BYTES)
        if in_kernel:
            try:
                done = os.copy_file_range(source, target, count, at, at)
            except OSError as exc:
                if exc.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                    raise
                in_kernel = False
                continue
        else:
            data = os.pread(source, count, at)
            write_at(target, data, at, counted=False)
            done = len(data)
        if done == 0:
            raise OSError(errno.EIO, "the size of a file changed while it was copied")
        at += done


def write_at(fd: int, data: bytes, offset: int, *, counted: bool = True) -> None:
    """Write all of ``data`` at an offset."""
    if counted:
        _point("write")
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, offset)
        view, offset = view[done:], offset + done


def append(fd: int, data: bytes) -> None:
    """Write all of ``data`` at the end of what was written to ``fd``."""
    _point("write")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def copy_xattrs(source: int, target: int, names: list[str]) -> None:
    """Copy extended attributes between open files."""
    for name in names:
        _point("setxattr")
        os.setxattr(target, name, os.getxattr(source, name))


def drop_default_acl(fd: int) -> None:
    """Let what is made in a directory inherit no access control list."""
    _point("removexattr")
    try:
        os.removexattr(fd, "system.posix_acl_default")
    except OSError as exc:
        if exc.errno not in (errno.ENOTSUP, errno.ENODATA):
            raise


def mode_of_path(fd: int) -> int:
    """Return the permission bits of what a descriptor stands for."""
    return stat.S_IMODE(os.fstat(fd).st_mode)


def change_mode(fd: int, mode: int) -> None:
    """Set permission bits; ``fd`` may be an ``O_PATH`` descriptor, but not of a link."""
    _point("chmod")
    os.chmod(f"/proc/self/fd/{fd}", mode)


def change_owner(parent: int, name: bytes, uid: int, gid: int) -> None:
    """Set the owner and group of one name in a directory."""
    _point("chown")
    os.chown(name, uid, gid, dir_fd=parent, follow_symlinks=False)


def change_owner_of(fd: int, uid: int, gid: int) -> None:
    """Set the owner and group of what a descriptor stands for; it may be ``O_PATH``."""
    _point("chown")
    os.chown(f"/proc/self/fd/{fd}", uid, gid)


def set_times_of(fd: int, atime_ns: int, mtime_ns: int) -> None:
    """Set the times of what a descriptor stands for; it may be ``O_PATH``."""
    _point("utimensat")
    os.utime(f"/proc/self/fd/{fd}", ns=(atime_ns, mtime_ns))


def set_times(parent: int, name: bytes, atime_ns: int, mtime_ns: int) -> None:
    """Set the times of one name in a directory."""
    _point("utimensat")
    os.utime(name, ns=(atime_ns, mtime_ns), dir_fd=parent, follow_symlinks=False)


# ---------------------------------------------------------------- disk and locks


def sync(fd: int) -> None:
    """Wait until a file or directory is on disk."""
    _point("fsync")
    os.fsync(fd)


def sync_file_system(fd: int) -> None:
    """Wait until all that was written to the file system of ``fd`` is on disk."""
    _point("syncfs")
    if _libc.syncfs(ctypes.c_int(fd)) < 0:
        raise _failed("syncfs")


def lock(fd: int) -> bool:
    """Lock a file against other processes and other descriptors; ``False`` if it is locked."""
    _point("flock")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
