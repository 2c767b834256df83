"""Questions as plain lines, and what a person typed as answers. Pure.

Security: labels come from a tool. They are escaped, so that a question can neither move the
cursor nor look like a part of the terminal's own text.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ..panels.forms import FormField
from ..text import escape_text
from .question import Question

__all__ = ["END_OF_TEXT", "parse_line", "render_field", "render_header"]

END_OF_TEXT: Final = "."
"""A line that ends a text of several lines."""


def _line(text: str) -> str:
    return escape_text(text, keep_newlines=False)


def render_header(question: Question) -> str:
    """Return who asks, and the titles."""
    lines = [f"Question from {_line(question.owner)}"]
    for text in (
        question.document.get("title"),
        question.document.get("subtitle"),
        question.form.title,
    ):
        if text:
            lines.append(f"  {_line(str(text))}")
    lines.append("  (Ctrl-D on an empty line declines)")
    return "\n".join(lines)


def render_field(field: FormField, number: int, count: int) -> str:
    """Return one field's question, its options, and how to answer."""
    place = f"({number}/{count}) " if count > 1 else ""
    optional = "" if field.required else "  [optional]"
    lines = [f"  {place}{_line(field.label)}{optional}"]
    for index, option in enumerate(field.options, 1):
        described = f" – {_line(option.description)}" if option.description else ""
        lines.append(f"    {index}) {_line(option.label)}{described}")
    lines.append(f"    {_hint(field)}")
    return "\n".join(lines)


def _hint(field: FormField) -> str:
    if field.kind == "text":
        hint = f"text, at most {field.max_bytes} bytes"
        if field.multiline:
            hint += f"; a line with only {END_OF_TEXT!r} ends it"
    elif field.kind == "single_select":
        hint = "one number" + (", or a text of your own" if field.free_text else "")
    else:
        low, high = field.min_selected, field.max_selected
        amount = str(low) if low == high else f"{low} to {high}"
        hint = f"{amount} of the numbers, separated by commas"
        if field.free_text:
            hint += "; one may be a text of your own"
    return hint if field.required else f"{hint}; an empty line skips it"


def parse_line(field: FormField, line: str) -> Any:
    """Return the answer that a typed line means; whether it is valid is checked elsewhere.

    A choice is named by its id, its label or its number, in this order of precedence.
    """
    if field.kind == "text":
        return line
    if field.kind == "single_select":
        return _choice(field, line.strip())
    parts = [part.strip() for part in re.split(r"[,\n]", line)]
    entries = [part for part in parts if part]
    if not field.free_text and len(entries) == 1:
        # "1 3" is as clear as "1,3" where no text can be meant.
        words = entries[0].split()
        if all(word.isascii() and word.isdigit() for word in words):
            entries = words
    return [_choice(field, entry) for entry in entries]


def _choice(field: FormField, typed: str) -> str:
    for option in field.options:
        if option.id == typed:
            return option.id
    for option in field.options:
        if option.label.strip().casefold() == typed.casefold():
            return option.id
    if typed.isascii() and typed.isdigit() and len(typed) <= 3:
        number = int(typed)
        if 1 <= number <= len(field.options):
            return field.options[number - 1].id
    return typed
