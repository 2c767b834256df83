"""Check the fields of a parsed JSON document strictly, and report every problem at once.

A ``Cursor`` is one value of a document with the JSON Pointer to it. Each check either returns
the value in its checked type, or notes a problem in the document and returns ``None``; it
never raises, so one run finds everything. ``Document.problems()`` then adds line and column.

Security: messages name types and keys, and show a value only where the value is a name or an
enumeration word. A secret typed into the wrong field is not echoed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import Problem
from .jsontext import locate
from .values import escape_pointer

__all__ = ["Cursor", "Document", "did_you_mean", "shown"]

_MAX_LOCATED = 100
"""Each located problem costs a scan of the text."""

_MAX_SHOWN_CHARS = 80
_At = Literal["key", "value"]
_TYPE_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def shown(value: object) -> str:
    """Return a short form of a value, safe to print: ASCII, control characters escaped."""
    text = ascii(value)
    return text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 1] + "…"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"``, or ``""`` when nothing is near."""
    near = difflib.get_close_matches(name[:_MAX_SHOWN_CHARS], list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def type_name(value: object) -> str:
    """Return the JSON type of a value with its article."""
    return _TYPE_NAMES.get(type(value), "something that is not JSON")


@dataclass(slots=True)
class Document:
    """The text of a document and what was found wrong with it so far."""

    text: str
    _found: list[tuple[str, str, _At]] = field(default_factory=list)

    def root(self, value: Any) -> Cursor:
        """Return the cursor for the whole parsed value."""
        return Cursor(self, value)

    def add(self, pointer: str, message: str, at: _At = "value") -> None:
        """Note one problem."""
        self._found.append((pointer, message, at))

    @property
    def ok(self) -> bool:
        """Whether nothing has been found wrong yet."""
        return not self._found

    def problems(self, *, located: bool = True) -> tuple[Problem, ...]:
        """Return all problems in the order of the text, with line and column.

        Args:
            located: Without, they have neither, and the text is not looked at.
        """
        out: list[Problem] = []
        for pointer, message, at in dict.fromkeys(self._found):
            if located and len(out) < _MAX_LOCATED:
                line, column = locate(self.text, pointer, at=at)
                out.append(Problem(pointer, message, line, column))
            else:
                out.append(Problem(pointer, message))
        return tuple(sorted(out, key=_place))


def _place(problem: Problem) -> tuple[bool, int, int]:
    return problem.line is None, problem.line or 0, problem.column or 0


@dataclass(frozen=True, slots=True)
class Cursor:
    """One value of a document, and the way to it."""

    document: Document
    value: Any
    _parent: Cursor | None = None
    _key: str | int = ""

    @property
    def pointer(self) -> str:
        """JSON Pointer of this value; built when asked for, since most values are fine."""
        if self._parent is None:
            return ""
        return f"{self._parent.pointer}/{escape_pointer(str(self._key))}"

    def fail(self, message: str, *, at: _At = "value") -> None:
        """Note a problem with this value."""
        self.document.add(self.pointer, message, at)

    def child(self, key: str | int) -> Cursor:
        """Return the cursor for a member or element that exists."""
        return Cursor(self.document, self.value[key], self, key)

    def wrong_type(self, wanted: str) -> None:
        """Note that this value has the wrong JSON type."""
        self.fail(f"must be {wanted}, not {type_name(self.value)}")

    # ------------------------------------------------------------ containers

    def fields(
        self, allowed: Sequence[str], required: Sequence[str] = ()
    ) -> Mapping[str, Cursor] | None:
        """Check an object with a closed set of fields.

        Returns:
            The present known fields, or ``None`` if this is no object.
        """
        if not isinstance(self.value, dict):
            self.wrong_type("an object")
            return None
        out = {}
        for key in self.value:
            cursor = self.child(key)
            if key in allowed:
                out[key] = cursor
            else:
                hint = did_you_mean(key, allowed)
                if not hint:
                    hint = f"; known fields: {', '.join(allowed)}"
                cursor.fail(f"unknown field {shown(key)}{hint}", at="key")
        for key in required:
            if key not in self.value:
                self.fail(f"missing required field {key!r}")
        return out

    def members(self, pattern: re.Pattern[str], what: str) -> Iterator[tuple[str, Cursor]]:
        """Iterate over an object whose keys are names of the user's choice."""
        if not isinstance(self.value, dict):
            self.wrong_type("an object")
            return
        for key in self.value:
            cursor = self.child(key)
            if pattern.fullmatch(key):
                yield key, cursor
            else:
                message = f"{what} {shown(key)} must match {pattern.pattern}"
                cursor.fail(message, at="key")

    def items(self, *, max_items: int) -> Iterator[Cursor]:
        """Iterate over a list of bounded length."""
        if not isinstance(self.value, list):
            self.wrong_type("a list")
            return
        if len(self.value) > max_items:
            self.fail(f"has {len(self.value)} items; the limit is {max_items}")
            return
        for index in range(len(self.value)):
            yield self.child(index)

    # ------------------------------------------------------------ scalars

    def string(
        self, *, min_chars: int = 0, max_chars: int | None = None, one_line: bool = False
    ) -> str | None:
        """Check a string.

        Args:
            min_chars: Code points at least.
            max_chars: Code points at most.
            one_line: Refuse control characters.
        """
        value = self.value
        if not isinstance(value, str):
            self.wrong_type("a string")
            return None
        if len(value) < min_chars:
            self.fail("must not be empty" if min_chars == 1 else f"is under {min_chars} characters")
            return None
        if max_chars is not None and len(value) > max_chars:
            self.fail(f"has {len(value)} characters; the limit is {max_chars}")
            return None
        if one_line and any(ord(c) < 32 or ord(c) == 127 for c in value):
            self.fail("must not contain control characters")
            return None
        return value

    def name(self, pattern: re.Pattern[str], what: str) -> str | None:
        """Check a string against a whole-string pattern; the message shows the value."""
        value = self.string()
        if value is None:
            return None
        if pattern.fullmatch(value) is None:
            self.fail(f"{what} {shown(value)} must match {pattern.pattern}")
            return None
        return value

    def choice(self, options: Sequence[str], what: str) -> str | None:
        """Check one word of an enumeration."""
        value = self.string()
        if value is None:
            return None
        if value not in options:
            listed = ", ".join(options)
            self.fail(
                f"unknown {what} {shown(value)}{did_you_mean(value, options)}; one of {listed}"
            )
            return None
        return value

    def integer(self, low: int, high: int) -> int | None:
        """Check an integer within bounds; ``5.0`` is the integer 5, as in JSON Schema."""
        value = self.value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            self.wrong_type("an integer")
            return None
        if not low <= value <= high:
            self.fail(f"is {shown(value)}; it must be between {low} and {high}")
            return None
        return value

    def boolean(self) -> bool | None:
        """Check a boolean."""
        if not isinstance(self.value, bool):
            self.wrong_type("a boolean")
            return None
        return self.value

    def strings(
        self, *, max_items: int, min_chars: int = 0, max_chars: int | None = None
    ) -> tuple[str, ...]:
        """Check a list of strings; the good ones are returned."""
        found = (
            item.string(min_chars=min_chars, max_chars=max_chars, one_line=True)
            for item in self.items(max_items=max_items)
        )
        return tuple(value for value in found if value is not None)
