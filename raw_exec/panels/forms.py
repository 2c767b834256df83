"""Form blocks: what may be asked (``raw.panel/2``). Answers are in ``form_answers``.

A form has 1 to 8 fields. A select has 1 to 32 options; a text has at most 8 KiB. Fields that
are not part of the contract are refused, so that a misspelt limit is not a missing one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from ..fields import did_you_mean, shown
from ..values import escape_pointer
from .errors import PanelError
from .form_answers import Answers, AnswersInvalid, check_answers, encoded_bytes, smallest_answers
from .form_fields import (
    MAX_ANSWER_BYTES,
    MAX_FIELDS,
    MAX_OPTIONS,
    MAX_TEXT_BYTES,
    Form,
    FormField,
    FormOption,
    control_characters,
)

__all__ = [
    "MAX_ANSWER_BYTES",
    "MAX_FIELDS",
    "MAX_OPTIONS",
    "MAX_TEXT_BYTES",
    "Answers",
    "AnswersInvalid",
    "Form",
    "FormField",
    "FormOption",
    "check_answers",
    "check_form",
    "encoded_bytes",
    "smallest_answers",
]

_MAX_LABEL_CHARS = 200
_MAX_DESCRIPTION_CHARS = 500
_MAX_TITLE_CHARS = 80
_MAX_FALLBACK_CHARS = 2000
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}")
_KINDS: Final = ("text", "single_select", "multi_select")
_FORM_KEYS: Final = ("id", "kind", "title", "fallback", "fields")
_COMMON_KEYS: Final = ("id", "label", "kind", "required")
_KEYS_OF_KIND: Final = {
    "text": (*_COMMON_KEYS, "max_bytes", "multiline"),
    "single_select": (*_COMMON_KEYS, "options", "free_text", "max_bytes"),
    "multi_select": (
        *_COMMON_KEYS,
        "options",
        "free_text",
        "max_bytes",
        "min_selected",
        "max_selected",
    ),
}
_OPTION_KEYS: Final = ("id", "label", "description")


def check_form(block: Mapping[str, Any], pointer: str) -> Form:
    """Check one form block.

    Args:
        block: The block as the tool gave it.
        pointer: JSON Pointer of the block in its document.

    Raises:
        PanelError: ``panel_invalid``, with the pointer of the first offending value.
    """
    _object(block, pointer, _FORM_KEYS, ("id", "kind", "fields"), "a form")
    if block["kind"] != "form":
        _invalid(f"{pointer}/kind", f"must be 'form', not {shown(block['kind'])}")
    form_id = _identifier(block["id"], f"{pointer}/id", "block id")
    title = _optional_text(block, "title", pointer, _MAX_TITLE_CHARS)
    fallback = _optional_text(block, "fallback", pointer, _MAX_FALLBACK_CHARS, lines=True)
    items = _list(block["fields"], f"{pointer}/fields", MAX_FIELDS, "fields")
    fields = tuple(_check_field(item, f"{pointer}/fields/{i}") for i, item in enumerate(items))
    _unique([field.id for field in fields], f"{pointer}/fields", "field")
    return Form(form_id, fields, title, fallback)


def _check_field(field: Any, pointer: str) -> FormField:
    _object(field, pointer, None, ("id", "label", "kind"), "a field")
    kind = field["kind"]
    if kind not in _KINDS:
        hint = did_you_mean(kind, _KINDS) if isinstance(kind, str) else ""
        _invalid(
            f"{pointer}/kind", f"unknown field kind {shown(kind)}{hint}; one of {', '.join(_KINDS)}"
        )
    required_keys = () if kind == "text" else ("options",)
    _object(field, pointer, _KEYS_OF_KIND[kind], required_keys, f"a {kind} field")
    field_id = _identifier(field["id"], f"{pointer}/id", "field id")
    label = _text(field["label"], f"{pointer}/label", _MAX_LABEL_CHARS)
    required = _boolean(field, "required", pointer, True)
    free_text = _boolean(field, "free_text", pointer, False)
    max_bytes = _integer(field, "max_bytes", pointer, 1, MAX_TEXT_BYTES, MAX_TEXT_BYTES)
    if kind == "text":
        multiline = _boolean(field, "multiline", pointer, False)
        return FormField(field_id, label, kind, required, max_bytes=max_bytes, multiline=multiline)
    if "max_bytes" in field and not free_text:
        _invalid(f"{pointer}/max_bytes", "limits a free text, which this field does not take")
    options = _check_options(field["options"], f"{pointer}/options")
    if kind == "single_select":
        return FormField(field_id, label, kind, required, options, free_text, max_bytes=max_bytes)
    most = len(options) + free_text
    low = _integer(field, "min_selected", pointer, 0, most, 1 if required else 0)
    high = _integer(field, "max_selected", pointer, 1, most, most)
    if low > high:
        _invalid(f"{pointer}/min_selected", f"is {low}, over max_selected, which is {high}")
    return FormField(
        field_id, label, "multi_select", required, options, free_text, low, high, max_bytes
    )


def _check_options(value: Any, pointer: str) -> tuple[FormOption, ...]:
    options = []
    for index, item in enumerate(_list(value, pointer, MAX_OPTIONS, "options")):
        here = f"{pointer}/{index}"
        _object(item, here, _OPTION_KEYS, ("id", "label"), "an option")
        option_id = _identifier(item["id"], f"{here}/id", "option id")
        label = _text(item["label"], f"{here}/label", _MAX_LABEL_CHARS)
        description = _optional_text(item, "description", here, _MAX_DESCRIPTION_CHARS)
        options.append(FormOption(option_id, label, description))
    _unique([option.id for option in options], pointer, "option")
    return tuple(options)


def _invalid(pointer: str, message: str) -> NoReturn:
    raise PanelError("panel_invalid", message, pointer)


def _object(
    value: Any, pointer: str, allowed: tuple[str, ...] | None, required: tuple[str, ...], what: str
) -> None:
    if not isinstance(value, Mapping):
        _invalid(pointer, f"{what} must be an object")
    for key in required:
        if key not in value:
            _invalid(pointer, f"{what} needs {key!r}")
    if allowed is None:
        return
    for key in value:
        if key not in allowed:
            hint = did_you_mean(str(key), allowed) or f"; known fields: {', '.join(allowed)}"
            where = f"{pointer}/{escape_pointer(str(key))}"
            _invalid(where, f"{what} has no field {shown(key)}{hint}")


def _list(value: Any, pointer: str, most: int, what: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        _invalid(pointer, f"{what} must be a list")
    if not 1 <= len(value) <= most:
        _invalid(pointer, f"has {len(value)} {what}; between 1 and {most} are possible")
    return list(value)


def _unique(ids: list[str], pointer: str, what: str) -> None:
    seen: set[str] = set()
    for index, name in enumerate(ids):
        if name in seen:
            _invalid(f"{pointer}/{index}/id", f"duplicate {what} id {name!r}")
        seen.add(name)


def _identifier(value: Any, pointer: str, what: str) -> str:
    if not isinstance(value, str) or _ID.fullmatch(value) is None:
        _invalid(pointer, f"{what} {shown(value)} must match {_ID.pattern}")
    return value


def _text(value: Any, pointer: str, most: int, *, lines: bool = False) -> str:
    if not isinstance(value, str):
        _invalid(pointer, "must be a string")
    if not value.strip():
        _invalid(pointer, "must not be empty")
    if len(value) > most:
        _invalid(pointer, f"has {len(value)} characters; the limit is {most}")
    if next(control_characters(value, lines=lines), None) is not None:
        _invalid(pointer, "must not contain control characters")
    if not _encodable(value):
        _invalid(pointer, "has a lone surrogate")
    return value


def _optional_text(
    value: Mapping[str, Any], key: str, pointer: str, most: int, *, lines: bool = False
) -> str | None:
    if value.get(key) is None:
        return None
    return _text(value[key], f"{pointer}/{key}", most, lines=lines)


def _boolean(value: Mapping[str, Any], key: str, pointer: str, default: bool) -> bool:
    found = value.get(key, default)
    if not isinstance(found, bool):
        _invalid(f"{pointer}/{key}", "must be a boolean")
    return found


def _integer(
    value: Mapping[str, Any], key: str, pointer: str, low: int, high: int, default: int
) -> int:
    found = value.get(key, default)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if not isinstance(found, int) or isinstance(found, bool):
        _invalid(f"{pointer}/{key}", "must be an integer")
    if not low <= found <= high:
        _invalid(f"{pointer}/{key}", f"is {shown(found)}; it must be between {low} and {high}")
    return found


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
