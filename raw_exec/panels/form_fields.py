"""The checked form of a form block, and the numbers that bound it (``raw.panel/2``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

__all__ = [
    "MAX_ANSWER_BYTES",
    "MAX_FIELDS",
    "MAX_OPTIONS",
    "MAX_TEXT_BYTES",
    "Form",
    "FormField",
    "FormOption",
    "control_characters",
]

MAX_FIELDS: Final = 8
MAX_OPTIONS: Final = 32
MAX_TEXT_BYTES: Final = 8 * 1024
"""One text, in UTF-8."""
MAX_ANSWER_BYTES: Final = 16 * 1024
"""All answers of one form, as compact JSON in UTF-8."""

FieldKind: TypeAlias = Literal["text", "single_select", "multi_select"]


@dataclass(frozen=True, slots=True)
class FormOption:
    """One choice of a select."""

    id: str
    label: str
    description: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the option as the contract spells it, without what is absent."""
        out: dict[str, Any] = {"id": self.id, "label": self.label}
        if self.description is not None:
            out["description"] = self.description
        return out


@dataclass(frozen=True, slots=True)
class FormField:
    """One question.

    Args:
        options: The choices in declared order; empty for a text.
        free_text: A select also takes a text of at most ``max_bytes``.
        min_selected: Choices at least, when the field is answered at all.
        max_selected: Choices at most, a free text counted.
        max_bytes: Size limit of a text, in UTF-8.
        multiline: A text may have several lines.
    """

    id: str
    label: str
    kind: FieldKind
    required: bool = True
    options: tuple[FormOption, ...] = ()
    free_text: bool = False
    min_selected: int = 1
    max_selected: int = 1
    max_bytes: int = MAX_TEXT_BYTES
    multiline: bool = False

    @property
    def takes_text(self) -> bool:
        """Whether a person may type an answer here."""
        return self.kind == "text" or self.free_text

    def as_dict(self) -> dict[str, Any]:
        """Return the field as the contract spells it, with every value that has a meaning."""
        out: dict[str, Any] = {
            "id": self.id,
            "label": self.label,
            "kind": self.kind,
            "required": self.required,
        }
        if self.kind == "text":
            return out | {"max_bytes": self.max_bytes, "multiline": self.multiline}
        out["options"] = [option.as_dict() for option in self.options]
        out["free_text"] = self.free_text
        if self.free_text:
            out["max_bytes"] = self.max_bytes
        if self.kind == "multi_select":
            out |= {"min_selected": self.min_selected, "max_selected": self.max_selected}
        return out


@dataclass(frozen=True, slots=True)
class Form:
    """A checked form block."""

    id: str
    fields: tuple[FormField, ...]
    title: str | None = None
    fallback: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the normalised block; checking it again gives an equal form."""
        out: dict[str, Any] = {"id": self.id, "kind": "form"}
        if self.title is not None:
            out["title"] = self.title
        if self.fallback is not None:
            out["fallback"] = self.fallback
        out["fields"] = [field.as_dict() for field in self.fields]
        return out


def control_characters(text: str, *, lines: bool) -> Iterator[str]:
    """Yield the control characters (C0, DEL, C1) that a text may not have.

    Args:
        lines: Newline and tab are fine.
    """
    for char in text:
        code = ord(char)
        if (code < 32 or 127 <= code < 160) and not (lines and char in "\n\t"):
            yield char
