r"""Regular expressions in schemas and rules: RE2 decides what every one of them means.

The fast engine has a regular-expression engine of its own, which differs from
RE2 in details (``\d``, ``\b``, character classes). So a pattern reaches that
engine only after ``portable_pattern`` has rewritten it into the small language
in which both mean the same; any other pattern is evaluated by RE2 from there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

from ..limits import MAX_PATTERN_BYTES

__all__ = [
    "MAX_NATIVE_SIZE",
    "PATTERN_MEMORY_BYTES",
    "PatternRefused",
    "compile_pattern",
    "portable_pattern",
]

PATTERN_MEMORY_BYTES: Final = 8 * 1024 * 1024
"""What one compiled pattern may use, its automaton's cache included."""

MAX_PROGRAM_SIZE: Final = 60_000
"""RE2 instructions of one pattern; ``a{1000}`` has about 1,000, ``\\pL`` about 1,200."""

MAX_NATIVE_SIZE: Final = 64
"""RE2 instructions of a pattern that the fast engine may evaluate, and of any key pattern."""

_CLASS_ESCAPES: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": "\t\n\f\r "}
_CONTROL_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


class PatternRefused(ValueError):
    """A pattern is too long, too large once compiled, or not RE2."""


def pattern_options() -> Any:
    """Return fresh RE2 options: quiet, bounded, and without capture groups."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = PATTERN_MEMORY_BYTES
    return options


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """Compile an RE2 pattern; search it with UTF-8 bytes.

    Args:
        pattern: At most ``MAX_PATTERN_BYTES`` of UTF-8.

    Raises:
        PatternRefused: With what RE2 has against the pattern.
    """
    try:
        size = len(pattern.encode())
    except UnicodeEncodeError as exc:
        raise PatternRefused("has a lone surrogate") from exc
    if size > MAX_PATTERN_BYTES:
        raise PatternRefused(f"is {size} bytes long; the limit is {MAX_PATTERN_BYTES}")
    try:
        compiled = re2.compile(pattern, options=pattern_options())
    except re2.error as exc:
        reason = exc.args[0] if exc.args else "unknown reason"
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        hint = " (RE2 knows short names such as \\p{L} only)" if "\\p{" in text else ""
        raise PatternRefused(f"is not an RE2 pattern: {text}{hint}") from exc
    if compiled.programsize > MAX_PROGRAM_SIZE:
        raise PatternRefused(
            f"compiles to {compiled.programsize} steps; the limit is {MAX_PROGRAM_SIZE}"
        )
    return compiled


def search(pattern: str, text: str) -> bool:
    """Return whether ``pattern`` matches somewhere in ``text``."""
    return compile_pattern(pattern).search(text.encode("utf-8", "surrogatepass")) is not None


def portable_pattern(pattern: str) -> str | None:
    """Rewrite a valid RE2 pattern so that Rust's ``regex`` means the same by it.

    Returns:
        The rewritten pattern, or None where it uses anything but literals,
        ``. ^ $ |``, groups, simple classes, ``\\d \\w \\s`` and repetition.
    """
    return _Rewriter(pattern).run()


class _Rewriter:
    """One pass over a pattern that RE2 has already accepted."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.out: list[str] = []

    def run(self) -> str | None:
        while self.at < len(self.text):
            if not self._one():
                return None
        return "".join(self.out)

    def _one(self) -> bool:
        char = self.text[self.at]
        if char == "\\":
            return self._escape()
        if char == "[":
            return self._class()
        if char == "(":
            return self._group()
        if char == "{":
            return self._braces()
        self.at += 1
        # The fast engine may read "/" and "}" its own way; escaped, they are plain in both.
        if char == ".":
            self.out.append("[^\n]")  # ECMAScript's "." leaves out more line ends than RE2's
        else:
            self.out.append(char if char in "^$|)*+?" else _literal(char))
        return True

    def _escape(self) -> bool:
        if self.text.startswith("\\x", self.at):
            char = self._code_point()
            self.out.append(_literal(char))
            return bool(char)
        char = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if char in _CLASS_ESCAPES:
            self.out.append(f"[{_CLASS_ESCAPES[char]}]")
        elif char.lower() in _CLASS_ESCAPES:
            self.out.append(f"[^{_CLASS_ESCAPES[char.lower()]}]")
        elif char in _CONTROL_ESCAPES:
            self.out.append(_CONTROL_ESCAPES[char])
        elif _is_punctuation(char):
            self.out.append(_literal(char))
        else:
            return False
        return True

    def _code_point(self) -> str:
        """Read ``\\xHH`` or ``\\x{H...}``; empty for a code point that is no character."""
        if self.text.startswith("{", self.at + 2):
            end = self.text.index("}", self.at)
            digits = self.text[self.at + 3 : end]
            self.at = end + 1
        else:
            digits = self.text[self.at + 2 : self.at + 4]
            self.at += 4
        number = int(digits, 16)
        return "" if 0xD800 <= number <= 0xDFFF else chr(number)

    def _group(self) -> bool:
        if self.text.startswith("(?:", self.at):
            self.at += 3
        elif self.text.startswith("(?", self.at):
            return False
        else:
            self.at += 1
        self.out.append("(?:")
        return True

    def _braces(self) -> bool:
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : end].partition(",") if end > 0 else ("", "", "")
        counted = low.isdecimal() and low.isascii()
        if counted and any(len(n) > 1 and n[0] == "0" for n in (low, high)):
            return False  # RE2 reads such braces as text, Rust as a count
        if counted and (high == "" or (high.isdecimal() and high.isascii())):
            self.out.append("{" + low + comma + high + "}")
            self.at = end + 1
        else:
            self.out.append("\\{")
            self.at += 1
        return True

    def _class(self) -> bool:
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        parts: list[str] = []
        # A "-" is a range only between two single characters; anywhere else it stays unsupported.
        while not self.text.startswith("]", self.at):
            first = self._class_item()
            if first is None:
                return False
            if len(first) > 1:
                parts.append(first)
                if self.text.startswith("-", self.at):
                    return False
                continue
            if self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at):
                self.at += 1
                last = self._class_item()
                if last is None or len(last) > 1:
                    return False
                parts.append(f"{_literal(first)}-{_literal(last)}")
            else:
                parts.append(_literal(first))
        if not parts:
            return False
        self.at += 1
        self.out.append(f"[{'^' if negated else ''}{''.join(parts)}]")
        return True

    def _class_item(self) -> str | None:
        """Read one member: a character, or several for a class escape; None if unsupported."""
        if self.text.startswith("\\x", self.at):
            return self._code_point() or None
        char = self.text[self.at : self.at + 1]
        if char == "\\":
            char = self.text[self.at + 1 : self.at + 2]
            self.at += 2
            if char in _CLASS_ESCAPES:
                return _CLASS_ESCAPES[char]
            if char in _CONTROL_ESCAPES:
                return _CONTROL_ESCAPES[char]
            return char if _is_punctuation(char) else None
        self.at += 1
        if char == "-":
            return char if self.text.startswith("]", self.at) else None
        return None if char in ("", "[") else char


def _is_punctuation(char: str) -> bool:
    return len(char) == 1 and char.isascii() and not char.isalnum() and char.isprintable()


def _literal(char: str) -> str:
    """Escape a character that either engine could treat as syntax, inside a class or not."""
    return f"\\{char}" if char in "\\.+*?()|[]{}^$#&-~" else char
