"""Content-addressed snapshots of plugin folders: code runs from these, not from the source.

Editing a tool changes nothing until the next load. A small folder is kept in memory; a big
one is remembered by digest, and has to be materialised while its source is still the same.

Not covered: the store itself. It must be owned by the user, outside of every grant.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ..errors import ManifestError
from ..jsontext import JsonTextError, read_regular_file
from ..limits import MAX_SNAPSHOT_BYTES
from ..private_root import remove_tree
from .tree import (
    TOOL_FOLDER,
    Entry,
    FolderRules,
    open_inside,
    refuse,
    resolve,
    tree_digest,
    walk_tree,
)

__all__ = ["Snapshot", "take_snapshot"]

KEEP_BYTES = 1024 * 1024
KEEP_FILES = 256
_COPY_BYTES = 1024 * 1024
_FOLDER_MODE = 0o555


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One plugin folder as it was at load time.

    Args:
        digest: ``sha256:…`` over all entries.
        source: Folder it was taken from, absolute.
        entries: Everything in it by relative path, sorted.
        files: Bytes by relative path; all files when ``in_memory``, else the manifest only.
        in_memory: Whether the source is no longer needed.
    """

    digest: str
    source: str
    entries: Mapping[str, Entry]
    files: Mapping[str, bytes]
    in_memory: bool

    def find(self, path: str) -> Entry | None:
        """Return the file that a path names, following symlinks inside the snapshot."""
        entry = self.entries.get(path)
        if entry is None or entry.kind == "symlink":
            # Also "a/./b", or a file below a symlinked folder.
            found = resolve(self.entries, path, self.source)
            entry = self.entries.get(found) if found is not None else None
        return entry if entry is not None and entry.kind == "file" else None

    def read(self, path: str) -> bytes:
        """Return the bytes of one file, following symlinks inside the snapshot.

        Raises:
            ManifestError: ``snapshot_no_file``; or ``snapshot_changed`` when the folder is
                not in memory and the source is no longer what it was.
        """
        where = self.source
        entry = self.find(path)
        if entry is None:
            refuse("snapshot_no_file", "is not a file of this tool", os.path.join(where, path))
        kept = self.files.get(entry.path)
        if kept is not None:
            return kept
        real = os.path.join(where, entry.path)
        try:
            data = read_regular_file(real, MAX_SNAPSHOT_BYTES, follow_symlinks=False)
        except (OSError, JsonTextError) as exc:
            raise ManifestError("snapshot_changed", f"can not be read: {exc}", where=real) from exc
        if hashlib.sha256(data).digest() != entry.sha256:
            refuse("snapshot_changed", "has changed since the tool was loaded", real)
        return data

    def files_for_engine(self) -> Mapping[str, bytes]:
        """Return every file by relative path, symlinks followed, read when asked for.

        Look-ups raise what ``read`` raises when the source has changed.
        """
        return _Files(self)

    def kept_in(self, store: Path) -> Snapshot:
        """Materialise, and return the same snapshot reading from that copy from now on."""
        return dataclasses.replace(self, source=str(self.materialise(store)))

    def path_in(self, store: Path) -> Path:
        """Return where this snapshot is, or would be, in a store."""
        return store / self.digest.replace(":", "-")

    def materialise(self, store: Path) -> Path:
        """Write the snapshot into a store and return its folder there.

        Files become 0444 or 0555, folders 0555. The folder appears whole or not at all, so
        calling this at the same time from anywhere is fine; what exists is verified and used.

        Args:
            store: Folder for all snapshots; created with mode 0700 if missing.

        Raises:
            ManifestError: ``snapshot_changed``: the source is not what was loaded.
            OSError: The store can not be written.
        """
        final = self.path_in(store)
        if self._is_intact(final):
            return final
        store.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = store / f".{secrets.token_hex(8)}.tmp"
        temporary.mkdir(mode=0o700)
        try:
            if self.in_memory:
                self._write_from_memory(temporary)
            else:
                self._copy_from_source(temporary)
            self._finish(temporary)
            self._publish(temporary, final)
        except BaseException:
            remove_tree(temporary)
            raise
        return final

    def _is_intact(self, folder: Path) -> bool:
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            entries, _files, _all = walk_tree(fd, str(folder))
        except ManifestError:
            return False
        finally:
            os.close(fd)
        return tree_digest(entries) == self.digest

    def _write_from_memory(self, folder: Path) -> None:
        for entry in self.entries.values():
            path = os.path.join(folder, entry.path)
            if entry.kind == "dir":
                os.mkdir(path, 0o700)
            elif entry.kind == "symlink":
                os.symlink(entry.target, path)
            else:
                fd = _create(path, entry.executable)
                with os.fdopen(fd, "wb") as out:
                    out.write(self.files[entry.path])

    def _copy_from_source(self, folder: Path) -> None:
        for entry in self.entries.values():
            path = os.path.join(folder, entry.path)
            if entry.kind == "dir":
                os.mkdir(path, 0o700)
            elif entry.kind == "symlink":
                os.symlink(entry.target, path)

        def sink(relative: str, fd: int, executable: bool) -> None:
            if relative not in self.entries:
                self._changed()
            out = _create(os.path.join(folder, relative), executable)
            try:
                while os.sendfile(out, fd, None, _COPY_BYTES):
                    pass
            finally:
                os.close(out)

        fd = open_inside(*os.path.split(self.source))
        try:
            entries, _files, _all = walk_tree(fd, self.source, sink=sink)
        finally:
            os.close(fd)
        if tree_digest(entries) != self.digest or not self._is_intact(folder):
            # Race: hashed and copied are two reads; only the digest of the copy counts.
            self._changed()

    def _changed(self) -> None:
        refuse(
            "snapshot_changed",
            "has changed since the tool was loaded",
            self.source,
            "load the configuration again",
        )

    def _finish(self, folder: Path) -> None:
        for entry in self.entries.values():
            if entry.kind == "dir":
                os.chmod(os.path.join(folder, entry.path), _FOLDER_MODE)

    def _publish(self, temporary: Path, final: Path) -> None:
        for _attempt in range(3):
            try:
                # Renaming needs write permission on the folder itself on some file systems.
                os.rename(temporary, final)
            except OSError:
                if self._is_intact(final):
                    remove_tree(temporary)
                    return
                damaged = final.with_name(f".{secrets.token_hex(8)}.damaged")
                try:
                    os.rename(final, damaged)
                except FileNotFoundError:
                    continue
                remove_tree(damaged)
            else:
                os.chmod(final, _FOLDER_MODE)
                return
        raise ManifestError("snapshot_store", "can not be replaced in the store", where=str(final))


class _Files(Mapping[str, bytes]):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __getitem__(self, path: str) -> bytes:
        if path not in self:
            raise KeyError(path)
        return self._snapshot.read(path)

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str):
            return False
        try:
            return self._snapshot.find(path) is not None
        except ManifestError:
            # The path itself leads out, for example "../x": there is no such file.
            return False

    def __iter__(self) -> Iterator[str]:
        return (path for path in self._snapshot.entries if path in self)

    def __len__(self) -> int:
        return sum(1 for _path in self)


def _create(path: str, executable: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    os.fchmod(fd, 0o555 if executable else 0o444)
    return fd


def take_snapshot(fd: int, source: str, *, rules: FolderRules = TOOL_FOLDER) -> Snapshot:
    """Read an open plugin folder.

    Args:
        fd: Directory descriptor; stays open.
        source: Its absolute path.
        rules: What may be in it.

    Raises:
        ManifestError: See ``walk_tree``.
    """
    entries, files, complete = walk_tree(
        fd, source, keep_bytes=KEEP_BYTES, keep_files=KEEP_FILES, rules=rules
    )
    return Snapshot(
        tree_digest(entries),
        source,
        MappingProxyType({entry.path: entry for entry in entries}),
        MappingProxyType(files),
        complete,
    )
