"""What a change of a contract does is named by pointer, and never called harmless wrongly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from contracts.codegen.values import random_object, random_subset_schema, random_value

from raw_exec.contracts.compare import (
    Change,
    Comparison,
    ContractFace,
    compare_contracts,
    compare_schemas,
)
from raw_exec.schema import compile_schema

STRING = {"type": "string"}
NULL = {"type": "null"}


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def _effects(old: Any, new: Any, role: Any = "input") -> set[tuple[str, str, bool]]:
    changes = compare_schemas(old, new, role=role).changes
    return {(change.pointer, change.effect, change.breaking) for change in changes}


CASES: list[tuple[str, Any, Any, set[tuple[str, str, bool]]]] = [
    ("same", _object({"a": STRING}), _object({"a": STRING}), set()),
    ("number spelling", {"const": 1}, {"const": 1.0}, set()),
    (
        "description",
        {"type": "string", "description": "a"},
        STRING,
        {("/description", "text", False)},
    ),
    ("new optional", _object({}), _object({"a": STRING}), {("/properties/a", "widens", False)}),
    ("gone", _object({"a/b": STRING}), _object({}), {("/properties/a~1b", "narrows", True)}),
    (
        "new required",
        _object({}),
        _object({"a": STRING}, required=["a"]),
        {("/properties/a", "widens", False), ("/required", "narrows", True)},
    ),
    (
        "new in an object that says it is open",
        _object({}, additionalProperties=True),
        _object({"a": STRING}, additionalProperties=True),
        {("/properties/a/type", "narrows", True)},
    ),
    ("integer to number", {"type": "integer"}, {"type": "number"}, {("/type", "widens", False)}),
    ("number to integer", {"type": "number"}, {"type": "integer"}, {("/type", "narrows", True)}),
    ("string to integer", STRING, {"type": "integer"}, {("/type", "both", True)}),
    ("type removed", STRING, {}, {("/type", "widens", False)}),
    ("now nullable", STRING, {"anyOf": [STRING, NULL]}, {("/anyOf", "widens", False)}),
    ("not nullable", {"anyOf": [STRING, NULL]}, STRING, {("/anyOf", "narrows", True)}),
    ("now one of", STRING, {"oneOf": [STRING, NULL]}, {("/oneOf", "widens", False)}),
    ("value new", {"enum": ["a"]}, {"enum": ["a", "b"]}, {("/enum", "widens", False)}),
    ("value gone", {"enum": ["a", "b"]}, {"enum": ["a"]}, {("/enum", "narrows", True)}),
    ("longer", {"minLength": 1}, {"minLength": 2}, {("/minLength", "narrows", True)}),
    ("zero is no limit", {"minLength": 0}, {}, set()),
    ("lower maximum", {"maximum": 5}, {"maximum": 4}, {("/maximum", "narrows", True)}),
    ("maximum gone", {"maximum": 5}, {}, {("/maximum", "widens", False)}),
    ("pattern", {"pattern": "a"}, {"pattern": "b"}, {("/pattern", "both", True)}),
    ("step", {"multipleOf": 0.1}, {"multipleOf": 0.3}, {("/multipleOf", "narrows", True)}),
    ("closed", _object({}), _object({}, additionalProperties=False), {
        ("/additionalProperties", "narrows", True)
    }),
    ("kept", _object({}), _object({}, additionalProperties=True), {
        ("/additionalProperties", "text", False)
    }),
    ("items", {"items": STRING}, {"items": {}}, {("/items/type", "widens", False)}),
    ("reference", {"$ref": "#/a"}, {"$ref": "#/b"}, {("/$ref", "both", True)}),
    ("branch new", {"anyOf": [STRING, NULL]}, {"anyOf": [NULL, STRING, {"type": "integer"}]}, {
        ("/anyOf/2", "widens", False)
    }),
    ("overlapping branch", {"oneOf": [STRING, NULL]}, {"oneOf": [STRING, NULL, {}]}, {
        ("/oneOf/2", "both", True)
    }),
    ("boolean schema", _object({"a": STRING}), _object({"a": False}), {
        ("/properties/a", "narrows", True)
    }),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "wanted"), CASES, ids=[c[0] for c in CASES])
def test_each_change_has_its_place_and_effect(
    name: str, old: Any, new: Any, wanted: set[tuple[str, str, bool]]
) -> None:
    """What changed, breaking or not, by pointer."""
    assert _effects(old, new) == wanted


def test_results_are_judged_the_other_way_round() -> None:
    """Who reads results fails on what could not occur before, not on what no longer occurs."""
    assert _effects({"enum": ["a"]}, {"enum": ["a", "b"]}, "output") == {("/enum", "widens", True)}
    assert _effects({"enum": ["a", "b"]}, {"enum": ["a"]}, "output") == {
        ("/enum", "narrows", False)
    }
    more = _object({"a": STRING})
    assert _effects(_object({}), more, "output") == {("/properties/a", "narrows", False)}
    assert _effects(more, _object({}), "output") == {("/properties/a", "widens", True)}


def test_a_change_says_what_was_and_what_is() -> None:
    """A reviewer reads one line per change."""
    assert compare_schemas({"maximum": 5}, {"maximum": 4}).changes == (
        Change("/maximum", "maximum", "'maximum' was 5, is 4", "narrows", True),
    )


def test_contracts_are_compared_whole() -> None:
    """A tool folder is checked against a contract by name, description and schemas."""
    old = ContractFace("fetch", "Fetch.", _object({"a": STRING}), STRING)
    new = ContractFace("get", "Get.", _object({"a": {}}), None)
    found = compare_contracts(old, new)
    assert [(c.pointer, c.breaking) for c in found.changes] == [
        ("/name", True),
        ("/description", False),
        ("/inputSchema/properties/a/type", False),
        ("/outputSchema/type", True),
    ]
    assert found.breaking
    assert compare_contracts(old, old) == Comparison(())
    assert compare_contracts(old, old).equal


def _declared_only(schema: Any, value: Any) -> bool:
    """Return whether a value uses only declared properties, as the module's rule 2 assumes."""
    if isinstance(value, list):
        return all(_declared_only(schema.get("items", {}), item) for item in value)
    if not isinstance(value, dict) or schema.get("type") != "object":
        return not isinstance(value, dict) or "properties" not in schema
    known = schema.get("properties", {})
    if schema.get("additionalProperties") is True:
        return True
    return all(key in known and _declared_only(known[key], one) for key, one in value.items())


def _mutated(rng: random.Random, schema: Any, depth: int = 0) -> Any:
    """Return a schema with something small changed somewhere."""
    copy = dict(schema)
    roll = rng.random()
    inner = [key for key in ("properties", "items", "anyOf", "oneOf") if copy.get(key)]
    if inner and roll < 0.6:
        key = rng.choice(inner)
        if key == "items":
            copy[key] = _mutated(rng, copy[key], depth + 1)
        elif key == "properties":
            name = rng.choice(list(copy[key]))
            copy[key] = copy[key] | {name: _mutated(rng, copy[key][name], depth + 1)}
        else:
            index = rng.randrange(len(copy[key]))
            branches = list(copy[key])
            branches[index] = _mutated(rng, branches[index], depth + 1)
            copy[key] = branches
    elif roll < 0.75 and copy:
        key = rng.choice(list(copy))
        if not (depth == 0 and key == "type"):
            del copy[key]
    else:
        other = random_subset_schema(rng, 2)
        key = rng.choice(list(other) or ["title"])
        if not (depth == 0 and key in ("type", "enum", "const")):
            copy[key] = other.get(key, "T")
    return copy


def _pairs(seed: int, count: int) -> Iterator[tuple[random.Random, Any, Any]]:
    rng = random.Random(seed)
    for _ in range(count):
        old = {"type": "object"} | random_subset_schema(rng, 2) | random_object(rng, 2)
        old = {k: v for k, v in old.items() if k not in ("enum", "const")} | {"type": "object"}
        new = _mutated(rng, old)
        yield rng, old, new if rng.random() < 0.7 else _mutated(rng, new)


@pytest.mark.slow
def test_what_is_not_called_breaking_breaks_no_argument() -> None:
    """Rule 1: whatever was accepted before is accepted after, or the change says so."""
    verdicts = {True: 0, False: 0}
    for rng, old, new in _pairs(11, 1500):
        breaking = compare_schemas(old, new).breaking
        verdicts[breaking] += 1
        before, after = compile_schema(old), compile_schema(new)
        for _ in range(0 if breaking else 15):
            value = random_value(rng, old)
            if before.is_valid(value) and _declared_only(old, value):
                assert after.is_valid(value), (old, new, value)
    assert min(verdicts.values()) > 200


@pytest.mark.slow
def test_what_is_not_called_breaking_adds_no_result() -> None:
    """Rule 3: whatever occurs now could occur before, or the change says so."""
    verdicts = {True: 0, False: 0}
    for rng, old, new in _pairs(12, 1500):
        breaking = compare_schemas(old, new, role="output").breaking
        verdicts[breaking] += 1
        before, after = compile_schema(old), compile_schema(new)
        for _ in range(0 if breaking else 15):
            value = random_value(rng, new)
            if after.is_valid(value):
                assert before.is_valid(value), (old, new, value)
    assert min(verdicts.values()) > 200
