"""Checks of what callers send: texts, schemas and metadata, before they are stored.

The registry accepts more JSON Schema than the generators can express (that is the business
of the local check), but only schemas that can be compiled: whoever pins the contract has to
be able to validate with it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ..errors import Problem, SchemaError
from ..schema import compile_schema
from ..values import NotJson, freeze
from . import rules
from .errors import Invalid
from .names import check_metadata_key

__all__ = [
    "MAX_DESCRIPTION_BYTES",
    "MAX_FILES",
    "MAX_FILE_BYTES",
    "MAX_LABEL_BYTES",
    "MAX_METADATA_BYTES",
    "MAX_PINS",
    "MAX_README_BYTES",
    "check_input_schema",
    "check_json_object",
    "check_output_schema",
    "check_prompt_metadata",
    "check_text",
]

MAX_SCHEMA_BYTES: Final = 256 * 1024
"""One schema as JSON; all tools of a prompt have to fit a model's context."""

MAX_METADATA_BYTES: Final = 64 * 1024
MAX_DESCRIPTION_BYTES: Final = 64 * 1024
MAX_README_BYTES: Final = 1024 * 1024
MAX_FILE_BYTES: Final = 512 * 1024
MAX_LABEL_BYTES: Final = 200
MAX_FILES: Final = 100
MAX_PINS: Final = 128
"""Providers accept no more tools than this in one request."""

_MAX_SHOWN_PROBLEMS: Final = 3


def check_text(what: str, text: str, max_bytes: int) -> str:
    """Return a text that any database can hold and that is not too long.

    Raises:
        Invalid: ``bad_text`` or ``value_too_large``.
    """
    if not isinstance(text, str):
        raise Invalid("bad_text", f"{what} is not a text", hint="send a string")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as exc:
        raise Invalid(
            "bad_text", f"{what} has half a surrogate pair at character {exc.start}", hint="fix it"
        ) from exc
    if size > max_bytes:
        raise _too_large(what, size, max_bytes)
    if "\0" in text:
        raise Invalid(
            "bad_text",
            f"{what} has a NUL character at character {text.index(chr(0))}",
            hint="remove it",
        )
    return text


def _too_large(what: str, size: int, limit: int) -> Invalid:
    return Invalid(
        "value_too_large",
        f"{what} has {size} bytes",
        hint=f"keep it to at most {limit}",
    )


def check_json_object(what: str, value: object, max_bytes: int) -> dict[str, Any]:
    """Return a frozen copy of a JSON object.

    Raises:
        Invalid: ``bad_json`` or ``value_too_large``.
    """
    if not isinstance(value, dict):
        raise Invalid("bad_json", f"{what} is not a JSON object", hint="send { … }")
    try:
        frozen = freeze(value)
        text = json.dumps(frozen, ensure_ascii=False, allow_nan=False)
    except NotJson as exc:
        raise Invalid(
            "bad_json",
            f"{what}: {exc}",
            hint="send plain JSON data",
            problems=(exc.problem,),
        ) from exc
    size = len(text.encode())
    if size > max_bytes:
        raise _too_large(what, size, max_bytes)
    # A database's JSON text has no place for it; in JSON it can only be spelt this way.
    if "\\u0000" in text and _has_nul(frozen):
        raise Invalid("bad_text", f"{what} has a NUL character in a string", hint="remove it")
    return dict(frozen)


def _has_nul(value: object) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in key or _has_nul(item) for key, item in value.items())
    return isinstance(value, list) and any(_has_nul(item) for item in value)


def check_input_schema(schema: object) -> dict[str, Any]:
    """Return an input schema that has an object at its root and can be compiled.

    Raises:
        Invalid: ``object_root``, ``bad_schema``, ``bad_json``, ``value_too_large``.
    """
    checked = check_json_object("input schema", schema, MAX_SCHEMA_BYTES)
    rules.check_object_root(checked)
    _check_compiles("input schema", checked)
    return checked


def check_output_schema(schema: object) -> dict[str, Any] | None:
    """Return an output schema, of any shape, that can be compiled; ``None`` stays ``None``.

    Raises:
        Invalid: ``bad_schema``, ``bad_json``, ``value_too_large``.
    """
    if schema is None:
        return None
    checked = check_json_object("output schema", schema, MAX_SCHEMA_BYTES)
    _check_compiles("output schema", checked)
    return checked


def _check_compiles(what: str, schema: dict[str, Any]) -> None:
    try:
        compile_schema(schema)
    except SchemaError as exc:
        problems = exc.problems or (Problem("", exc.message),)
        shown = "; ".join(str(one) for one in problems[:_MAX_SHOWN_PROBLEMS])
        more = len(problems) - _MAX_SHOWN_PROBLEMS
        raise Invalid(
            "bad_schema",
            f"{what} is refused: {shown}" + (f" (and {more} more)" if more > 0 else ""),
            hint="fix the schema at these places",
            problems=tuple(problems),
        ) from exc


def check_prompt_metadata(metadata: object) -> dict[str, Any]:
    """Return the metadata of a prompt version: a flat object.

    Raises:
        Invalid: ``metadata_flat``, ``metadata_key``, ``bad_json``, ``value_too_large``.
    """
    checked = check_json_object("metadata", metadata, MAX_METADATA_BYTES)
    for key, value in checked.items():
        check_metadata_key(key)
        rules.check_metadata_flat(key, value)
    return checked
