r"""The patch dialect of ``write_file``: text to sections, strictly and in linear time.

::

    patch    = "*** Begin Patch" section+ "*** End Patch"
    section  = "*** Add File: " path   ("+" text)*            [NONL]
             | "*** Update File: " path ["*** Move to: " path] hunk* [NONL]
             | "*** Delete File: " path
    hunk     = "@@" ((" " | "+" | "-") text)+ ["*** End of File"]
    NONL     = "*** No newline at end of file"

Rules:

1. Lines end with ``\n``; a patch whose lines all end with ``\r\n`` means the same.
2. An update has a hunk, a new path or NONL; a hunk has a ``+`` or a ``-`` line; only the
   last hunk of a section may be tied to the end of the file.
3. Sizes are checked before anything is looked at. Runs of hunk lines are taken by one
   possessive match each, since this also runs in the supervisor.

Contract: "Patch dialect of ``write_file``" of the tool contracts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from .paths import normalise_path, path_problem

__all__ = ["MAX_PATCH_BYTES", "MAX_PATHS", "FileChange", "Hunk", "PatchError", "parse_patch"]

MAX_PATCH_BYTES = 1024 * 1024
MAX_PATHS = 64
"""Paths that one patch may name; a move names two."""

MAX_HUNKS = 4096
"""Hunks of one patch; ours: it bounds how long the supervisor parses."""

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _UPDATE, _DELETE = "*** Add File: ", "*** Update File: ", "*** Delete File: "
_MOVE = "*** Move to: "
_END_OF_FILE = "*** End of File"
_NO_NEWLINE = "*** No newline at end of file"
_HUNK = "@@"

_HUNK_LINES = re.compile(r"(?:[ +-][^\n]*\n)*+")
_ADDED_LINES = re.compile(r"(?:\+[^\n]*\n)*+")
_NUMERIC_HEADER = re.compile(r"@@+ -\d")


class PatchError(ValueError):
    """A patch is not in the dialect.

    Args:
        line: Where, counted from 1; 0 for the patch as a whole.
        message: What is wrong there.
    """

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"patch line {line}: {message}" if line else f"patch: {message}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk of an update.

    Args:
        line: Of its ``@@``.
        body: Its lines with their first characters, each ended by a newline.
        at_end: Whether it must be found at the end of the file.
    """

    line: int
    body: str
    at_end: bool

    def steps(self) -> list[str]:
        """Return the lines; the first character of each says what it is."""
        return self.body.split("\n")[:-1]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One section of a patch.

    Args:
        operation: ``add``, ``update``, ``delete`` or ``move`` (an update with a new path).
        line: Of its header.
        path: As written.
        target: The same, absolute and normalised.
        new_path: As written, for a move.
        new_target: The same, absolute and normalised.
        added: Lines of an added file, each with its ``+`` and a newline.
        hunks: Of an update or a move.
        drop_newline: Whether the last line break goes.
    """

    operation: str
    line: int
    path: str
    target: str
    new_path: str | None = None
    new_target: str | None = None
    added: str = ""
    hunks: tuple[Hunk, ...] = ()
    drop_newline: bool = False

    @property
    def changes_content(self) -> bool:
        """Whether the file's bytes may change, other than by ceasing to exist."""
        return self.operation == "add" or bool(self.hunks) or self.drop_newline


def parse_patch(text: str, cwd: str) -> tuple[FileChange, ...]:
    """Parse a patch. Pure: no file is looked at.

    Args:
        cwd: Absolute; where relative paths start.

    Raises:
        PatchError: At the first line that does not fit.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8"))
    if size > MAX_PATCH_BYTES:
        raise PatchError(0, f"has {size} bytes; the limit is {MAX_PATCH_BYTES}")
    if not text.endswith("\n"):
        text += "\n"
    if "\r\n" in text and text.count("\r\n") == text.count("\n") - (text[-2] != "\r"):
        text = text.replace("\r\n", "\n")
    return _Parser(text, cwd).parse()


class _Parser:
    """Reads sections from one text; ``_at`` is always the start of a line."""

    def __init__(self, text: str, cwd: str) -> None:
        self._text = text
        self._cwd = cwd
        self._at = 0
        self._counted = 0
        self._line = 1
        self._paths = 0
        self._hunks = 0

    def parse(self) -> tuple[FileChange, ...]:
        if self._take() != _BEGIN:
            self._fail(f"must be exactly {_BEGIN!r}", line=1)
        changes: list[FileChange] = []
        while not self._skip(_END):
            changes.append(self._section())
        if not changes:
            self._fail("has no section")
        if self._at != len(self._text):
            self._fail(f"there is text after {_END!r}")
        return tuple(changes)

    # -- sections

    def _section(self) -> FileChange:
        header = self._peek()
        if header is None:
            self._fail(f"the patch ends without {_END!r}")
        line = self._line_number()
        for prefix, read in ((_ADD, self._add), (_UPDATE, self._update), (_DELETE, self._delete)):
            if header.startswith(prefix):
                path, target = self._path(header, prefix)
                return read(line, path, target)
        self._unexpected(header, f"a section header such as '{_UPDATE}PATH', or {_END!r}")

    def _add(self, line: int, path: str, target: str) -> FileChange:
        added = self._run(_ADDED_LINES)
        drop = bool(added) and self._skip(_NO_NEWLINE)
        self._end_of_section("a line that starts with '+'")
        return FileChange("add", line, path, target, added=added, drop_newline=drop)

    def _delete(self, line: int, path: str, target: str) -> FileChange:
        self._end_of_section("nothing below it")
        return FileChange("delete", line, path, target)

    def _update(self, line: int, path: str, target: str) -> FileChange:
        new_path = new_target = None
        header = self._peek()
        if header is not None and header.startswith(_MOVE):
            new_path, new_target = self._path(header, _MOVE)
        hunks: list[Hunk] = []
        while self._peek() == _HUNK:
            if hunks and hunks[-1].at_end:
                self._fail(f"a hunk can't follow {_END_OF_FILE!r}")
            hunks.append(self._hunk())
        drop = self._skip(_NO_NEWLINE)
        if not (hunks or new_path or drop):
            expected = f"a hunk that starts with a bare '@@', or '{_MOVE}PATH'"
            self._unexpected(self._peek() or "", expected)
        self._end_of_section("a line that starts with a blank, '+' or '-', or a bare '@@'")
        operation = "update" if new_path is None else "move"
        return FileChange(
            operation,
            line,
            path,
            target,
            new_path,
            new_target,
            hunks=tuple(hunks),
            drop_newline=drop,
        )

    def _hunk(self) -> Hunk:
        line = self._line_number()
        self._hunks += 1
        if self._hunks > MAX_HUNKS:
            self._fail(f"the patch has more than {MAX_HUNKS} hunks")
        self._take()
        body = self._run(_HUNK_LINES)
        if not body:
            self._unexpected(self._peek() or "", "a line that starts with a blank, '+' or '-'")
        if body[0] == " " and "\n+" not in body and "\n-" not in body:
            self._fail("the hunk has no '+' and no '-' line", line=line)
        return Hunk(line, body, self._skip(_END_OF_FILE))

    def _path(self, header: str, prefix: str) -> tuple[str, str]:
        path = header[len(prefix) :]
        problem = path_problem(path)
        if problem is None and path != path.strip():
            problem = f"the path {path!r:.200} starts or ends with a blank"
        self._paths += 1
        if problem is None and self._paths > MAX_PATHS:
            problem = f"the patch names more than {MAX_PATHS} paths"
        if problem is not None:
            self._fail(problem)
        self._take()
        return path, normalise_path(path, self._cwd)

    def _end_of_section(self, expected: str) -> None:
        line = self._peek()
        if line is not None and not line.startswith((_ADD, _UPDATE, _DELETE)) and line != _END:
            self._unexpected(line, f"{expected}, the next section, or {_END!r}")

    # -- lines

    def _peek(self) -> str | None:
        if self._at == len(self._text):
            return None
        return self._text[self._at : self._text.index("\n", self._at)]

    def _take(self) -> str | None:
        line = self._peek()
        if line is not None:
            self._at += len(line) + 1
        return line

    def _skip(self, line: str) -> bool:
        found = self._peek() == line
        if found:
            self._take()
        return found

    def _run(self, lines: re.Pattern[str]) -> str:
        match = lines.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match.group()

    def _line_number(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _unexpected(self, line: str, expected: str) -> NoReturn:
        if _NUMERIC_HEADER.match(line):
            self._fail(
                f"{line!r:.80} is a numeric Git hunk header, which is not accepted; "
                "start the hunk with a bare '@@', its place is found by its context"
            )
        if line.startswith(_HUNK) and line != _HUNK:
            self._fail(f"a hunk starts with a bare '@@' and nothing behind it, got {line!r:.80}")
        if not line and self._peek() is not None:
            self._fail(
                f"is empty; an empty line of the file is written ' ', '+' or '-'. "
                f"Expected {expected}"
            )
        self._fail(f"expected {expected}, got {line!r:.80}")

    def _fail(self, message: str, *, line: int | None = None) -> NoReturn:
        raise PatchError(self._line_number() if line is None else line, message)
