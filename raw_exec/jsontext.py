"""Strict JSON text: bytes to values, with line and column for every refusal.

Rules:

1. The text is UTF-8 without a byte order mark and holds exactly one JSON value (RFC 8259).
2. Only data that means the same everywhere is accepted (RFC 7493): no duplicate keys, no
   ``NaN``, no number that overflows, no integer beyond 2**53-1, no lone surrogate.
3. Size, then depth and node count, are checked before the parser runs, so a hostile text
   costs one linear scan and can not exhaust CPython's stack.
4. The C parser does the work. A refusal is explained afterwards by ``_walk``, a slow
   scanner that knows where it is; it never decides that a text is fine.

Columns count code points and start at 1, as editors show them.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from .errors import Problem, ProblemError
from .limits import MAX_JSON_DEPTH, MAX_JSON_NODES, MAX_SAFE_INTEGER
from .values import JsonValue, escape_pointer

__all__ = ["JsonTextError", "locate", "parse", "position", "read_regular_file"]

_MAX_PROBLEMS = 20
_MAX_NUMBER_CHARS = 4300
"""CPython refuses to convert longer ones; so do we, with a message."""

# Strings first: brackets and commas inside them are text. Possessive, so linear.
_STRUCTURE = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[{]\s*[\]}]|[\[{\]},]', re.DOTALL)
_TOKEN = re.compile(
    r'[ \t\n\r]*+(?:(?P<string>"(?:[^"\\]++|\\.)*+")|(?P<mark>[\[{\]},:])'
    r"|(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)(?![\w.+-])"
    r"|(?P<word>-?[A-Za-z]+))",
    re.DOTALL,
)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_NOT_UTF8_MARKS: Final = (
    (b"\xef\xbb\xbf", "starts with a UTF-8 byte order mark", "save it as UTF-8 without BOM"),
    (b"\xff\xfe", "is UTF-16 or UTF-32, not UTF-8", "save it as UTF-8 without BOM"),
    (b"\xfe\xff", "is UTF-16, not UTF-8", "save it as UTF-8 without BOM"),
    (b"\x00\x00\xfe\xff", "is UTF-32, not UTF-8", "save it as UTF-8 without BOM"),
)
_SYNTAX: Final = {
    "Expecting value": "expected a value",
    "Expecting property name enclosed in double quotes": "expected a key in double quotes",
    "Expecting ',' delimiter": "expected ',' or the end of the list or object",
    "Expecting ':' delimiter": "expected ':' after the key",
    "Unterminated string starting at": "the string that starts here never ends",
    "Invalid control character at": "a raw control character inside a string; write it as \\u00XX",
    "Invalid \\escape": "a backslash escape that JSON does not have",
    "Invalid \\uXXXX escape": "an incomplete \\uXXXX escape",
    "Extra data": "text after the end of the JSON value",
    "Illegal trailing comma before end of object": "a comma before the end of the object",
    "Illegal trailing comma before end of array": "a comma before the end of the list",
}


class JsonTextError(ProblemError):
    """A text is not JSON as this package accepts it, or a file can not be read as one.

    ``code`` is ``json_invalid``, ``json_too_large``, ``json_too_deep``, ``json_too_many_values``,
    ``not_a_regular_file`` or ``file_too_large``.

    ``problems`` names every place found, with line and column; at most 20.
    """


class _Refused(Exception):
    """Raised inside a parser hook, where the position is not known."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


# ---------------------------------------------------------------- the fast path


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise _Refused("has a duplicate key")
    return out


def _int(text: str) -> int:
    if len(text) <= 15:
        return int(text)
    problem = _number_problem(text)
    if problem is not None:
        raise _Refused(problem)
    return int(text)


def _float(text: str) -> float:
    problem = _number_problem(text)
    if problem is not None:
        raise _Refused(problem)
    return float(text)


def _constant(text: str) -> NoReturn:
    raise _Refused(f"is {text}, which JSON does not have")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_int, parse_float=_float, parse_constant=_constant
)


def parse(
    data: bytes | str,
    *,
    max_bytes: int,
    max_depth: int = MAX_JSON_DEPTH,
    max_nodes: int = MAX_JSON_NODES,
    where: str | None = None,
) -> JsonValue:
    """Parse one strict JSON text.

    Args:
        data: UTF-8 bytes, or text.
        max_bytes: Size limit of the encoded text, checked first.
        max_depth: Nesting limit; a scalar has depth 0, ``[]`` has depth 1.
        max_nodes: Limit for the number of values, containers included.
        where: Name of the source for messages, for example a path.

    Raises:
        JsonTextError: With ``problems`` that carry line and column.
    """
    text = _decode(data, max_bytes, where)
    _check_structure(text, max_depth, max_nodes, where)
    try:
        value: JsonValue = _DECODER.decode(text)
    except json.JSONDecodeError as exc:
        raise _syntax_error(text, exc, where) from None
    except _Refused as exc:
        problems = tuple(_value_problems(text)) or (Problem("", exc.message),)
        raise _invalid(problems, where) from None
    if _SURROGATE_ESCAPE.search(text) is not None:
        problems = tuple(_value_problems(text))
        if problems:
            raise _invalid(problems, where)
    return value


def _invalid(problems: tuple[Problem, ...], where: str | None) -> JsonTextError:
    return JsonTextError("json_invalid", str(problems[0]), where=where, problems=problems)


def _decode(data: bytes | str, max_bytes: int, where: str | None) -> str:
    if isinstance(data, str):
        text = data
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as exc:
            problem = Problem("", "has a lone surrogate", *position(text, exc.start))
            raise _invalid((problem,), where) from None
    if len(data) > max_bytes:
        raise JsonTextError(
            "json_too_large", f"has {len(data)} bytes; the limit is {max_bytes}", where=where
        )
    for mark, message, hint in _NOT_UTF8_MARKS:
        if data.startswith(mark):
            found = (Problem("", message, 1, 1),)
            raise JsonTextError("json_invalid", message, where=where, hint=hint, problems=found)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        before = data[: exc.start].decode("utf-8")
        message = f"has invalid UTF-8 at byte {exc.start}"
        problem = Problem("", message, *position(before, len(before)))
        raise _invalid((problem,), where) from None
    nul = text.find("\0")
    if nul >= 0:
        problem = Problem("", "has a NUL byte; is it UTF-16?", *position(text, nul))
        raise _invalid((problem,), where)
    return text


def _check_structure(text: str, max_depth: int, max_nodes: int, where: str | None) -> None:
    opens = text.count("[") + text.count("{")
    if opens <= max_depth and opens + text.count(",") < max_nodes:
        return
    depth = 0
    nodes = 1
    for match in _STRUCTURE.finditer(text):
        first = match.group()[0]
        if first == ",":
            nodes += 1
        elif first in "[{":
            # An empty pair such as "[ ]" is one match: a level, but no value inside.
            if depth + 1 > max_depth:
                _refuse_depth(text, match.start(), max_depth, where)
            if match.end() - match.start() == 1:
                depth += 1
                nodes += 1
        elif first in "]}":
            depth -= 1
        if nodes > max_nodes:
            message = f"has more than {max_nodes} values"
            raise JsonTextError("json_too_many_values", message, where=where)


def _refuse_depth(text: str, offset: int, max_depth: int, where: str | None) -> NoReturn:
    message = f"is nested more than {max_depth} levels deep"
    problem = Problem("", message, *position(text, offset))
    raise JsonTextError("json_too_deep", message, where=where, problems=(problem,))


def _syntax_error(text: str, exc: json.JSONDecodeError, where: str | None) -> JsonTextError:
    message = _SYNTAX.get(exc.msg, exc.msg[:1].lower() + exc.msg[1:])
    offset = exc.pos
    hint = None
    rest = text[offset : offset + 2]
    if rest in ("//", "/*") or rest[:1] == "#":
        message, hint = "a comment, which JSON does not have", "remove it"
    elif rest[:1] == "'":
        hint = "use double quotes"
    elif rest[:1] in ("]", "}") and text[:offset].rstrip(" \t\r\n").endswith(","):
        hint = "remove the comma before it"
    elif offset >= len(text):
        message = f"{message}, but the text ends here"
    problem = Problem("", message, *position(text, offset))
    return JsonTextError("json_invalid", str(problem), where=where, hint=hint, problems=(problem,))


def _number_problem(text: str) -> str | None:
    if len(text) > _MAX_NUMBER_CHARS:
        return f"is a number of {len(text)} characters; the limit is {_MAX_NUMBER_CHARS}"
    if text.lstrip("-").isdigit():
        if abs(int(text)) > MAX_SAFE_INTEGER:
            return f"is the integer {text:.40}, beyond 2**53-1, which not every language can hold"
    elif not math.isfinite(float(text)):
        return f"is the number {text:.40}, which overflows"
    return None


# ---------------------------------------------------------------- the slow path


@dataclass(slots=True)
class _Level:
    """One open container of the walk; ``key`` is what the next value is stored under."""

    is_object: bool
    key: str | int = 0
    keys: dict[str, int] | None = None


_Event = tuple[Literal["key", "value"], int, str]


def _walk(text: str, stack: list[_Level]) -> Iterator[_Event]:
    """Yield every key and value with its offset; ``stack`` is the path to it meanwhile.

    The text must be valid JSON up to the last thing asked for; the walk ends quietly at
    anything that is not.
    """
    offset = 0
    expect_key = False
    while (match := _TOKEN.match(text, offset)) is not None:
        offset = match.end()
        kind = match.lastgroup or "mark"
        lexeme = match.group(kind)
        start = match.start(kind)
        if kind == "mark":
            if lexeme in "[{":
                yield "value", start, lexeme
                stack.append(_Level(lexeme == "{", "" if lexeme == "{" else 0))
                expect_key = lexeme == "{"
            elif lexeme in "]}":
                if not stack:
                    return
                stack.pop()
                expect_key = False
            elif lexeme == ",":
                if not stack:
                    return
                level = stack[-1]
                if isinstance(level.key, int):
                    level.key += 1
                expect_key = level.is_object
        elif expect_key and kind == "string":
            stack[-1].key = _text(lexeme)
            expect_key = False
            yield "key", start, lexeme
        else:
            yield "value", start, lexeme


def _text(lexeme: str) -> str:
    try:
        value: str = json.loads(lexeme)
    except ValueError:
        return lexeme[1:-1]
    return value


def _pointer(stack: list[_Level]) -> str:
    raw = "".join("/" + escape_pointer(str(level.key)) for level in stack)
    return raw.encode("utf-8", "replace").decode("utf-8")


def _value_problems(text: str) -> Iterator[Problem]:
    """Yield what the parser's hooks refuse, in order of appearance."""
    stack: list[_Level] = []
    found = 0
    for kind, offset, lexeme in _walk(text, stack):
        message = _token_problem(text, kind, offset, lexeme, stack)
        if message is not None:
            yield Problem(_pointer(stack), message, *position(text, offset))
            found += 1
            if found >= _MAX_PROBLEMS:
                return


def _token_problem(
    text: str, kind: str, offset: int, lexeme: str, stack: list[_Level]
) -> str | None:
    if lexeme[0] == '"':
        if _SURROGATE_ESCAPE.search(lexeme) and not _encodable(_text(lexeme)):
            return "has a lone surrogate escape, which is no character"
        if kind == "key":
            level = stack[-1]
            if level.keys is None:
                level.keys = {}
            key = str(level.key)
            first = level.keys.setdefault(key, offset)
            if first != offset:
                line, column = position(text, first)
                return f"duplicate key {_short(key)}; first at {line}:{column}"
        return None
    if lexeme in ("NaN", "Infinity", "-Infinity"):
        return f"is {lexeme}, which JSON does not have"
    if lexeme[0] in "-0123456789":
        return _number_problem(lexeme)
    return None


def _encodable(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _short(key: str) -> str:
    return ascii(key) if len(key) <= 64 else ascii(key[:60]) + "…"


def position(text: str, offset: int) -> tuple[int, int]:
    """Return the 1-based line and column (in code points) of an offset."""
    line = text.count("\n", 0, offset) + 1
    return line, offset - (text.rfind("\n", 0, offset) + 1) + 1


def locate(text: str, pointer: str, *, at: Literal["key", "value"] = "value") -> tuple[int, int]:
    """Return line and column of what a JSON Pointer names in a valid JSON text.

    A pointer to something that is not there gives the place of the deepest container on
    the way that is: that is where it is missing.

    Args:
        text: Text that ``parse`` accepts.
        pointer: RFC 6901 pointer; ``""`` is the whole document.
        at: For a member of an object, the place of its key or of its value.
    """
    tokens = [t.replace("~1", "/").replace("~0", "~") for t in pointer.split("/")[1:]]
    stack: list[_Level] = []
    best = 0
    matched = 0
    for kind, offset, _lexeme in _walk(text, stack):
        depth = len(stack)
        if depth < matched:
            break  # the container that would hold it has ended
        if depth > matched + 1:
            continue
        if depth == 0:
            best = offset
        elif depth == matched + 1 and matched < len(tokens):
            if str(stack[-1].key) != tokens[matched]:
                continue
            if kind == "key":
                if at == "key" and depth == len(tokens):
                    return position(text, offset)
                continue
            best = offset
            matched += 1
        if matched == len(tokens):
            break
    return position(text, best)


# ---------------------------------------------------------------- files


def read_regular_file(
    path: str | os.PathLike[str],
    max_bytes: int,
    *,
    dir_fd: int | None = None,
    follow_symlinks: bool = True,
) -> bytes:
    """Read a regular file of bounded size.

    Security: the kind is checked before the open (opening some devices acts on them) and
    again on the open descriptor (the name may have been given to something else since).
    ``O_NONBLOCK`` keeps a FIFO that slipped in between from blocking the open.

    Args:
        path: The file, relative to ``dir_fd`` when that is given.
        max_bytes: Size limit; a larger file is refused without reading it.
        dir_fd: Open directory.
        follow_symlinks: Whether the last component may be a symlink.

    Raises:
        JsonTextError: ``not_a_regular_file`` or ``file_too_large``.
        OSError: The file can not be opened or read.
    """
    where = os.fspath(path)
    _check_regular(os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks), where)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    if not follow_symlinks:
        flags |= os.O_NOFOLLOW
    fd = os.open(path, flags, dir_fd=dir_fd)
    try:
        return read_open_file(fd, max_bytes, where)
    finally:
        os.close(fd)


def read_open_file(fd: int, max_bytes: int, where: str) -> bytes:
    """Read an open regular file from its current position; see ``read_regular_file``."""
    info = os.fstat(fd)
    _check_regular(info, where)
    if info.st_size > max_bytes:
        _refuse_size(f"has {info.st_size} bytes", max_bytes, where)
    chunks = []
    left = max_bytes + 1
    while left > 0:
        chunk = os.read(fd, min(left, max(info.st_size + 1, 65536)))
        if not chunk:
            break
        chunks.append(chunk)
        left -= len(chunk)
    data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if len(data) > max_bytes:
        # It grew, or its size is not known beforehand (/proc).
        _refuse_size("is too large", max_bytes, where)
    return data


_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISLNK, "a symlink"),
)


def kind_name(mode: int) -> str:
    """Return what a file mode is, for messages: ``"a FIFO"``."""
    return next((name for test, name in _KINDS if test(mode)), "a regular file")


def _check_regular(info: os.stat_result, where: str) -> None:
    if not stat.S_ISREG(info.st_mode):
        message = f"is {kind_name(info.st_mode)}, not a regular file"
        raise JsonTextError("not_a_regular_file", message, where=where)


def _refuse_size(shown: str, max_bytes: int, where: str) -> NoReturn:
    raise JsonTextError("file_too_large", f"{shown}; the limit is {max_bytes}", where=where)
