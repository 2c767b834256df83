"""Walk a plugin folder without following anything out of it.

Rules:

1. Every step opens a name relative to an open directory with ``O_NOFOLLOW``, so a folder
   that is being swapped for a symlink can not lead the walk elsewhere.
2. Regular files, directories and symlinks that resolve inside the folder are accepted;
   everything else is refused with its path. A hard link can not be told from a file.
3. Names are valid UTF-8 without control characters.
4. Entries named ``.git`` and ``__pycache__`` are skipped at any depth: they change without
   the plugin changing. Nothing else is, ``node_modules`` and dotfiles included.
5. Counts and sizes are checked before bytes are read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

from ..errors import ManifestError
from ..fields import shown
from ..jsontext import kind_name
from ..limits import MAX_MANIFEST_BYTES, MAX_SNAPSHOT_BYTES, MAX_SNAPSHOT_FILES

__all__ = ["TOOL_FOLDER", "Entry", "FolderRules", "open_inside", "tree_digest", "walk_tree"]

SKIPPED: Final = frozenset({".git", "__pycache__"})
MANIFEST_NAME: Final = "tool.json"
_MAX_PATH_BYTES = 1024
_MAX_SIMPLE_CHARS = 256
_MAX_DEPTH = 48
"""Directory levels; each open level holds one descriptor during the walk."""

_MAX_LINK_HOPS = 40
_CHUNK_BYTES = 1024 * 1024
_DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC

Kind = Literal["file", "dir", "symlink"]
_KIND_BYTES: Final = {"file": b"F", "dir": b"D", "symlink": b"L"}
Sink = Callable[[str, int, bool], None]
"""``sink(path, fd, executable)`` reads the open file itself; used to copy while hashing."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a plugin folder.

    Args:
        path: Relative, with ``/``.
        executable: Any execute bit, files only.
        size: Bytes of the file, or of the link's target.
        sha256: Digest of the bytes; ``b""`` for a directory.
        target: Of a symlink.
    """

    path: str
    kind: Kind
    executable: bool
    size: int
    sha256: bytes
    target: str = ""


@dataclass(frozen=True, slots=True)
class FolderRules:
    """What a folder may hold.

    Args:
        what: What the folder is, for messages.
        manifest: Name of its manifest, whose bytes are always kept.
        max_entries: Files, folders and symlinks together.
        max_files: Regular files alone.
        max_bytes: Of all files together.
        links: Whether symlinks inside the folder are accepted.
    """

    what: str = "tool"
    manifest: str = MANIFEST_NAME
    max_entries: int = MAX_SNAPSHOT_FILES
    max_files: int = MAX_SNAPSHOT_FILES
    max_bytes: int = MAX_SNAPSHOT_BYTES
    links: bool = True


TOOL_FOLDER: Final = FolderRules()


def refuse(code: str, message: str, where: str, hint: str | None = None) -> NoReturn:
    """Raise ``ManifestError``."""
    raise ManifestError(code, message, where=where, hint=hint)


def tree_digest(entries: list[Entry]) -> str:
    """Return ``sha256:…`` over kind, execute bit, path and bytes of all entries in order."""
    total = hashlib.sha256(b"raw_exec snapshot 1\0")
    for entry in sorted(entries, key=lambda e: e.path):
        path = entry.path.encode("utf-8")
        total.update(
            _KIND_BYTES[entry.kind]
            + (b"x" if entry.executable else b"-")
            + len(path).to_bytes(4, "big")
            + path
            + entry.size.to_bytes(8, "big")
            + entry.sha256
        )
    return "sha256:" + total.hexdigest()


def open_inside(root: str, name: str) -> int:
    """Open the folder ``name`` of ``root`` as a directory descriptor.

    The folder may be a symlink as long as it resolves inside ``root``.

    Raises:
        ManifestError: ``tool_not_found``, ``tool_outside_root`` or ``tool_unreadable``.
    """
    where = os.path.join(root, name)
    try:
        return os.open(where, _DIR_FLAGS)
    except OSError as exc:
        if exc.errno not in (errno.ELOOP, errno.ENOTDIR):
            refuse(_open_code(exc), f"can not open the folder: {exc.strerror}", where)
    try:
        root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as exc:
        refuse(_open_code(exc), f"can not open the tool root: {exc.strerror}", root)
    try:
        return _open_linked(root, root_fd, name, where)
    finally:
        os.close(root_fd)


def _open_code(exc: OSError) -> str:
    return "tool_not_found" if exc.errno == errno.ENOENT else "tool_unreadable"


def _open_linked(root: str, root_fd: int, name: str, where: str) -> int:
    info = os.stat(name, dir_fd=root_fd, follow_symlinks=False)
    if not stat.S_ISLNK(info.st_mode):
        refuse("tool_unreadable", f"is {kind_name(info.st_mode)}, not a folder", where)
    real_root = os.path.realpath(root)
    real = os.path.realpath(where)
    if not real.startswith(real_root.rstrip("/") + "/"):
        refuse("tool_outside_root", "is a symlink that leads outside its root", where)
    # Security: walk the resolved path again without following links, so that a link
    # changed since then fails instead of leading out.
    fd = os.dup(root_fd)
    try:
        for part in os.path.relpath(real, real_root).split("/"):
            below = os.open(part, _DIR_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = below
    except OSError as exc:
        os.close(fd)
        refuse(_open_code(exc), f"can not open the folder: {exc.strerror}", where)
    return fd


def _name_of(item: os.DirEntry[str]) -> str:
    return item.name


class _Walk:
    def __init__(
        self,
        where: str,
        keep_bytes: int,
        keep_files: int,
        sink: Sink | None,
        rules: FolderRules,
    ) -> None:
        self.where = where
        self.rules = rules
        self.count = 0
        self.entries: list[Entry] = []
        self.files: dict[str, bytes] = {}
        self.total = 0
        self.kept = 0
        self.keep_bytes = keep_bytes
        self.keep_files = keep_files
        self.keeping = keep_bytes > 0
        self.sink = sink

    def directory(self, fd: int, prefix: str, depth: int) -> None:
        with os.scandir(fd) as listing:
            found = sorted(listing, key=_name_of)
        for item in found:
            name = item.name
            if name in SKIPPED:
                continue
            path = prefix + name
            self.check_name(path)
            if item.is_file(follow_symlinks=False):
                self.file(fd, name, path)
            elif item.is_dir(follow_symlinks=False):
                self.entries.append(Entry(path, "dir", False, 0, b""))
                self.folder(fd, name, path, depth)
            elif item.is_symlink() and self.rules.links:
                target = os.readlink(name, dir_fd=fd)
                raw = os.fsencode(target)
                digest = hashlib.sha256(raw).digest()
                self.entries.append(Entry(path, "symlink", False, len(raw), digest, target))
            else:
                mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
                accepted = (
                    "files, folders and symlinks" if self.rules.links else "files and folders"
                )
                refuse(
                    "snapshot_refused",
                    f"is {kind_name(mode)}; only {accepted} can be in a {self.rules.what}",
                    self.at(path),
                )
            if len(self.entries) > self.rules.max_entries:
                text = f"has over {self.rules.max_entries} entries"
                refuse("snapshot_too_large", text, self.where)

    def folder(self, fd: int, name: str, path: str, depth: int) -> None:
        if depth >= _MAX_DEPTH:
            refuse("snapshot_too_large", f"is over {_MAX_DEPTH} folders deep", self.at(path))
        below = os.open(name, _DIR_FLAGS, dir_fd=fd)
        try:
            self.directory(below, path + "/", depth + 1)
        finally:
            os.close(below)

    def at(self, path: str) -> str:
        return os.path.join(self.where, path)

    def check_name(self, path: str) -> None:
        if len(path) <= _MAX_SIMPLE_CHARS and path.isascii() and path.isprintable():
            return
        try:
            size = len(path.encode("utf-8"))
        except UnicodeEncodeError:
            refuse("snapshot_refused", f"name {shown(path)} is not valid UTF-8", self.where)
        if any(ord(c) < 32 or ord(c) == 127 for c in path):
            refuse("snapshot_refused", f"name {shown(path)} has control characters", self.where)
        if size > _MAX_PATH_BYTES:
            refuse("snapshot_refused", f"path {shown(path)} has {size} bytes", self.where)

    def file(self, dir_fd: int, name: str, path: str) -> None:
        fd = os.open(name, _FILE_FLAGS, dir_fd=dir_fd)
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                refuse("snapshot_refused", f"is {kind_name(info.st_mode)}", self.at(path))
            if path == self.rules.manifest and info.st_size > MAX_MANIFEST_BYTES:
                refuse(
                    "manifest_invalid",
                    f"has {info.st_size} bytes; the limit is {MAX_MANIFEST_BYTES}",
                    self.at(path),
                )
            self.count += 1
            if self.count > self.rules.max_files:
                text = f"has over {self.rules.max_files} regular files"
                refuse("snapshot_too_large", text, self.where)
            self.check_total(info.st_size)
            executable = bool(info.st_mode & 0o111)
            if info.st_size <= _CHUNK_BYTES:
                self.small_file(fd, path, executable, info.st_size)
            else:
                self.large_file(fd, path, executable)
            if self.sink is not None:
                os.lseek(fd, 0, os.SEEK_SET)
                self.sink(path, fd, executable)
        finally:
            os.close(fd)

    def check_total(self, more: int) -> None:
        if self.total + more > self.rules.max_bytes:
            refuse("snapshot_too_large", f"has over {self.rules.max_bytes} bytes", self.where)

    def small_file(self, fd: int, path: str, executable: bool, size: int) -> None:
        data = os.read(fd, size + 1)
        if len(data) != size:
            refuse("snapshot_changed", "changed while it was read", self.at(path))
        self.total += len(data)
        digest = hashlib.sha256(data).digest()
        self.entries.append(Entry(path, "file", executable, len(data), digest))
        if path == self.rules.manifest:
            self.files[path] = data
        elif self.keeping:
            self.kept += len(data)
            if self.kept > self.keep_bytes or len(self.files) >= self.keep_files:
                self.keeping = False
                self.files = {k: v for k, v in self.files.items() if k == self.rules.manifest}
            else:
                self.files[path] = data

    def large_file(self, fd: int, path: str, executable: bool) -> None:
        self.keeping = False
        self.files = {k: v for k, v in self.files.items() if k == self.rules.manifest}
        state = hashlib.sha256()
        size = 0
        while chunk := os.read(fd, _CHUNK_BYTES):
            size += len(chunk)
            self.check_total(size)
            state.update(chunk)
        self.total += size
        self.entries.append(Entry(path, "file", executable, size, state.digest()))


def walk_tree(
    fd: int,
    where: str,
    *,
    keep_bytes: int = 0,
    keep_files: int = 0,
    sink: Sink | None = None,
    rules: FolderRules = TOOL_FOLDER,
) -> tuple[list[Entry], dict[str, bytes], bool]:
    """Read a whole plugin folder.

    Args:
        fd: The open folder; it stays open.
        where: Its path for messages.
        keep_bytes: Keep the bytes of all files if they are no more than this together.
        keep_files: The same for their number.
        sink: Called with every file.
        rules: What may be in it.

    Returns:
        The entries, the bytes kept (always those of the manifest), and whether all were.

    Raises:
        ManifestError: Something in the folder is refused, too large, or unreadable.
    """
    walk = _Walk(where, keep_bytes, keep_files, sink, rules)
    try:
        walk.directory(fd, "", 0)
    except OSError as exc:
        code = "snapshot_changed" if exc.errno in _CHANGED else "tool_unreadable"
        refuse(code, f"can not be read: {exc.strerror}", _at(where, exc.filename))
    check_links(walk.entries, where)
    return walk.entries, walk.files, walk.keeping


_CHANGED: Final = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR)
"""What opening a name that was just listed gives when it was replaced meanwhile."""


def _at(where: str, name: object) -> str:
    return os.path.join(where, name) if isinstance(name, str) else where


def check_links(entries: list[Entry], where: str) -> None:
    """Refuse a symlink that leads outside the folder.

    Raises:
        ManifestError: ``snapshot_refused``.
    """
    links = [entry for entry in entries if entry.kind == "symlink"]
    if not links:
        return
    known = {entry.path: entry for entry in entries}
    for link in links:
        resolve(known, link.path, where)


def resolve(known: Mapping[str, Entry], path: str, where: str) -> str | None:
    """Return the path that ``path`` is after following symlinks inside the folder.

    This follows links as the kernel does: ``..`` goes up from where a link led. A path to
    nothing is ``None``, which is fine for a link (editors leave such lock files).

    Raises:
        ManifestError: It leads outside the folder, or in a circle.
    """
    todo = path.split("/")[::-1]
    done: list[str] = []
    hops = 0
    missing = False
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if missing or not done:
                refuse(
                    "snapshot_refused",
                    "is a symlink that leads outside the tool's folder",
                    os.path.join(where, path),
                )
            done.pop()
            continue
        done.append(part)
        entry = known.get("/".join(done))
        if entry is None:
            missing = True
        elif entry.kind == "symlink":
            hops += 1
            if entry.target.startswith("/"):
                refuse(
                    "snapshot_refused",
                    "is a symlink with an absolute target",
                    os.path.join(where, entry.path),
                    "use a relative target inside the tool's folder",
                )
            if hops > _MAX_LINK_HOPS:
                refuse("snapshot_refused", "is a circle of symlinks", os.path.join(where, path))
            done.pop()
            todo.extend(entry.target.split("/")[::-1])
    return None if missing else "/".join(done)
