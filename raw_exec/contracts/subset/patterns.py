r"""Patterns that mean the same in RE2, in Rust's ``regex`` (pydantic) and in JavaScript.

RE2 decides what a pattern means. ``portable_pattern`` rewrites it into a small language that
Rust reads alike; what is left for JavaScript is its stricter grammar with the ``u`` flag.
"""

from __future__ import annotations

from typing import Final

from ...schema.patterns import portable_pattern

__all__ = ["javascript_pattern"]

_JS_ESCAPABLE: Final = frozenset("^$\\.*+?()[]{}|/")


def javascript_pattern(pattern: str) -> str | None:
    """Return a valid RE2 pattern for ``new RegExp(…, "u")``, or None where none does."""
    rewritten = portable_pattern(pattern)
    if rewritten is None:
        return None
    out: list[str] = []
    in_class = False
    repeatable = False
    at = 0
    while at < len(rewritten):
        char = rewritten[at]
        if char == "\\":
            char = rewritten[at + 1]
            escaped = char in _JS_ESCAPABLE or (in_class and char == "-")
            out.append(f"\\{char}" if escaped else char)
            at += 2
            repeatable = True
            continue
        if in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char in "*+?{":
            # JavaScript repeats neither an assertion nor a repetition.
            if not repeatable:
                return None
            end = rewritten.index("}", at) if char == "{" else at
            if rewritten.startswith("?", end + 1):
                end += 1
            out.append(rewritten[at : end + 1])
            at = end + 1
            repeatable = False
            continue
        repeatable = in_class or char not in "^$|("
        if rewritten.startswith("(?:", at):
            out.append("(?:")
            at += 3
            repeatable = False
            continue
        out.append(char)
        at += 1
    return "".join(out)
