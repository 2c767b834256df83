"""The local schema check: what the seed lists is refused, each at its JSON Pointer."""

from __future__ import annotations

from typing import Any

import pytest

from raw_exec.contracts.errors import Invalid
from raw_exec.contracts.subset import (
    check_subset,
    find_subset_problems,
    format_problems,
    parse_schema,
)

SUPPORTED: dict[str, Any] = {
    "type": "object",
    "title": "Search",
    "description": "Arguments",
    "properties": {
        "text": {"type": "string", "default": "x", "minLength": 1, "pattern": "^[a-z]+$"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "deep": {"type": "boolean"},
        "none": {"type": "null"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sort": {"enum": ["a", "b"]},
        "size": {"enum": [1, 1.5]},
        "one": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "nested": {"type": "object", "properties": {"a": {}}, "required": ["a"]},
    },
    "required": ["text"],
    "additionalProperties": False,
}


def _at(schema: dict[str, Any], role: Any = "output") -> list[str]:
    return [problem.pointer for problem in find_subset_problems(schema, role=role)]


def test_everything_that_is_supported_passes() -> None:
    """Seed 3, "Supported"."""
    assert find_subset_problems(SUPPORTED) == ()
    check_subset(SUPPORTED)


@pytest.mark.parametrize(
    ("schema", "pointers"),
    [
        ({"$ref": "#/x"}, [""]),
        ({"$defs": {}}, [""]),
        ({"allOf": []}, [""]),
        ({"not": {}}, [""]),
        ({"if": {}, "then": {}, "else": {}}, ["", "", ""]),
        ({"patternProperties": {}}, [""]),
        ({"additionalProperties": {}}, ["/additionalProperties"]),
        ({"items": [{}]}, ["/items"]),
        ({"items": True}, ["/items"]),
        ({"enum": ["a", 1]}, ["/enum"]),
        ({"enum": [True, 1]}, ["/enum"]),
        ({"enum": [None]}, ["/enum"]),
        ({"enum": []}, ["/enum"]),
        ({"enum": "a"}, ["/enum"]),
        ({"type": ["string", "null"]}, [""]),
        ({"type": 1}, [""]),
        ({"type": "date"}, [""]),
        ({"required": ["a"]}, ["/required"]),
        ({"required": "a"}, ["/required"]),
        ({"required": [1]}, ["/required"]),
        ({"properties": []}, ["/properties"]),
        ({"properties": {"a": True}}, ["/properties/a"]),
        ({"anyOf": {}}, ["/anyOf"]),
        ({"oneOf": [{}, 1]}, ["/oneOf/1"]),
        ({"properties": {"a/b~c": {"items": {"$ref": "x"}}}}, ["/properties/a~1b~0c/items"]),
        ({"oneOf": [{}, {"properties": {"z": {"not": {}}}}]}, ["/oneOf/1/properties/z"]),
    ],
)
def test_what_the_seed_lists_is_refused_where_it_stands(
    schema: dict[str, Any], pointers: list[str]
) -> None:
    """Seed 3, "Rejected"."""
    assert _at(schema) == pointers


@pytest.mark.parametrize(
    "schema",
    [
        {"default": {"$ref": "x"}, "examples": [{"not": 1}]},
        {"properties": {"$ref": {"type": "string"}, "not": {}, "enum": {}}},
        {"format": "uri", "$comment": "c", "x-vendor": {"allOf": []}, "definitions": {"a": 1}},
        {"enum": ["$ref"]},
    ],
)
def test_data_that_looks_like_keywords_is_left_alone(schema: dict[str, Any]) -> None:
    """Only schemas are looked into, never what authors wrote as data or as names."""
    assert _at(schema) == []


def test_only_an_input_schema_needs_an_object_at_its_root() -> None:
    """Seed 3: arguments are an object, results have any shape."""
    assert _at({"type": "string"}, "input") == [""]
    assert _at({}, "input") == [""]
    assert _at({"type": "string"}, "output") == []


def test_what_is_no_object_or_far_too_deep_is_refused_without_a_walk() -> None:
    """A hostile schema costs one bounded scan."""
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"items": deep}
    assert len(_at(deep)) == 1
    assert _at({"enum": list(range(30_000))}) == [""]
    assert [p.pointer for p in find_subset_problems([])] == [""]


def test_problems_are_listed_with_the_root_as_a_slash() -> None:
    """The same form as the public CLI's, in other words."""
    problems = find_subset_problems({"properties": {"a": {"$ref": "x"}}})
    lines = format_problems(problems).split("\n")
    assert lines[0] == "2 schema issues; nothing was sent:"
    assert [line.split(": ")[0] for line in lines[1:]] == ["  /", "  /properties/a"]


def test_the_check_raises_with_every_problem() -> None:
    """A command line ends with one error that names all places."""
    with pytest.raises(Invalid) as caught:
        check_subset({"type": "object", "properties": {"a": {"not": {}}, "b": {"allOf": []}}})
    assert caught.value.code == "schema_outside_subset"
    assert [one.pointer for one in caught.value.problems] == ["/properties/a", "/properties/b"]


@pytest.mark.parametrize("text", ["", "[]", "1", "{", '{"a": 1} x', '{"a": 1, "a": 2}', "\ufeff{}"])
def test_a_text_that_is_no_json_object_is_refused(text: str) -> None:
    """Trailing data and duplicate keys included: nobody means them."""
    with pytest.raises(Invalid) as caught:
        parse_schema(text)
    assert caught.value.code == "schema_not_json"


def test_a_text_that_is_a_json_object_is_read() -> None:
    """As bytes and as text."""
    assert parse_schema(b'{"type": "object"}') == parse_schema('{"type": "object"}')
