"""Matches of text and of result blocks: exact, or only in part.

A text is given exactly, or as ``{"contains": text}`` or ``{"regex": RE2 pattern}``, which
must match somewhere. A JSON block is given by its exact ``value``, or by ``contains``: every
member that is named must be there, lists item by item. An image is given by its ``data``, or
by the ``sha256`` of its bytes, or by its type alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from ..fields import Cursor
from ..schema.patterns import PatternRefused, compile_pattern
from ..values import escape_pointer, freeze

__all__ = ["BlockMatch", "TextMatch", "check_block", "check_text_match", "same_json", "shorten"]

_SHA256 = re.compile(r"[0-9a-f]{64}")
_TYPES: Final = ("text", "json", "image")
_MAX_SHOWN_CHARS = 400


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A text, or what must be somewhere in it.

    Args:
        kind: ``"exact"``, ``"contains"`` or ``"regex"``.
    """

    kind: str
    value: str

    def problem(self, actual: str) -> str | None:
        """Say why a text does not match, or ``None``."""
        if self.kind == "exact":
            if actual == self.value:
                return None
            return f"is {shorten(actual)}, not {shorten(self.value)}"
        if self.kind == "contains":
            if self.value in actual:
                return None
            return f"does not contain {shorten(self.value)}: {shorten(actual)}"
        if compile_pattern(self.value).search(actual.encode("utf-8", "surrogatepass")):
            return None
        return f"does not match the pattern {shorten(self.value)}: {shorten(actual)}"


@dataclass(frozen=True, slots=True)
class BlockMatch:
    """One block of a result.

    Args:
        type: ``"text"``, ``"json"`` or ``"image"``.
        text: Of a text block.
        value: Of a JSON block, frozen.
        partial: Whether ``value`` names only a part of it.
        mime: Of an image.
        sha256: Digest of an image's bytes; ``None`` to not look.
    """

    type: str
    text: TextMatch | None = None
    value: Any = None
    partial: bool = False
    mime: str | None = None
    sha256: str | None = None

    def problem(self, block: dict[str, Any]) -> str | None:
        """Say why a block of a checked result does not match, or ``None``."""
        if block["type"] != self.type:
            return f"is a {block['type']} block, not {self.type}: {shorten(_gist(block))}"
        if self.text is not None:
            problem = self.text.problem(block["text"])
            return None if problem is None else f"text {problem}"
        if self.type == "json":
            actual = block["value"]
            where = _missing(self.value, actual) if self.partial else None
            if where is not None or (not self.partial and not same_json(self.value, actual)):
                verb = f"has at {where} what is in" if self.partial else "is"
                return f"value is {shorten(actual)}; wanted one that {verb} {shorten(self.value)}"
            return None
        if self.type == "image":
            return self._image_problem(block)
        return None

    def _image_problem(self, block: dict[str, Any]) -> str | None:
        if self.mime is not None and block["mimeType"] != self.mime:
            return f"is {block['mimeType']}, not {self.mime}"
        if self.sha256 is None:
            return None
        digest = hashlib.sha256(base64.b64decode(block["data"])).hexdigest()
        return None if digest == self.sha256 else f"image has sha256 {digest}, not {self.sha256}"


def _gist(block: dict[str, Any]) -> Any:
    return block.get("text", block.get("value", block.get("mimeType")))


def shorten(value: Any) -> str:
    """Return a value as JSON, cut to what a person reads at a glance."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _MAX_SHOWN_CHARS:
        return text
    return f"{text[:_MAX_SHOWN_CHARS]}… ({len(text)} characters)"


def same_json(wanted: Any, actual: Any) -> bool:
    """Compare JSON values; ``1`` and ``1.0`` are equal, ``1`` and ``true`` are not."""
    if isinstance(wanted, bool) or isinstance(actual, bool):
        return wanted is actual
    if isinstance(wanted, dict) and isinstance(actual, dict):
        return wanted.keys() == actual.keys() and all(
            same_json(wanted[k], actual[k]) for k in wanted
        )
    if isinstance(wanted, list) and isinstance(actual, list):
        pairs = zip(wanted, actual, strict=False)
        return len(wanted) == len(actual) and all(same_json(a, b) for a, b in pairs)
    return bool(wanted == actual)


def _missing(wanted: Any, actual: Any, pointer: str = "") -> str | None:
    """Return the pointer of the first part of ``wanted`` that ``actual`` has not."""
    if isinstance(wanted, dict) and isinstance(actual, dict):
        for key, item in wanted.items():
            below = f"{pointer}/{escape_pointer(key)}"
            if key not in actual:
                return below
            found = _missing(item, actual[key], below)
            if found is not None:
                return found
        return None
    if isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        for index, item in enumerate(wanted):
            found = _missing(item, actual[index], f"{pointer}/{index}")
            if found is not None:
                return found
        return None
    return None if same_json(wanted, actual) else pointer or "(root)"


# ---------------------------------------------------------------- reading


def check_text_match(cursor: Cursor) -> TextMatch | None:
    """Check a text or one of its partial forms."""
    if isinstance(cursor.value, str):
        return TextMatch("exact", cursor.value)
    if not isinstance(cursor.value, dict):
        cursor.wrong_type('a text, {"contains": text} or {"regex": pattern}')
        return None
    fields = cursor.fields(("contains", "regex"))
    if fields is None:
        return None
    if len(fields) != 1:
        cursor.fail("needs exactly one of contains, regex")
        return None
    ((kind, item),) = fields.items()
    text = item.string(min_chars=1)
    if text is None:
        return None
    if kind == "regex":
        try:
            compile_pattern(text)
        except PatternRefused as exc:
            item.fail(str(exc))
            return None
    return TextMatch(kind, text)


def check_block(cursor: Cursor) -> BlockMatch | None:
    """Check one block of ``expect.content``."""
    if not isinstance(cursor.value, dict):
        cursor.wrong_type("an object")
        return None
    if "type" not in cursor.value:
        cursor.fail("missing required field 'type'")
        return None
    kind = cursor.child("type").choice(_TYPES, "block type")
    if kind == "text":
        fields = cursor.fields(("type", "text"), ("type", "text"))
        if fields is None or "text" not in fields:
            return None
        match = check_text_match(fields["text"])
        return None if match is None else BlockMatch("text", text=match)
    if kind == "json":
        return _check_json(cursor)
    return _check_image(cursor) if kind == "image" else None


def _check_json(cursor: Cursor) -> BlockMatch | None:
    fields = cursor.fields(("type", "value", "contains"))
    if fields is None:
        return None
    if ("value" in fields) == ("contains" in fields):
        cursor.fail("needs exactly one of value, contains")
        return None
    partial = "contains" in fields
    value = freeze(fields["contains" if partial else "value"].value)
    return BlockMatch("json", value=value, partial=partial)


def _check_image(cursor: Cursor) -> BlockMatch | None:
    fields = cursor.fields(("type", "mimeType", "data", "sha256"))
    if fields is None:
        return None
    mime = digest = None
    if "mimeType" in fields:
        mime = fields["mimeType"].choice(("image/png", "image/jpeg"), "type")
    if "data" in fields and "sha256" in fields:
        cursor.fail("needs data or sha256, not both")
    elif "sha256" in fields:
        digest = fields["sha256"].name(_SHA256, "digest")
    elif "data" in fields:
        text = fields["data"].string()
        if text is None:
            return None
        try:
            digest = hashlib.sha256(base64.b64decode(text, validate=True)).hexdigest()
        except ValueError:
            fields["data"].fail("is not base64")
    return BlockMatch("image", mime=mime, sha256=digest)
