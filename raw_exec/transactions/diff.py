"""Changes as text for a person: a unified diff of text files, and a line for everything else.

Every name and line comes from a tool, so control characters are escaped: a line of a file can
not end early, and each has a mark in front. A removed line ``-- a/x`` still looks like the head of
another file, so each file begins with a line of ours, in words, which no mark can be taken for.
"""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final

from ..text import escape_text
from . import syscalls
from .changes import Change, ChangeSet
from .errors import show_path
from .folders import Folders, open_root

__all__ = ["unified"]

_MAX_TEXT_BYTES: Final = 256 * 1024
"""A larger file is named only."""
_MAX_LINE_PAIRS: Final = 1_000_000
"""Old times new lines that are compared in all: comparing costs that much at worst. Past it a
file's old lines are shown as removed and the new ones as added."""
_CONTEXT_LINES: Final = 3
_KEPT_ATTRIBUTES: Final = ("user.", "system.posix_acl_")
_MARKS: Final = "user.overlay."
"""Of a view itself."""
_NO_NEWLINE: Final = "\\ no newline at the end"


def unified(sets: Sequence[ChangeSet], max_bytes: int) -> str:
    """Describe changes, reading the trees as they are now.

    Args:
        sets: What a call changed.
        max_bytes: Of UTF-8 that the text may have. It is cut at a line, and its last line
            then says how many lines are missing.

    Returns:
        Lines without control characters; empty when there are no changes.
    """
    kept: list[str] = []
    used = missing = 0
    for line in _lines(sets):
        size = len(line.encode("utf-8", "replace")) + 1
        if missing or used + size > max_bytes:
            missing += 1
            if missing >= _MAX_COUNTED:
                break
            continue
        kept.append(line)
        used += size
    if missing:
        count = f"{missing} lines" if missing < _MAX_COUNTED else f"{missing} lines or more"
        kept.append(f"… [{count} not shown]")
    return "".join(f"{line}\n" for line in kept)


_MAX_COUNTED: Final = 10_000


def _lines(sets: Sequence[ChangeSet]) -> Iterator[str]:
    budget = [_MAX_LINE_PAIRS]
    for one in sets:
        if len(sets) > 1:
            yield f"tree {show_path(os.fsencode(one.root))}"
        with (
            open_root(one.root, one.identity) as below,
            Folders(below) as old,
            Folders(one.upper, still=True) as new,
        ):
            for change in one.changes:
                yield from _describe(change, old, new, budget)


class _Side:
    """One side of a change: what is there, and its text if it is a text file."""

    def __init__(self, folders: Folders, path: bytes, *, there: bool) -> None:
        self.status: os.stat_result | None = None
        self.kind = ""
        self.lines: list[str] | None = None
        self.note = ""
        self.attributes: dict[str, bytes] = {}
        if not there:
            return
        try:
            parent, name = folders.parent(path)
            self.status = syscalls.look(parent, name)
            self._read(parent, name)
        except OSError as exc:
            self.note = f"not readable: {exc.strerror}"

    @property
    def mode(self) -> str:
        return "" if self.status is None else f"{stat.S_IMODE(self.status.st_mode):o}"

    def _read(self, parent: int, name: bytes) -> None:
        if self.status is None:
            return
        mode, size = self.status.st_mode, self.status.st_size
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            self.attributes = _attributes(b"/proc/self/fd/%d/%s" % (parent, name))
        if stat.S_ISDIR(mode):
            self.kind = "directory"
        elif stat.S_ISLNK(mode):
            self.kind = "link"
            self.note = f"-> {show_path(syscalls.read_link(parent, name))}"
        elif not stat.S_ISREG(mode):
            self.kind = "special file"
        else:
            self.kind = "file"
            self.note = f"{size} bytes"
            if size > _MAX_TEXT_BYTES:
                return
            fd = syscalls.open_at(parent, name, syscalls.READ_FILE)
            try:
                data = os.pread(fd, _MAX_TEXT_BYTES + 1, 0)
            finally:
                os.close(fd)
            self.lines = _text_lines(data)
            if self.lines is None:
                self.note += ", binary"


def _attributes(place: bytes) -> dict[str, bytes]:
    """Return the extended attributes of a file or directory that a commit would keep."""
    try:
        return {
            name: os.getxattr(place, name, follow_symlinks=False)
            for name in os.listxattr(place, follow_symlinks=False)
            if name.startswith(_KEPT_ATTRIBUTES) and not name.startswith(_MARKS)
        }
    except OSError as exc:
        if exc.errno in (errno.ENOTSUP, errno.EACCES, errno.ENODATA):
            return {}
        raise


def _text_lines(data: bytes) -> list[str] | None:
    """Return lines with their ends, or ``None`` when it is not text."""
    if b"\0" in data or len(data) > _MAX_TEXT_BYTES:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    parts = text.split("\n")
    last = parts.pop()
    return [f"{part}\n" for part in parts] + ([last] if last else [])


def _describe(change: Change, below: Folders, upper: Folders, budget: list[int]) -> Iterator[str]:
    path = show_path(change.path)
    old = _Side(below, change.path, there=change.existed)
    new = _Side(upper, change.path, there=change.action != "delete")
    if old.status is None and new.status is None:
        yield f"{change.action} {path} ({new.note or old.note or 'nothing is there now'})"
        return
    if new.kind == "directory" and old.kind == "directory" and change.opaque:
        yield f"replaced directory {path}, with all that was in it"
    elif old.kind and new.kind and old.kind != new.kind:
        yield f"replaced {old.kind} {path} by a {new.kind}{_with_note(new)}"
    elif not new.kind:
        rest = ", with all that was in it" if old.kind == "directory" else ""
        shown = "" if old.lines is not None or old.kind == "directory" else _with_note(old)
        yield f"deleted {old.kind} {path}{rest}{shown}"
    elif not old.kind:
        shown = "" if new.lines is not None else _with_note(new)
        mode = "" if new.kind == "link" else f" mode {new.mode}"
        yield f"created {new.kind} {path}{mode}{shown}"
    elif new.kind == "link":
        yield f"changed link {path} from {old.note[3:]} to {new.note[3:]}"
    elif change.action != "metadata" or old.mode == new.mode:
        yield f"changed {new.kind} {path}{_sizes(change, old, new)}"
    if old.kind and new.kind and old.mode != new.mode and new.kind != "link":
        yield f"mode of {path} {old.mode} to {new.mode}"
    if new.kind and old.attributes != new.attributes:
        names = {*old.attributes.items()} ^ {*new.attributes.items()}
        listed = ", ".join(sorted({show_path(os.fsencode(name)) for name, _value in names}))
        yield f"attributes of {path} that differ: {listed}"
    if (old.lines is not None or not old.kind) and (new.lines is not None or not new.kind):
        yield from _compare(path, old, new, budget)


def _sizes(change: Change, old: _Side, new: _Side) -> str:
    if new.kind != "file" or change.action == "metadata":
        return ": mode or attributes"
    if old.lines is not None and new.lines is not None:
        return ""
    return f" ({old.note} before, {new.note} now)"


def _with_note(side: _Side) -> str:
    if side.kind == "link":
        return f" {side.note}"
    return f" ({side.note})" if side.note else ""


def _compare(path: str, old: _Side, new: _Side, budget: list[int]) -> Iterator[str]:
    before, after = old.lines or [], new.lines or []
    if before == after:
        return
    yield f"--- a/{path}" if old.kind else "--- /dev/null"
    yield f"+++ b/{path}" if new.kind else "+++ /dev/null"
    for mark, line in _hunks(before, after, budget):
        yield mark + escape_text(line.removesuffix("\n"))
        if mark != "@" and not line.endswith("\n"):
            yield _NO_NEWLINE


def _hunks(before: list[str], after: list[str], budget: list[int]) -> Iterator[tuple[str, str]]:
    """Yield mark and line; the lines are as they are, since two may look the same escaped."""
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    # Only what differs is compared, with the lines around it.
    first = max(0, start - _CONTEXT_LINES)
    end = max(0, end - _CONTEXT_LINES)
    old, new = before[first : len(before) - end], after[first : len(after) - end]
    matcher: difflib.SequenceMatcher[str] = difflib.SequenceMatcher(None, [], [])
    if len(old) * len(new) <= budget[0]:
        budget[0] -= len(old) * len(new)
        matcher.set_seqs(old, new)
        groups = matcher.get_grouped_opcodes(_CONTEXT_LINES)
    else:
        groups = iter([[("replace", 0, len(old), 0, len(new))]])
    for group in groups:
        _tag, old_from, _end, new_from, _end2 = group[0]
        _tag, _start, old_to, _start2, new_to = group[-1]
        ranges = f"-{_range(first + old_from, old_to - old_from)}"
        ranges += f" +{_range(first + new_from, new_to - new_from)}"
        yield "@", f"@ {ranges} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from ((" ", line) for line in old[i1:i2])
                continue
            yield from (("-", line) for line in old[i1:i2])
            yield from (("+", line) for line in new[j1:j2])


def _common(one: list[str], other: list[str]) -> int:
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _range(start: int, count: int) -> str:
    # Lines count from 1; an empty range is named by the line before it.
    return f"{start + 1 if count else start},{count}"
