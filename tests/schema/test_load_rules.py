"""Load rules: what a schema may not contain, and what it still may."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from raw_exec.errors import SchemaError
from raw_exec.schema import SchemaRefusal, compile_schema
from raw_exec.schema.rules import MAX_SCHEMA_NODES

_2020 = "https://json-schema.org/draft/2020-12/schema"
_07 = "http://json-schema.org/draft-07/schema#"


def refusals(schema: Any, **options: Any) -> list[tuple[str, str]]:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema, **options)
    assert caught.value.code == "schema_invalid"
    assert all(isinstance(p, SchemaRefusal) for p in caught.value.problems)
    return [(p.rule, p.pointer) for p in caught.value.problems if isinstance(p, SchemaRefusal)]


def nested(levels: int, keyword: str = "not") -> Any:
    schema: Any = {}
    for _ in range(levels):
        schema = {keyword: schema}
    return schema


def doubling(levels: int) -> Any:
    definitions: dict[str, Any] = {
        f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "string"}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


REFUSED: list[tuple[str, Any, list[tuple[str, str]]]] = [
    ("root is a list", [], [("not_json", "")]),
    ("root is null", None, [("not_json", "")]),
    ("infinite number", {"maximum": float("inf")}, [("not_json", "/maximum")]),
    ("huge integer", {"maximum": 2**60}, [("not_json", "/maximum")]),
    ("lone surrogate", {"title": "\ud800"}, [("not_json", "/title")]),
    ("too deep", nested(70), [("too_deep", "/not" * 65)]),
    ("too large", {"enum": list(range(MAX_SCHEMA_NODES))}, [("too_large", "")]),
    ("draft-04", {"$schema": "http://json-schema.org/draft-04/schema#"}, [("dialect", "/$schema")]),
    ("schema is a number", {"$schema": 7}, [("dialect", "/$schema")]),
    ("https draft-07", {"$schema": _07.replace("http:", "https:")}, [("dialect", "/$schema")]),
    ("unknown type", {"type": "text"}, [("meta_schema", "/type")]),
    ("negative length", {"minLength": -1}, [("meta_schema", "/minLength")]),
    ("fractional length", {"maxLength": 1.5}, [("meta_schema", "/maxLength")]),
    ("nested dialect", {"not": {"$schema": _07}}, [("nested_dialect", "/not/$schema")]),
    ("vocabulary", {"$vocabulary": {}}, [("vocabulary", "/$vocabulary")]),
    ("async", {"$async": True}, [("async", "/$async")]),
    ("nested async", {"items": {"$async": True}}, [("async", "/items/$async")]),
    ("dynamic reference", {"$dynamicRef": "#a"}, [("dynamic_scope", "/$dynamicRef")]),
    ("dynamic anchor", {"$dynamicAnchor": "a"}, [("dynamic_scope", "/$dynamicAnchor")]),
    ("nested id", {"items": {"$id": "http://x.invalid/"}}, [("nested_id", "/items/$id")]),
    ("root id fragment", {"$schema": _07, "$id": "#a"}, [("root_id", "/$id")]),
    (
        "one anchor twice",
        {"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}},
        [("duplicate_anchor", "/$defs/b/$anchor")],
    ),
    ("http reference", {"$ref": "http://x.invalid/s.json"}, [("remote_ref", "/$ref")]),
    ("file reference", {"items": {"$ref": "file:///etc/passwd"}}, [("remote_ref", "/items/$ref")]),
    ("relative reference", {"$ref": "other.json"}, [("remote_ref", "/$ref")]),
    ("reference to the meta-schema", {"$ref": _2020}, [("remote_ref", "/$ref")]),
    ("dangling pointer", {"$ref": "#/$defs/no"}, [("ref_target", "/$ref")]),
    ("dangling anchor", {"$ref": "#no"}, [("ref_target", "/$ref")]),
    (
        "reference into an annotation",
        {"examples": [{"type": "string"}], "$ref": "#/examples/0"},
        [("ref_target", "/$ref")],
    ),
    ("look-ahead", {"pattern": "(?=a)"}, [("pattern", "/pattern")]),
    ("back-reference", {"pattern": "(a)\\1"}, [("pattern", "/pattern")]),
    ("end of text in another dialect", {"pattern": "a\\Z"}, [("pattern", "/pattern")]),
    ("control escape", {"pattern": "\\cA"}, [("pattern", "/pattern")]),
    ("long pattern", {"pattern": "a" * 4097}, [("pattern", "/pattern")]),
    ("large pattern", {"pattern": "(?:\\pL|\\pN){800}"}, [("pattern", "/pattern")]),
    ("bomb", {"pattern": "(a{1000}){1000}"}, [("pattern", "/pattern")]),
    ("key", {"patternProperties": {"(": {}}}, [("pattern", "/patternProperties/(")]),
    (
        "key outside the portable language",
        {"patternProperties": {"(?i)a": {}}},
        [("key_pattern", "/patternProperties/(?i)a")],
    ),
    (
        "two keys, one meaning",
        {"patternProperties": {"\\d": {}, "[0-9]": {}}},
        [("key_pattern", "/patternProperties")],
    ),
    (
        "many large patterns",
        {"allOf": [{"pattern": f"a{{999}}b{{{i}}}"} for i in range(1, 200)]},
        [("pattern_budget", "/allOf/95/pattern")],
    ),
    ("self reference", {"$ref": "#"}, [("ref_cycle", "/$ref")]),
    ("loop through allOf", {"allOf": [{"$ref": "#"}]}, [("ref_cycle", "/allOf/0/$ref")]),
    (
        "loop of two",
        {"properties": {"a": {"$ref": "#/$defs/x"}},
         "$defs": {"x": {"not": {"$ref": "#/$defs/y"}}, "y": {"anyOf": [{"$ref": "#/$defs/x"}]}}},
        [("ref_cycle", "/$defs/y/anyOf/0/$ref")],
    ),
    ("long chain", doubling(40), [("chain_depth", "/$defs/d31/allOf/0/$ref")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "expected"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_schema_is_refused_by_the_named_rule(schema: Any, expected: list[tuple[str, str]]) -> None:
    """Our choice: one name per reason, one pointer per place."""
    found = refusals(schema)
    if expected[0][0] == "pattern_budget":
        assert [rule for rule, _ in found] == ["pattern_budget"]
    else:
        assert found == expected


def test_schema_that_doubles_at_every_level_is_refused_in_few_steps() -> None:
    """Security: 2**30 ways through ten lines must not be walked."""
    assert [rule for rule, _ in refusals(doubling(30))] == ["work_budget"]


ACCEPTED: list[tuple[str, Any, Any, Any]] = [
    ("true", True, 1, None),
    ("draft-07 with hash", {"$schema": _07, "type": "string"}, "a", 1),
    ("draft-07 without hash", {"$schema": _07[:-1], "type": "string"}, "a", 1),
    ("2020-12 with hash", {"$schema": _2020 + "#", "type": "string"}, "a", 1),
    ("root id",
     {"$id": "https://x.invalid/s", "$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}},
     None, 1),
    ("same nested dialect", {"not": {"$schema": _2020, "type": "string"}}, 1, "a"),
    ("anchor", {"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "null"}}}, None, 1),
    ("percent-encoded pointer", {"$ref": "#/$defs/a%25%7E1", "$defs": {"a%/": {"type": "null"}}},
     None, 1),
    ("recursion with progress", {"additionalProperties": {"$ref": "#"}, "type": "object"},
     {"a": {"b": {}}}, {"a": {"b": 1}}),
    ("pattern for RE2 alone", {"pattern": "(?i)^\\pL+$"}, "Éa", "1"),
    ("hostile pattern", {"pattern": "^(a+)+$"}, "a" * 5000, "a" * 5000 + "b"),
    ("format is an annotation", {"format": "email", "type": "string"}, "no address", 1),
    ("content is an annotation",
     {"$schema": _07, "contentMediaType": "application/json", "type": "string"}, "{", 1),
    ("keyword of another draft", {"$schema": _07, "dependentRequired": {"a": ["b"]},
                                  "type": "object"}, {"a": 1}, 1),
    ("void sibling of a draft-07 reference",
     {"$schema": _07, "properties": {"a": {"$ref": "#/definitions/s", "maxLength": 0}},
      "definitions": {"s": {"type": "string"}}}, {"a": "text"}, {"a": 1}),
    ("id in an enum", {"enum": [{"$id": "http://x.invalid/"}]}, {"$id": "http://x.invalid/"}, 1),
    ("reference as a property name", {"properties": {"$ref": {"type": "string"}}},
     {"$ref": "a"}, {"$ref": 1}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "good", "bad"), [case[1:] for case in ACCEPTED], ids=[case[0] for case in ACCEPTED]
)
def test_schema_is_accepted_and_both_engines_agree(schema: Any, good: Any, bad: Any) -> None:
    """The other half: what looks like the refused and is fine."""
    compiled = compile_schema(schema)
    assert compiled.is_valid(good)
    assert compiled.problems(good) == ()
    if schema is not True:
        assert not compiled.is_valid(bad)
        assert compiled.problems(bad) != ()
    assert compiled.disagreements == 0


def test_pointers_start_with_the_base_pointer() -> None:
    """So that a manifest's problems point into the manifest."""
    assert refusals({"pattern": "("}, base_pointer="/input_schema") == [
        ("pattern", "/input_schema/pattern")
    ]


def test_several_problems_are_all_reported() -> None:
    """One load shows everything there is to fix."""
    schema = {"properties": {"a": {"pattern": "("}, "b": {"$ref": "x.json"}, "c": {"$async": True}}}
    assert sorted(refusals(schema)) == [
        ("async", "/properties/c/$async"),
        ("pattern", "/properties/a/pattern"),
        ("remote_ref", "/properties/b/$ref"),
    ]


def test_schema_is_neither_kept_nor_changed() -> None:
    """A caller may change its document afterwards without effect."""
    schema = {"type": "object", "properties": {"a": {"pattern": "\\d", "format": "x"}}}
    compiled = compile_schema(schema)
    assert schema == {"type": "object", "properties": {"a": {"pattern": "\\d", "format": "x"}}}
    schema["type"] = "string"
    assert compiled.is_valid({"a": "1"})


def test_nothing_is_fetched_while_a_remote_reference_is_refused() -> None:
    """Security: a listener on loopback sees no connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        seen: list[object] = []

        def accept() -> None:
            try:
                seen.append(listener.accept())
            except TimeoutError:
                pass

        thread = threading.Thread(target=accept)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/s.json"
        for schema in (
            {"$ref": url},
            {"$id": url, "$ref": "#/x"},
            {"$schema": url},
            {"$defs": {"a": {"$id": url}}, "$ref": "#/$defs/a"},
            {"$dynamicRef": url},
        ):
            refusals(schema)
        # The closest thing to a fetch that is accepted: a root "$id" that could be read.
        compile_schema({"$id": url, "type": "object"}).problems(1)
        thread.join()
    assert seen == []
