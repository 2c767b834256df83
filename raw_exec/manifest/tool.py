"""Parse ``tool.json`` (``raw.tool-api/2``) strictly, reporting every problem at once.

Contract: "Manifest fields" of the tool contract; names, version and entry forms of the tool
authoring guide. ``./index.py`` for Python handlers is this project's own addition.
"""

from __future__ import annotations

import marshal
import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..errors import ManifestError, Problem, SchemaError, first_problem
from ..fields import Cursor, Document, did_you_mean, shown
from ..jsontext import JsonTextError, parse
from ..limits import MAX_MANIFEST_BYTES
from ..schema import CompiledSchema, compile_schema
from ..values import freeze
from .panels import PanelDeclaration, check_panels

__all__ = ["API_FORM", "ENTRIES", "TOOL_ID", "TOOL_NAME", "ToolManifest", "parse_manifest"]

API_FORM = "raw.tool-api/2"
TOOL_ID = re.compile(r"[a-z][a-z0-9_-]{0,63}")
TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
MAX_DESCRIPTION_BYTES = 64 * 1024
ENTRIES: Final = {"./index.mjs": "esm", "./index.py": "python"}
"""The valid values of ``entry`` and the language that each means."""

_VERSION = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}")
_SOURCES = ("arguments", "effects")
_REQUIRED = ("api_version", "id", "version", "name", "description", "input_schema", "entry")
_FIELDS = (*_REQUIRED, "condition_sources", "effects_schema", "panels")

Language = Literal["esm", "python", "mcp"]
"""``mcp`` is no language: a server, in whatever language, runs the tool."""


@dataclass(frozen=True, slots=True)
class ToolManifest:
    """A valid ``tool.json``.

    Args:
        input_schema: As written, frozen; the model sees it.
        effects_schema: As written, frozen.
        condition_sources: What predicates may inspect.
        compiled_input: Validator for arguments.
        compiled_effects: Validator for effects, when declared.
        warnings: For the author; the manifest is valid all the same.
    """

    id: str
    version: str
    name: str
    description: str
    input_schema: dict[str, Any]
    entry: str
    language: Language
    condition_sources: tuple[str, ...]
    effects_schema: dict[str, Any] | None
    panels: tuple[PanelDeclaration, ...]
    compiled_input: CompiledSchema
    compiled_effects: CompiledSchema | None
    warnings: tuple[str, ...]


def parse_manifest(
    data: bytes | str, *, folder_name: str | None = None, where: str = "tool.json"
) -> ToolManifest:
    """Parse and validate the bytes of a ``tool.json``.

    Args:
        data: At most 1 MiB.
        folder_name: What ``id`` must equal, when given.
        where: Name of the file for messages.

    Raises:
        ManifestError: ``manifest_invalid``, with every problem found.
    """
    try:
        value = parse(data, max_bytes=MAX_MANIFEST_BYTES, where=where)
    except JsonTextError as exc:
        raise ManifestError(
            "manifest_invalid", exc.message, where=where, hint=exc.hint, problems=exc.problems
        ) from exc
    document = Document(data if isinstance(data, str) else data.decode("utf-8"))
    root = document.root(value)
    warnings: list[str] = []
    manifest = None
    if _check_api_version(root):
        manifest = _check_manifest(root, folder_name, warnings)
    if manifest is None or not document.ok:
        raise _error(document.problems(), where)
    return manifest


def _error(problems: tuple[Problem, ...], where: str) -> ManifestError:
    return ManifestError(
        "manifest_invalid", first_problem(problems), where=where, problems=problems
    )


def _check_api_version(root: Cursor) -> bool:
    """Refuse another contract version first: its other fields would only confuse."""
    if not isinstance(root.value, dict):
        root.wrong_type("an object")
        return False
    if "api_version" not in root.value:
        if "name" not in root.value and "entry" not in root.value:
            root.fail(f'is not a tool manifest; write "api_version": 2 ({API_FORM})')
            return False
        return True
    cursor = root.child("api_version")
    version = cursor.value
    if isinstance(version, bool) or version != 2:
        cursor.fail(f'is {shown(version)}; the only form accepted is "api_version": 2 ({API_FORM})')
        return False
    return True


def _check_manifest(
    root: Cursor, folder_name: str | None, warnings: list[str]
) -> ToolManifest | None:
    fields = root.fields(_FIELDS, _REQUIRED)
    if fields is None:
        return None
    tool_id = fields["id"].name(TOOL_ID, "id") if "id" in fields else None
    if tool_id is not None and folder_name is not None and tool_id != folder_name:
        fields["id"].fail(f"is {tool_id!r}, but the folder is named {shown(folder_name)}")
    version = fields["version"].name(_VERSION, "version") if "version" in fields else None
    name = fields["name"].name(TOOL_NAME, "name") if "name" in fields else None
    description = _check_description(fields.get("description"), warnings)
    entry = _check_entry(fields.get("entry"))
    arguments = _check_schema(fields.get("input_schema"))
    effects = _check_schema(fields.get("effects_schema"))
    sources = _check_sources(fields.get("condition_sources"), "effects_schema" in fields)
    panels = check_panels(fields["panels"], warnings) if "panels" in fields else ()
    if (
        tool_id is None
        or version is None
        or name is None
        or description is None
        or entry is None
        or arguments is None
        or not root.document.ok
    ):
        return None
    return ToolManifest(
        id=tool_id,
        version=version,
        name=name,
        description=description,
        input_schema=arguments[1],
        entry=entry,
        language="esm" if ENTRIES[entry] == "esm" else "python",
        condition_sources=sources,
        effects_schema=None if effects is None else effects[1],
        panels=panels,
        compiled_input=arguments[0],
        compiled_effects=None if effects is None else effects[0],
        warnings=tuple(warnings),
    )


def _check_description(cursor: Cursor | None, warnings: list[str]) -> str | None:
    text = cursor.string() if cursor is not None else None
    if cursor is None or text is None:
        return None
    if not text.strip():
        cursor.fail("must not be empty")
        return None
    size = len(text.encode("utf-8"))
    if size > MAX_DESCRIPTION_BYTES:
        cursor.fail(f"has {size} bytes; the limit is {MAX_DESCRIPTION_BYTES}")
        return None
    if not text.isascii() or not text.isprintable():
        odd = sorted({f"U+{ord(c):04X}" for c in text if _is_invisible(c)})
        if odd:
            warnings.append(f"description has invisible characters: {', '.join(odd[:8])}")
    return text


def _is_invisible(char: str) -> bool:
    return char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Co")


def _check_entry(cursor: Cursor | None) -> str | None:
    """Accept the two literal forms and nothing else: there is no path to normalise."""
    entry = cursor.string() if cursor is not None else None
    if cursor is None or entry is None:
        return None
    if entry not in ENTRIES:
        forms = " or ".join(repr(form) for form in ENTRIES)
        cursor.fail(f"is {shown(entry)}; it must be exactly {forms}")
        return None
    return entry


_Schema = tuple[CompiledSchema, dict[str, Any]]
_compiled: dict[bytes, _Schema] = {}
"""Compiled schemas by content: tools of one family share theirs, and loads repeat."""
_MAX_COMPILED = 1024


def _compile(schema: dict[str, Any], pointer: str) -> _Schema:
    # Version 2 has no back references, so equal content gives equal bytes.
    key = marshal.dumps(schema, 2)
    known = _compiled.get(key)
    if known is None:
        known = compile_schema(schema, base_pointer=pointer), freeze(schema)
        if len(_compiled) >= _MAX_COMPILED:
            _compiled.clear()
        _compiled[key] = known
    return known


def _check_schema(cursor: Cursor | None) -> _Schema | None:
    if cursor is None:
        return None
    if not isinstance(cursor.value, dict):
        cursor.wrong_type("an object")
        return None
    compiled = None
    try:
        compiled = _compile(cursor.value, cursor.pointer)
    except SchemaError as exc:
        for problem in exc.problems or (Problem(cursor.pointer, exc.message),):
            cursor.document.add(problem.pointer, problem.message)
    root_type = cursor.value.get("type")
    if root_type != "object":
        got = "is missing" if root_type is None else f"is {shown(root_type)}"
        cursor.fail(f'the schema\'s own "type" {got}; it must be "object"')
        return None
    return compiled


def _check_sources(cursor: Cursor | None, has_effects: bool) -> tuple[str, ...]:
    if cursor is None:
        return ()
    out: list[str] = []
    for item in cursor.items(max_items=len(_SOURCES)):
        source = item.value
        if not isinstance(source, str):
            item.wrong_type("a string")
        elif source not in _SOURCES:
            hint = did_you_mean(source, _SOURCES)
            item.fail(f"unknown source {shown(source)}{hint}; one of {', '.join(_SOURCES)}")
        elif source in out:
            item.fail(f"{source!r} is listed twice")
        else:
            if source == "effects" and not has_effects:
                item.fail("'effects' needs an effects_schema")
            out.append(source)
    return tuple(out)
