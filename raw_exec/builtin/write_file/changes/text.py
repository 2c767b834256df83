r"""Edits of file contents: bytes in, bytes out, and every byte outside of the edit kept.

A line ends with ``\n``, or ``\r\n``; a lone ``\r`` is a character like any other. A byte
order mark at the start of the file belongs to no line. Only UTF-8 text without NUL is
edited: that is what ``read_file`` can show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from .failures import RowFailed
from .patch import Hunk
from .request import Operation

__all__ = ["MAX_FILE_BYTES", "added_content", "apply_hunks", "edit"]

MAX_FILE_BYTES = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


def edit(data: bytes, operation: Operation) -> bytes:
    """Return a file's content after ``replace_text`` or ``replace_lines``.

    Raises:
        RowFailed: The text, or the lines, are not there as the operation says.
    """
    check_text(data)
    changed = _replace_text if operation.mode == "replace_text" else _replace_lines
    return check_size(changed(data, operation))


def check_text(data: bytes) -> None:
    """Refuse what is not text.

    Raises:
        RowFailed: ``binary_file``, ``invalid_utf8`` or ``file_too_large``.
    """
    check_size(data)
    if b"\0" in data:
        raise RowFailed("binary_file", f"is binary: it has a NUL at byte {data.index(0)}")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise RowFailed("invalid_utf8", f"is not UTF-8 at byte {exc.start}") from None


def check_size(data: bytes) -> bytes:
    """Return ``data``, unless a file may not be as big.

    Raises:
        RowFailed: ``file_too_large``.
    """
    if len(data) > MAX_FILE_BYTES:
        text = f"would have {len(data)} bytes; the limit is {MAX_FILE_BYTES}"
        raise RowFailed("file_too_large", text)
    return data


def added_content(added: str, drop_newline: bool) -> bytes:
    """Return the content of a file that a patch adds."""
    text = "".join(line[1:] + "\n" for line in added.split("\n")[:-1])
    return (text[:-1] if drop_newline else text).encode("utf-8")


# ---------------------------------------------------------------- operations


def _replace_text(data: bytes, operation: Operation) -> bytes:
    at = data.find(operation.old)
    if at < 0:
        raise RowFailed("text_not_found", "does not contain old_text")
    if data.find(operation.old, at + 1) >= 0:
        text = "contains old_text more than once; include more of what is around it"
        raise RowFailed("text_ambiguous", text)
    return data[:at] + operation.text + data[at + len(operation.old) :]


def _replace_lines(data: bytes, operation: Operation) -> bytes:
    bom, lines = _split(data)
    start, end = operation.start_line - 1, operation.end_line
    if end > len(lines):
        raise RowFailed(
            "line_out_of_range", f"has {len(lines)} lines; end_line is {operation.end_line}"
        )
    span = b"".join(lines[start:end])
    if not any(
        hashlib.sha256(shown).hexdigest() == operation.expected_sha256
        for shown in (span, data[len(bom) :], data)
    ):
        message = (
            f"has other bytes in lines {operation.start_line} to {end} than expected_sha256 says;"
            " read them again"
        )
        raise RowFailed("sha256_mismatch", message)
    text = operation.text
    if text and not text.endswith(b"\n"):
        # Whole lines are replaced: the next line must not be joined to the new text.
        text += _ending(lines[end - 1])
    return bom + b"".join(lines[:start]) + text + b"".join(lines[end:])


# ---------------------------------------------------------------- patches


def apply_hunks(
    data: bytes, hunks: tuple[Hunk, ...], drop_newline: bool, check_abort: Callable[[], None]
) -> bytes:
    """Return a file's content after the hunks of one section, in order.

    New lines end as the line before them does (or after them, at the start of the file).
    The file ends with a line break afterwards when it did before, or was empty, unless
    ``drop_newline``.

    Raises:
        RowFailed: A hunk is found nowhere after the one before it, or more than once.
    """
    check_text(data)
    bom, lines = _split(data)
    keys = [line[: len(line) - len(_ending(line))] for line in lines]
    ends_with_newline = (not lines or bool(_ending(lines[-1]))) and not drop_newline
    out: list[bytes] = []
    cursor = 0
    for hunk in hunks:
        check_abort()
        steps = [(step[0], step[1:].encode("utf-8")) for step in hunk.steps()]
        at = _locate(keys, [text for kind, text in steps if kind != "+"], cursor, hunk)
        out += lines[cursor:at]
        for kind, text in steps:
            if kind == "+":
                out.append(text + _ending_near(lines, at))
                continue
            if kind == " ":
                out.append(lines[at])
            at += 1
        cursor = at
    out += lines[cursor:]
    return check_size(bom + b"".join(_end_lines(out, lines, ends_with_newline)))


def _locate(keys: list[bytes], old: list[bytes], start: int, hunk: Hunk) -> int:
    if hunk.at_end:
        at = len(keys) - len(old)
        if at < start or keys[at:] != old:
            text = f"does not end with the lines of the hunk at patch line {hunk.line}"
            raise RowFailed("context_not_found", text)
        return at
    found = _find(keys, old, start)
    if found < 0:
        after = " after the hunk before it" if start else ""
        text = f"does not have the lines of the hunk at patch line {hunk.line}{after}"
        raise RowFailed("context_not_found", text)
    if _find(keys, old, found + 1) >= 0:
        text = f"has the lines of the hunk at patch line {hunk.line} more than once; add context"
        raise RowFailed("context_ambiguous", text)
    return found


def _find(keys: list[bytes], old: list[bytes], start: int) -> int:
    """Return where ``old`` begins, at or after ``start``; -1 if nowhere."""
    last = len(keys) - len(old)
    if not old:
        return start if start <= last else -1
    while start <= last:
        try:
            start = keys.index(old[0], start, last + 1)
        except ValueError:
            return -1
        if keys[start : start + len(old)] == old:
            return start
        start += 1
    return -1


def _end_lines(out: list[bytes], lines: list[bytes], ends_with_newline: bool) -> list[bytes]:
    """Give every line but the last its line break, and the last one as it must be."""
    if not out:
        return out
    last = out[-1]
    # Only the unterminated last line of the file can be without one here.
    ended = [line if _ending(line) else line + _ending_near(lines, len(lines)) for line in out[:-1]]
    ending = _ending(last)
    if ends_with_newline:
        last += b"" if ending else _ending_near(lines, len(lines))
    else:
        last = last[: len(last) - len(ending)]
    return [*ended, last]


def _split(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return the byte order mark, if any, and the lines with their line breaks."""
    bom = _BOM if data.startswith(_BOM) else b""
    parts = data[len(bom) :].split(b"\n")
    rest = parts.pop()
    lines = [part + b"\n" for part in parts]
    return bom, [*lines, rest] if rest else lines


def _ending(line: bytes) -> bytes:
    if line.endswith(b"\r\n"):
        return b"\r\n"
    return b"\n" if line.endswith(b"\n") else b""


def _ending_near(lines: list[bytes], at: int) -> bytes:
    """Return how the line before ``at`` ends, or else the nearest that has a line break."""
    for index in (at - 1, at - 2, at):
        ending = _ending(lines[index]) if 0 <= index < len(lines) else b""
        if ending:
            return ending
    return b"\n"
