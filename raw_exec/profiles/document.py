"""A schema in draft 2020-12 without a dialect of its own, accepting exactly what it did.

For providers that read all of JSON Schema. Draft-07 keywords get their names of today and
references follow them; ``$schema``, ``$id`` and ``$comment`` go, since every reference is
local. Nothing else changes.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from ..schema.dialect import DRAFT_07, Dialect, Shape
from ..schema.nodes import children, pointer_of_reference
from ..values import escape_pointer, thaw

__all__ = ["modern_document"]

_DROPPED = frozenset({"$schema", "$id", "$comment"})


def modern_document(schema: Any, dialect: Dialect, *, array_items: bool) -> dict[str, Any]:
    """Return the rewritten schema.

    Args:
        schema: A schema that compiled, frozen or not.
        dialect: Its dialect.
        array_items: Whether ``items`` is to be said where it is left out, as ``{}``.
    """
    writer = _Writer(dialect, array_items)
    out = writer.write(thaw(schema), "", "")
    for holder in writer.references:
        old = pointer_of_reference(holder["$ref"][1:])
        if old in writer.moved:  # an anchor is none, and stays where it is
            holder["$ref"] = "#" + quote(writer.moved[old], safe="/$~!*'()+,;=:@-._")
    document: dict[str, Any] = out
    return document


class _Writer:
    def __init__(self, dialect: Dialect, array_items: bool) -> None:
        self._dialect = dialect
        self._array_items = array_items
        self.moved: dict[str, str] = {}
        self.references: list[dict[str, Any]] = []

    def write(self, schema: Any, old: str, new: str) -> Any:
        self.moved[old] = new
        if not isinstance(schema, dict):
            return schema
        hidden = self._dialect.ref_hides_siblings and "$ref" in schema
        held = {keyword for keyword, *_ in children(schema, self._dialect)}
        out: dict[str, Any] = {}
        for keyword, value in schema.items():
            shape = self._dialect.keywords.get(keyword)
            if keyword in _DROPPED or (hidden and shape not in (None, Shape.DEFINITIONS)):
                continue
            if shape is None or shape is Shape.ASSERTION:
                out[keyword] = value
            elif keyword in held or isinstance(value, list | dict | bool):
                self._holder(out, schema, keyword, value, old, new)
        if "$ref" in out:
            self.references.append(out)
        if self._array_items and _is_array(out) and "items" not in out:
            out["items"] = {}
        return out

    def _holder(
        self,
        out: dict[str, Any],
        schema: dict[str, Any],
        keyword: str,
        value: Any,
        old: str,
        new: str,
    ) -> None:
        shape = self._dialect.keywords[keyword]
        here = f"{old}/{escape_pointer(keyword)}"
        if shape is Shape.DEPENDENCIES:
            self._dependencies(out, value, here, new)
            return
        name = keyword
        if self._dialect is DRAFT_07:
            if keyword == "items" and isinstance(value, list):
                name = "prefixItems"
            elif keyword == "additionalItems":
                if not isinstance(schema.get("items"), list):
                    return  # it means nothing then
                name = "items"
        there = f"{new}/{name}"
        if isinstance(value, list):
            out[name] = [
                self.write(item, f"{here}/{i}", f"{there}/{i}") for i, item in enumerate(value)
            ]
        elif isinstance(value, dict) and shape in (Shape.MAP, Shape.CHILD_MAP, Shape.DEFINITIONS):
            out[name] = {
                key: self.write(
                    item, f"{here}/{escape_pointer(key)}", f"{there}/{escape_pointer(key)}"
                )
                for key, item in value.items()
            }
        else:
            out[name] = self.write(value, here, there)

    def _dependencies(self, out: dict[str, Any], value: Any, here: str, new: str) -> None:
        for key, item in value.items():
            if isinstance(item, list):
                out.setdefault("dependentRequired", {})[key] = item
            else:
                token = escape_pointer(key)
                out.setdefault("dependentSchemas", {})[key] = self.write(
                    item, f"{here}/{token}", f"{new}/dependentSchemas/{token}"
                )


def _is_array(schema: dict[str, Any]) -> bool:
    named = schema.get("type")
    return named == "array" or (isinstance(named, list) and "array" in named)
