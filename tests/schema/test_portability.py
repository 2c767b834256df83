"""Warnings for schemas that providers refuse."""

from __future__ import annotations

from typing import Any

import pytest

from raw_exec.schema import compile_schema, find_portability_warnings

CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}


def warnings(schema: Any) -> list[tuple[str, str]]:
    found = find_portability_warnings(compile_schema(schema), base_pointer="/s")
    return [(w.rule, w.pointer) for w in found]


def with_property(schema: Any) -> dict[str, Any]:
    return {**CLOSED, "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, [("root_not_object", "/s")]),
        ({**CLOSED, "oneOf": [{"type": "object"}]}, [("root_branches", "/s/oneOf")]),
        ({**CLOSED, "$schema": "http://json-schema.org/draft-07/schema"},
         [("draft_07", "/s/$schema")]),
        ({"type": "object", "properties": {}}, [("open_object", "/s")]),
        ({**CLOSED, "properties": {"é": {"type": "string"}}}, [("property_name", "/s")]),
        (with_property({"$ref": "#"}), [("recursive", "/s/properties/a/$ref")]),
        (with_property({"type": ["string", "null"]}), [("type_union", "/s/properties/a/type")]),
        (with_property({"type": "array"}), [("array_items", "/s/properties/a")]),
        (with_property({"description": "x"}), [("untyped", "/s/properties/a")]),
        (with_property(True), [("boolean", "/s/properties/a")]),
    ],
)  # fmt: skip
def test_construct_that_providers_refuse_is_named(
    schema: Any, expected: list[tuple[str, str]]
) -> None:
    """Warnings only; the schema itself compiled."""
    assert warnings(schema) == expected


def test_flat_closed_schema_has_no_warnings() -> None:
    """What the authoring guide recommends is clean."""
    assert warnings(with_property({"type": "string"})) == []


def test_deep_nesting_is_named_once() -> None:
    """More than five levels."""
    schema: Any = {"type": "string"}
    for _ in range(8):
        schema = with_property(schema)
    assert warnings(schema) == [("deep", "/s" + "/properties/a" * 6)]
