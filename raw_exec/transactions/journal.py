"""The record of one commit: what it is going to do, written down before it does it.

One file ``<id>.journal`` in the state directory, a JSON value a line: a header, a line for each
step, then states in the order they were reached. A line that was not finished is as good as not
written. States:

    staging     new content is being put beside the tree; nothing of the tree was changed
    committing  every step is recorded; from here on the commit is finished after a crash
    undoing     a step failed; from here on the commit is undone after a crash
    done        every step was made; only what was replaced is still to be removed

Room for the later states is written with ``committing``, so a full disk can't keep them out. The
file is locked while its process lives, which tells a running commit from a dead one.

Security: recovery does what a journal says, so the state directory must belong to the user and
be closed to everyone else, and no tool may be granted writing to it.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigError
from . import syscalls
from .arrange import STAGING_PREFIX, is_relative

__all__ = [
    "FolderStep",
    "Journal",
    "JournalText",
    "Old",
    "RootRecord",
    "Step",
    "default_state_dir",
    "find_journals",
    "hold_commit_lock",
    "open_journal",
    "open_state_dir",
    "read_journal",
]

STAGING: Final = "staging"
COMMITTING: Final = "committing"
UNDOING: Final = "undoing"
DONE: Final = "done"

_VERSION: Final = 1
_SUFFIX: Final = ".journal"
_LOCK_NAME: Final = b"commit.lock"
_ROOM_BYTES: Final = 1024
_STATE_BYTES: Final = 32
_MAX_JOURNAL_BYTES: Final = 1 << 30
_POLL_SECONDS: Final = 0.005
_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL


@dataclass(frozen=True, slots=True)
class RootRecord:
    """A tree that is committed to.

    Args:
        path: Absolute.
        inode: Of the directory.
        staging: Name in it of the private directory of this commit.
        times: Access and modification time before, nanoseconds.
    """

    path: str
    inode: int
    staging: str
    times: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Old:
    """What lay at a path before: enough to know it again.

    Args:
        inode: Its number.
        ctime_ns: When it was last changed in any way.
        mode: Type and permission bits.
    """

    inode: int
    ctime_ns: int
    mode: int

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.mode)


@dataclass(frozen=True, slots=True)
class Step:
    """One rename: something is put in place, taken away, or both at once.

    Args:
        root: Index of the tree.
        path: In it.
        slot: Name in the staging directory: of the new thing before, of the old one after.
        new_inode: Of what is put in place; 0 when a thing is only taken away.
        new_ctime_ns: When that was last changed, as long as it lies in the slot; 0 when not known,
            for a file with several names.
        old: What lay there; ``None`` when nothing did.
    """

    root: int
    path: bytes
    slot: str
    new_inode: int
    new_ctime_ns: int
    old: Old | None


@dataclass(frozen=True, slots=True)
class FolderStep:
    """A directory that stays, and in which something changes.

    Args:
        root: Index of the tree.
        path: In it.
        inode: Of the directory.
        old: Mode, owner, group, access and modification time (ns) before.
        new: Mode, owner and group afterwards.
    """

    root: int
    path: bytes
    inode: int
    old: tuple[int, int, int, int, int]
    new: tuple[int, int, int]


@dataclass(slots=True)
class JournalText:
    """What a journal says.

    Args:
        state: The last state that was reached; ``None`` before the header was complete.
        roots: The trees.
        steps: In the order they are made.
        folders: Directories that stay, parents first.
        damaged: A complete line can't be read: nothing may be concluded from the rest.
    """

    state: str | None = None
    roots: list[RootRecord] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    folders: list[FolderStep] = field(default_factory=list)
    damaged: bool = False


class Journal:
    """The open and locked journal of a commit."""

    def __init__(self, directory: int, name: bytes, fd: int) -> None:
        self._directory = directory
        self._name = name
        self._fd = fd
        self._states_at = 0

    @property
    def id(self) -> str:
        """A name for this commit that no other has."""
        return os.fsdecode(self._name).removesuffix(_SUFFIX)

    def begin(self, roots: Sequence[RootRecord]) -> None:
        """Write the header: from now on the staging directories are found again."""
        listed = [[_text(os.fsencode(r.path)), r.inode, r.staging, *r.times] for r in roots]
        syscalls.append(self._fd, _line({"version": _VERSION, "roots": listed, "state": STAGING}))
        syscalls.sync(self._fd)
        syscalls.sync(self._directory)

    def commit(self, steps: Sequence[Step], folders: Sequence[FolderStep]) -> None:
        """Write every step down, and that they are being made."""
        lines = [_line(_step_data(step)) for step in steps]
        lines += [_line(_folder_data(folder)) for folder in folders]
        syscalls.append(self._fd, b"".join(lines))
        # The steps must be on disk before the word that makes them count.
        syscalls.sync(self._fd)
        state = _state_line(COMMITTING)
        # Should this fail half-way, the next state takes the place of what was written of it.
        self._states_at = os.lseek(self._fd, 0, os.SEEK_CUR)
        syscalls.append(self._fd, state + b" " * _ROOM_BYTES)
        syscalls.sync(self._fd)
        self._states_at += len(state)

    @property
    def may_say_committing(self) -> bool:
        """Whether recovery may find that the steps count."""
        return self._states_at > 0

    def enter(self, state: str) -> None:
        """Record a state after ``committing``."""
        data = _state_line(state)
        syscalls.write_at(self._fd, data, self._states_at)
        syscalls.sync(self._fd)
        self._states_at += len(data)

    def resume(self, states_at: int) -> None:
        """Say where the next state goes, for a journal that was read."""
        self._states_at = states_at

    def remove(self) -> None:
        """Remove the file: nothing is left to do."""
        syscalls.remove_file(self._directory, self._name)

    def close(self) -> None:
        """Close the file, which unlocks it."""
        os.close(self._fd)


def default_state_dir() -> Path:
    """Return ``$XDG_STATE_HOME/raw/transactions``, or the same below ``~/.local/state``."""
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path("~/.local/state").expanduser()
    return root / "raw" / "transactions"


@contextmanager
def open_state_dir(path: Path, *, make: bool = True) -> Iterator[int]:
    """Open the directory of journals, as a descriptor.

    Raises:
        ConfigError: ``state_dir_unusable``: it can't be made or opened, or others may write.
        FileNotFoundError: It is not there, and ``make`` is not set.
    """
    try:
        if make:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, syscalls.READ_DIRECTORY)
    except FileNotFoundError:
        if not make:
            raise
        raise _unusable(path, "can't be made") from None
    except OSError as exc:
        raise _unusable(path, f"can't be used: {exc.strerror}") from exc
    try:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid():
            raise _unusable(path, f"belongs to user {status.st_uid}, not to user {os.geteuid()}")
        if status.st_mode & 0o077:
            # Security: who can write here can have files moved in the user's name.
            mode = stat.S_IMODE(status.st_mode)
            raise _unusable(path, f"has mode {mode:04o}; others may use it", f"chmod 700 {path}")
        yield fd
    finally:
        os.close(fd)


def _unusable(path: Path, message: str, hint: str | None = None) -> ConfigError:
    return ConfigError(
        "state_dir_unusable",
        message,
        where=str(path),
        hint=hint or "set XDG_STATE_HOME to a directory of your own",
    )


@contextmanager
def hold_commit_lock(directory: int, wait_seconds: float) -> Iterator[bool]:
    """Hold the one lock of a state directory, under which trees are changed.

    One for all trees, not one for each: a tree may lie in another, or be the same one under
    another name. New content is copied before it is taken, so it is held for renames only.

    Yields:
        Whether it was got in time.
    """
    fd = syscalls.open_at(directory, _LOCK_NAME, os.O_RDWR | os.O_CREAT)
    try:
        deadline = time.monotonic() + wait_seconds
        while not (got := syscalls.lock(fd)) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        yield got
    finally:
        os.close(fd)


def open_journal(directory: int) -> Journal:
    """Make a new, empty and locked journal; the caller holds the commit lock."""
    name = f"{secrets.token_hex(8)}{_SUFFIX}".encode()
    fd = syscalls.open_at(directory, name, _FILE)
    try:
        if not syscalls.lock(fd):
            raise OSError(errno.EBUSY, "a new journal is locked by somebody else")
    except BaseException:
        os.close(fd)
        syscalls.remove_file(directory, name)
        raise
    return Journal(directory, name, fd)


def find_journals(directory: int) -> Iterator[tuple[Journal, JournalText]]:
    """Yield the journals of commits whose process is dead, locked; the caller holds the lock."""
    for name in sorted(syscalls.list_names(directory)):
        if not name.endswith(_SUFFIX.encode()):
            continue
        try:
            fd = syscalls.open_at(directory, name, os.O_RDWR | os.O_NONBLOCK)
        except FileNotFoundError:
            continue  # its commit ended just now
        try:
            if not syscalls.lock(fd):
                continue
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                continue
            data = os.pread(fd, min(status.st_size, _MAX_JOURNAL_BYTES), 0)
            text, states_at = read_journal(data)
            journal = Journal(directory, name, fd)
            journal.resume(states_at)
            yield journal, text
        finally:
            os.close(fd)


def read_journal(data: bytes) -> tuple[JournalText, int]:
    """Return what a journal says, and where its next state goes.

    What follows the last complete line was never said. Padding may follow it.
    """
    text, at = JournalText(), 0
    while (end := data.find(b"\n", at)) >= 0:
        try:
            _take(text, json.loads(data[at:end]))
        except (ValueError, TypeError, KeyError, AttributeError):
            text.damaged = True
            break
        at = end + 1
    return text, at


def _take(text: JournalText, item: Any) -> None:
    if not isinstance(item, dict):
        raise ValueError("a line is no object")
    if "version" in item:
        if item["version"] != _VERSION:
            raise ValueError(f"version {item['version']!r}")
        for path, inode, staging, atime, mtime in item["roots"]:
            _need(path.startswith("/") and staging.startswith(os.fsdecode(STAGING_PREFIX)))
            _need("/" not in staging and _are_numbers(inode, atime, mtime))
            text.roots.append(RootRecord(os.fsdecode(_bytes(path)), inode, staging, (atime, mtime)))
    elif "slot" in item:
        old = item["old"]
        _need_place(text, item["root"], item["path"])
        _need(item["slot"].isdecimal() and _are_numbers(*item["new"], *(old or ())))
        text.steps.append(
            Step(
                item["root"],
                _bytes(item["path"]),
                item["slot"],
                new_inode=item["new"][0],
                new_ctime_ns=item["new"][1],
                old=None if old is None else Old(*old),
            )
        )
    elif "folder" in item:
        _need_place(text, item["root"], item["folder"] or "top")
        _need(len(item["old"]) == 5 and len(item["new"]) == 3)
        _need(_are_numbers(item["inode"], *item["old"], *item["new"]))
        text.folders.append(
            FolderStep(
                item["root"],
                _bytes(item["folder"]),
                item["inode"],
                tuple(item["old"]),
                tuple(item["new"]),
            )
        )
    if "state" in item:
        text.state = item["state"]
        if text.state not in (STAGING, COMMITTING, UNDOING, DONE):
            raise ValueError(f"state {text.state!r}")


def _need_place(text: JournalText, root: Any, path: str) -> None:
    _need(_are_numbers(root) and 0 <= root < len(text.roots) and is_relative(_bytes(path)))


def _need(fits: bool) -> None:
    """Refuse a line that no commit writes, so that nothing of its journal is done.

    Security: a step names places in a tree and in the private directory, and nothing else.
    """
    if not fits:
        raise ValueError("a line has a value that it can't have")


def _are_numbers(*values: Any) -> bool:
    return all(type(value) is int for value in values)


def _text(path: bytes) -> str:
    # Not as the locale has it: recovery may run under another one.
    return path.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _line(value: dict[str, Any]) -> bytes:
    # In ASCII, whatever a path holds.
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def _state_line(state: str) -> bytes:
    # All of one length, so that one can take another's place.
    return _line({"state": state}).rstrip(b"\n").ljust(_STATE_BYTES) + b"\n"


def _step_data(step: Step) -> dict[str, Any]:
    old = step.old
    return {
        "root": step.root,
        "path": _text(step.path),
        "slot": step.slot,
        "new": [step.new_inode, step.new_ctime_ns],
        "old": None if old is None else [old.inode, old.ctime_ns, old.mode],
    }


def _folder_data(folder: FolderStep) -> dict[str, Any]:
    return {
        "root": folder.root,
        "folder": _text(folder.path),
        "inode": folder.inode,
        "old": list(folder.old),
        "new": list(folder.new),
    }
