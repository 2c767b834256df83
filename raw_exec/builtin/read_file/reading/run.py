"""The handler of ``read_file``: one JSON block with a row per file, inside the budget.

Room for every row without its text is set aside first, so a big file can't hide the rows
after it. What is left goes to the texts in order. Sizes are those of the encoded JSON, since
that is what the host counts.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from typing import Any

from .lines import Lines, NotRegular, read_lines
from .request import FileRange, parse_request

__all__ = ["handler"]

Row = dict[str, Any]

_ENVELOPE_BYTES = len('{"files":[],"rows_omitted":16}')
_ANY_LINE = 10**12
"""As wide as a line number is assumed to get."""

_SHORT_ESCAPES = (b'"', b"\\", b"\n", b"\r", b"\t", b"\b", b"\f")
"""What JSON writes as two characters."""
_LONG_ESCAPES = tuple(
    char for char in (bytes([code]) for code in range(0x20)) if char not in _SHORT_ESCAPES
)
"""What JSON writes as six."""

_ERRORS = {
    errno.ENOENT: ("not_found", "does not exist"),
    errno.ENOTDIR: ("not_found", "is below something that is not a folder"),
    errno.EACCES: ("permission_denied", "is not permitted by the sandbox or by file permissions"),
    errno.EPERM: ("permission_denied", "is not permitted by the sandbox or by file permissions"),
    errno.ELOOP: ("too_many_links", "leads through too many symbolic links"),
    errno.ENAMETOOLONG: ("name_too_long", "has a name that is too long"),
    errno.ENXIO: ("not_a_regular_file", "is not a regular file"),
}


def handler(args: Any, context: Any) -> dict[str, Any]:
    """Read what the arguments name; see the tool's description.

    ``isError`` is set when no file could be read.
    """
    try:
        items = parse_request(args)
    except ValueError as exc:
        error = _error("invalid_arguments", str(exc))
        return _result({"files": [], "error": error}, "invalid_arguments")
    signal = context.signal
    budget = context.max_output_bytes - _ENVELOPE_BYTES
    reserved = [_reserve(item) for item in items]
    later = sum(reserved)
    rows: list[Row] = []
    for item, own in zip(items, reserved, strict=True):
        if signal.aborted:
            return _result({"files": rows, "error": _error("aborted", "aborted")}, "aborted")
        text_budget = max(0, budget - later)
        alone = max(0, context.max_output_bytes - own - _ENVELOPE_BYTES)
        row, text, text_bytes = _read(item, context.cwd, text_budget, alone)
        later -= own
        size = _encoded_bytes(row) + text_bytes + 1
        if size > budget:
            break
        budget -= size
        if text is not None:
            row["text"] = text
        rows.append(row)
    value: dict[str, Any] = {"files": rows}
    if len(rows) < len(items):
        value["rows_omitted"] = len(items) - len(rows)
    codes = {row["error"]["code"] for row in rows if "error" in row}
    failed = bool(rows) and all("error" in row for row in rows)
    if not rows:
        return _result(value, "output_budget_too_small")
    return _result(value, (codes.pop() if len(codes) == 1 else "read_failed") if failed else None)


def _result(value: dict[str, Any], code: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [{"type": "json", "value": value}]}
    if code is not None:
        result["isError"] = True
        result["code"] = code
    return result


def _read(item: FileRange, cwd: str, text_budget: int, alone: int) -> tuple[Row, str | None, int]:
    """Return the row of one file with an empty text, the text, and its encoded size.

    Args:
        text_budget: Encoded bytes that its text may take.
        alone: Encoded bytes that it could take in a call of its own.
    """
    path = os.path.normpath(os.path.join(cwd, item.path))
    limit = alone if item.max_bytes is None else min(alone, item.max_bytes)
    try:
        lines = read_lines(path, item.start_line, item.max_lines, limit)
    except NotRegular as exc:
        text = "is a folder" if exc.code == "is_directory" else "is not a regular file"
        return _error_row(item, exc.code, text)
    except OSError as exc:
        number = exc.errno or 0
        code, text = _ERRORS.get(number, ("io_error", os.strerror(number)))
        name = errno.errorcode.get(number, number)
        return _error_row(item, code, f"{text} ({name})")
    try:
        text = lines.data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = item.start_line + lines.data.count(b"\n", 0, exc.start)
        return _error_row(item, "invalid_utf8", f"is not UTF-8 in line {line}")
    return _row(item, lines, text, text_budget, alone)


def _error_row(item: FileRange, code: str, message: str) -> tuple[Row, None, int]:
    return {"path": item.path, "error": _error(code, message)}, None, 0


def _row(
    item: FileRange, lines: Lines, text: str, text_budget: int, alone: int
) -> tuple[Row, str, int]:
    data, eof, cut = lines.data, lines.eof, lines.cut
    too_large = cut and not data
    text_bytes = _text_bytes(data)
    if text_bytes > text_budget:
        data, first = _fitting(data, text_budget)
        text_bytes = _text_bytes(data)
        too_large = not data and first > alone
        text, eof, cut = data.decode("utf-8"), False, True
    count = data.count(b"\n") + (not data.endswith(b"\n") if data else 0)
    row: Row = {
        "path": item.path,
        "start_line": item.start_line,
        "end_line": item.start_line + count - 1,
        "eof": eof,
        "sha256": hashlib.sha256(data).hexdigest(),
        "text": "",
    }
    if lines.bom:
        row["bom"] = True
    if too_large:
        row["line_too_large"] = True
        row["next_line"] = item.start_line + 1
    elif cut:
        row["partial"] = True
        row["next_line"] = item.start_line + count
    return row, text, text_bytes


def _fitting(data: bytes, budget: int) -> tuple[bytes, int]:
    """Return the first lines of a text that fit, and the size of its very first."""
    at = 0
    first = 0
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        size = _text_bytes(data[at:end])
        first = first or size
        if size > budget:
            break
        budget -= size
        at = end
    return data[:at], first


def _reserve(item: FileRange) -> int:
    """Return how many bytes a row takes at most, without its text."""
    row = {
        "path": item.path,
        "start_line": item.start_line,
        "end_line": _ANY_LINE,
        "eof": False,
        "sha256": "0" * 64,
        "text": "",
        "bom": True,
        "line_too_large": True,
        "next_line": _ANY_LINE,
    }
    return _encoded_bytes(row) + 1


def _error(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message}


def _text_bytes(data: bytes) -> int:
    """Return the size of a text inside JSON, without its quotes.

    Counted, since encoding a text to see its length takes ten times as long as reading it.
    """
    # "in" is far quicker than "count", and than one pass in Python's other functions, where
    # there is nothing to count.
    size = len(data)
    size += sum(data.count(char) for char in _SHORT_ESCAPES if char in data)
    return size + 5 * sum(data.count(char) for char in _LONG_ESCAPES if char in data)


def _encoded_bytes(value: Any) -> int:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text) if text.isascii() else len(text.encode("utf-8"))
