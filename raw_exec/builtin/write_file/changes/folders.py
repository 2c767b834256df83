"""File access for patches: folders opened step by step, no symbolic link ever followed.

Every path is walked from ``/`` with ``O_NOFOLLOW``; what is done afterwards is done relative
to the open folder, so a folder that is swapped for a link meanwhile leads nowhere else.

Not covered: a folder that is moved while a patch runs is written where it went.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass

from .failures import RowFailed
from .text import MAX_FILE_BYTES

__all__ = ["Folders", "Place", "read_regular", "write_all", "write_new"]

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS = (errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What ``link`` says where hard links can't be made, though files can be renamed."""

_PERMISSION_BITS = 0o777


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``; a file descriptor may take less at once."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_new(path: str, data: bytes, mode: int | None, *, folder: int | None = None) -> None:
    """Write a file that must not exist yet; nothing of it stays behind after an error.

    Args:
        mode: Permission bits; ``None`` for those of any new file.
        folder: Descriptor of the folder that a relative path starts at.

    Raises:
        OSError: The file system refused.
    """
    fd = os.open(path, _NEW, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        try:
            write_all(fd, data)
            if mode is not None:
                # Security: as the kernel does on a write, drop set-user-ID and the like.
                os.fchmod(fd, mode & _PERMISSION_BITS)
        finally:
            os.close(fd)
    except BaseException:
        os.unlink(path, dir_fd=folder)
        raise


def read_regular(fd: int) -> bytes:
    """Return the bytes of an open regular file; the descriptor stays open.

    Raises:
        RowFailed: It is none, or over ``MAX_FILE_BYTES``.
        OSError: The file system refused.
    """
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise RowFailed("not_a_regular_file", "is not a regular file")
    if status.st_size > MAX_FILE_BYTES:
        text = f"has {status.st_size} bytes; the limit is {MAX_FILE_BYTES}"
        raise RowFailed("file_too_large", text)
    parts: list[bytes] = []
    left = MAX_FILE_BYTES + 1
    while left > 0 and (part := os.read(fd, min(left, status.st_size + 1))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


@dataclass(slots=True)
class Place:
    """Where a file is, or would be.

    Args:
        path: Absolute.
        folder: Descriptor of the innermost folder that exists.
        missing: Names of the folders below it that do not.
        name: Of the file in the last of them.
    """

    path: str
    folder: int
    missing: list[str]
    name: str


class Folders:
    """The folders that one patch works in, open until ``close``."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._staged: dict[str, int] = {}
        self._writable: set[int] = set()

    def close(self) -> None:
        """Remove staged files that were not used, and close everything."""
        for name, folder in self._staged.items():
            try:
                os.unlink(name, dir_fd=folder)
            except OSError:
                continue  # best effort: it is a stray file with our name, not a lost one
        for fd in self._open.values():
            os.close(fd)
        self._staged.clear()
        self._open.clear()

    def find(self, path: str) -> Place:
        """Walk to the folder of an absolute, normalised path.

        Raises:
            RowFailed: ``symlink`` or ``not_a_directory``: a component can't be passed.
            OSError: The file system refused.
        """
        *parents, name = path.split("/")[1:]
        fd = os.open("/", _FOLDER)
        here = ""
        try:
            for index, part in enumerate(parents):
                try:
                    inner = os.open(part, _FOLDER, dir_fd=fd)
                except FileNotFoundError:
                    return Place(path, self._keep(here, fd), parents[index:], name)
                except NotADirectoryError:
                    raise _not_a_folder(f"{here}/{part}", part, fd) from None
                os.close(fd)
                fd = inner
                here += f"/{part}"
            return Place(path, self._keep(here, fd), [], name)
        finally:
            os.close(fd)

    def _keep(self, path: str, fd: int) -> int:
        known = self._open.get(path)
        if known is None:
            known = self._open[path] = os.dup(fd)
        return known

    def status(self, place: Place) -> os.stat_result | None:
        """Return the status of the file itself, never of a link's target; ``None`` if missing."""
        if place.missing:
            return None
        try:
            return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def read(self, place: Place) -> bytes:
        """Return the bytes of a regular file.

        Raises:
            RowFailed: It is none, or over ``MAX_FILE_BYTES``.
            OSError: The file system refused.
        """
        fd = os.open(place.name, _READ, dir_fd=place.folder)
        try:
            return read_regular(fd)
        finally:
            os.close(fd)

    def stage(self, place: Place, data: bytes, mode: int | None) -> str:
        """Write ``data`` to a new file beside the place; return its name.

        Where folders of the place are missing, that is the innermost one that exists.

        Args:
            mode: Permission bits; ``None`` for those of any new file.
        """
        name = f".raw-{os.urandom(8).hex()}.tmp"
        write_new(name, data, mode, folder=place.folder)
        self._staged[name] = place.folder
        self._writable.add(place.folder)
        return name

    def check_writable(self, place: Place) -> None:
        """Try whether names can be made in the innermost folder that exists.

        Asking the kernel is not enough: a sandbox denies more than it tells.

        Raises:
            OSError: They can't.
        """
        if place.folder not in self._writable:
            self.stage(place, b"", None)

    def replace(self, staged: str, place: Place) -> None:
        """Put a staged file in the place of an existing one, in one step."""
        folder = self._staged[staged]
        os.rename(staged, place.name, src_dir_fd=folder, dst_dir_fd=place.folder)
        del self._staged[staged]

    def place_new(self, staged: str, place: Place) -> None:
        """Put a staged file where there is none; make missing folders first.

        Raises:
            FileExistsError: Something is there by now; it is kept.
        """
        folder = self._staged[staged]
        with _MadeFolders(self, place):
            self._put(staged, folder, place)
        del self._staged[staged]

    def move(self, source: Place, place: Place) -> None:
        """Rename a file to where there is none; make missing folders first.

        Raises:
            FileExistsError: Something is there by now; it is kept.
        """
        with _MadeFolders(self, place):
            self._put(source.name, source.folder, place)

    def remove(self, place: Place) -> None:
        """Delete a file."""
        os.unlink(place.name, dir_fd=place.folder)

    def _put(self, name: str, folder: int, place: Place) -> None:
        """Rename, never over something: link and unlink where the file system can."""
        try:
            os.link(
                name,
                place.name,
                src_dir_fd=folder,
                dst_dir_fd=place.folder,
                follow_symlinks=False,
            )
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
            self._put_without_links(name, folder, place)
            return
        try:
            os.unlink(name, dir_fd=folder)
        except OSError:
            os.unlink(place.name, dir_fd=place.folder)
            raise

    def _put_without_links(self, name: str, folder: int, place: Place) -> None:
        # Race: what appears between this look and the rename is replaced.
        if self.status(place) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        try:
            os.rename(name, place.name, src_dir_fd=folder, dst_dir_fd=place.folder)
        except OSError as exc:
            if exc.errno != errno.EXDEV:
                raise
            # Another file system, or Landlock before version 2: copy, then unlink.
            source = Place("", folder, [], name)
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            copy = self.stage(place, self.read(source), mode)
            self.replace(copy, place)
            os.unlink(name, dir_fd=folder)


class _MadeFolders:
    """Makes the missing folders of a place, and removes them again if the rest fails."""

    def __init__(self, folders: Folders, place: Place) -> None:
        self._folders = folders
        self._place = place
        self._made: list[tuple[int, str]] = []

    def __enter__(self) -> None:
        try:
            self._make()
        except BaseException:
            self._undo()
            raise

    def __exit__(self, kind: object, *_rest: object) -> None:
        if kind is not None:
            self._undo()

    def _make(self) -> None:
        place = self._place
        above = place.path.rsplit("/", len(place.missing) + 1)[0]
        while place.missing:
            part = place.missing[0]
            try:
                os.mkdir(part, dir_fd=place.folder)
                self._made.append((place.folder, part))
            except FileExistsError:
                pass  # an earlier section of this patch made it; opening tells what it is
            try:
                fd = os.open(part, _FOLDER, dir_fd=place.folder)
            except NotADirectoryError:
                raise _not_a_folder(f"{above}/{part}", part, place.folder) from None
            above += f"/{part}"
            try:
                place.folder = self._folders._keep(above, fd)
            finally:
                os.close(fd)
            place.missing.pop(0)

    def _undo(self) -> None:
        for folder, name in reversed(self._made):
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError:
                return


def _not_a_folder(path: str, name: str, folder: int) -> RowFailed:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        mode = 0
    if stat.S_ISLNK(mode):
        return RowFailed("symlink", f"leads through a symbolic link, {path!r}")
    return RowFailed("not_a_directory", f"is below {path!r}, which is not a folder")
