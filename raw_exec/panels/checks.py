"""Checks of single values in panel documents: quick when fine, exact when not.

A 64 KiB document may hold thousands of fields, and is checked with every update. So
tables say which field has which check, a check says what is fine at once, and a JSON Pointer
is only built for what is refused.

Security: messages name types, limits and keys, never the value of a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from ..fields import did_you_mean, shown, type_name
from ..limits import MAX_SAFE_INTEGER
from ..values import FrozenDict, FrozenList, escape_pointer
from .errors import PanelError

__all__ = [
    "Check",
    "Fields",
    "anything",
    "boolean",
    "check_fields",
    "check_list",
    "check_unique",
    "code_points",
    "identifier",
    "integer",
    "invalid",
    "number",
    "one_of",
    "type_name",
    "utf8_bytes",
]

_NO_WORDS: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Check:
    """What one field may hold.

    Printable text whose length is within ``least`` and ``most``, one of ``words``, and an
    integer within ``low`` and ``high`` are fine without a further look. The bounds may be
    narrower than the rule, and empty (the defaults) where there is no such quick answer.

    Args:
        problem: Returns what is wrong with a value, or ``None``; decides when not quick.
    """

    problem: Callable[[Any], str | None]
    least: int = 1
    most: int = 0
    low: int = 1
    high: int = 0
    words: frozenset[str] = _NO_WORDS


Fields: TypeAlias = Mapping[str, Check]

_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""C0 but newline and tab, DEL, C1, and half of a surrogate pair, which is no text."""

_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}")


def invalid(message: str, pointer: str = "") -> NoReturn:
    """Refuse a value as ``panel_invalid``."""
    raise PanelError("panel_invalid", message, pointer)


def code_points(most: int, *, least: int = 0, one_line: bool = False) -> Check:
    """Make a check for text of bounded length, in code points.

    Args:
        most: Code points at most.
        least: Code points at least.
        one_line: Refuse newline and tab too, for what serves as a key.
    """

    def check(value: Any) -> str | None:
        if type(value) is not str:
            return f"must be a string, not {type_name(value)}"
        size = len(value)
        if size > most:
            return f"has {size} characters; the limit is {most}"
        if size < least:
            return "must not be empty"
        if value.isprintable():
            return None
        if one_line and ("\n" in value or "\t" in value):
            return "must be one line"
        return _control_problem(value)

    return Check(check, least, most)


def utf8_bytes(most: int, *, least: int = 0) -> Check:
    """Make a check for text of bounded size, in bytes of UTF-8."""

    def check(value: Any) -> str | None:
        if type(value) is not str:
            return f"must be a string, not {type_name(value)}"
        # Each code point is at least one byte: too long is known before anything is encoded.
        size = len(value)
        if size <= most and not value.isascii():
            size = len(value.encode("utf-8", "replace"))
        if size > most:
            return f"has {size} bytes or more; the limit is {most}"
        if size < least:
            return "must not be empty"
        return _control_problem(value)

    return Check(check, least, most // 4)


def _control_problem(text: str) -> str | None:
    found = _REFUSED.search(text)
    if found is None:
        return None
    code = ord(found.group())
    what = "a lone surrogate" if code >= 0xD800 else f"the control character U+{code:04X}"
    return f"has {what} at character {found.start()}"


def one_of(*words: str) -> Check:
    """Make a check for one word of a list."""
    known = frozenset(words)

    def check(value: Any) -> str | None:
        if type(value) is not str:
            return f"must be a string, not {type_name(value)}"
        if value in known:
            return None
        return f"unknown word {shown(value)}{did_you_mean(value, words)}; one of {', '.join(words)}"

    return Check(check, words=known)


def integer(low: int, high: int = MAX_SAFE_INTEGER) -> Check:
    """Make a check for an integer within bounds; 5.0 is an integer, as in JSON Schema."""

    def check(value: Any) -> str | None:
        kind = type(value)
        if kind is not int and not (kind is float and value.is_integer()):
            return f"must be an integer, not {type_name(value)}"
        if not low <= value <= high:
            return f"is {shown(value)}; it must be between {low} and {high}"
        return None

    return Check(check, low=low, high=high)


def number(low: float) -> Check:
    """Make a check for a finite number that is not below ``low``."""

    def check(value: Any) -> str | None:
        kind = type(value)
        if kind is not int and kind is not float:
            return f"must be a number, not {type_name(value)}"
        if not low <= value <= MAX_SAFE_INTEGER or not math.isfinite(value):
            return f"is {shown(value)}; it must be between {low:g} and 2**53-1"
        return None

    return Check(check, low=math.ceil(low), high=MAX_SAFE_INTEGER)


def _boolean_problem(value: Any) -> str | None:
    return None if type(value) is bool else f"must be a boolean, not {type_name(value)}"


def _identifier_problem(value: Any) -> str | None:
    if type(value) is str and _ID.fullmatch(value) is not None:
        return None
    return f"id {shown(value)} must match {_ID.pattern}"


boolean: Final = Check(_boolean_problem)
identifier: Final = Check(_identifier_problem)
"""The id of a block."""
anything: Final = Check(lambda _value: None)
"""For a field that other code looks into."""


def check_fields(
    value: Any, fields: Fields, required: tuple[str, ...], pointer: str, what: str
) -> None:
    """Check an object with a closed set of fields.

    Args:
        value: The object.
        fields: Every field it may have, with its check.
        required: Those it must have.
        pointer: Of the object.
        what: The object in words, for example ``"a row"``.

    Raises:
        PanelError: ``panel_invalid`` at the first field that is wrong.
    """
    if type(value) is not dict and type(value) is not FrozenDict:
        invalid(f"{what} must be an object, not {type_name(value)}", pointer)
    for key, item in value.items():
        check = fields.get(key)
        if check is None:
            hint = f"; known fields: {', '.join(fields)}"
            if isinstance(key, str):
                hint = did_you_mean(key, fields) or hint
            where = f"{pointer}/{escape_pointer(str(key)[:80])}"
            invalid(f"{what} has no field {shown(key)}{hint}", where)
        kind = type(item)
        if kind is str:
            if check.least <= len(item) <= check.most and item.isprintable():
                continue
            if item in check.words:
                continue
        elif kind is int and check.low <= item <= check.high:
            continue
        problem = check.problem(item)
        if problem is not None:
            invalid(problem, f"{pointer}/{escape_pointer(key)}")
    for key in required:
        if key not in value:
            invalid(f"{what} needs {key!r}", pointer)


def check_list(value: Any, most: int, pointer: str, *, least: int = 0) -> list[Any]:
    """Check the length of a list, before any of its items is looked at."""
    if type(value) is not list and type(value) is not FrozenList:
        invalid(f"must be a list, not {type_name(value)}", pointer)
    count = len(value)
    if not least <= count <= most:
        bound = f"the limit is {most}" if count > most else f"at least {least} are needed"
        invalid(f"has {count} items; {bound}", pointer)
    found: list[Any] = value
    return found


def check_unique(keys: list[str], pointer: str, key: str) -> None:
    """Refuse the second item of a list with the same key."""
    if len(set(keys)) == len(keys):
        return
    seen: set[str] = set()
    for index, name in enumerate(keys):
        if name in seen:
            invalid(f"{key} {shown(name)} is not unique", f"{pointer}/{index}/{key}")
        seen.add(name)
