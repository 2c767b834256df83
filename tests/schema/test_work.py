"""Schemas that are legal and slow: the work is bounded, and ordinary ones pay nothing."""

from __future__ import annotations

from typing import Any

import pytest

from raw_exec.errors import SchemaError
from raw_exec.schema import compile_schema


def nest(levels: int, leaf: Any = 1) -> Any:
    value = leaf
    for _ in range(levels):
        value = {"c": value}
    return value


def doubling(levels: int, leaf: Any) -> dict[str, Any]:
    return {
        **{f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(levels)},
        f"d{levels}": leaf,
    }


def through_children(definitions: int) -> dict[str, Any]:
    """Return definitions that lead to one another through a property, twice each."""
    return {
        f"d{i}": {"allOf": [{"properties": {"c": {"$ref": f"#/$defs/d{after}"}}}] * 2}
        for i, after in enumerate([*range(1, definitions), 0])
    }


GRAMMAR = {
    "e": {
        "oneOf": [
            {
                "type": "object",
                "properties": {
                    "op": {"const": i},
                    "args": {"type": "array", "items": {"$ref": "#/$defs/e"}},
                },
                "required": ["op"],
                "additionalProperties": False,
            }
            for i in range(10)
        ]
        + [{"type": "integer"}]
    }
}


def tree(levels: int) -> Any:
    return 1 if levels == 0 else {"op": 3, "args": [tree(levels - 1), tree(levels - 1)]}


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        ({"$ref": "#/$defs/d0", "$defs": doubling(20, {})}, "work_budget"),
        ({"$ref": "#/$defs/d0", "$defs": through_children(16)}, "work_budget"),
        ({"$ref": "#/$defs/d0",
          "$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(100)} | {"d100": {}}},
         "chain_depth"),
    ],
)  # fmt: skip
def test_schema_with_too_many_ways_through_is_refused(schema: Any, rule: str) -> None:
    """Security: found by counting, so it takes no longer than the limit."""
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema)
    assert [getattr(p, "rule", None) for p in caught.value.problems] == [rule]


def test_unevaluated_properties_inside_each_other_are_refused() -> None:
    """Security: each level evaluates the ones below again."""
    schema: Any = {"unevaluatedProperties": False}
    for _ in range(16):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema)
    assert [getattr(p, "rule", None) for p in caught.value.problems] == ["work_budget"]


def test_costly_schema_still_checks_small_values() -> None:
    """The pair of the next test."""
    compiled = compile_schema(
        {"items": {"$ref": "#/$defs/d0"}, "$defs": doubling(9, {"minimum": 0})}
    )
    assert compiled.check([1, 2]) == ()
    assert [p.pointer for p in compiled.check([1, -2])] == ["/1"]


def test_costly_schema_refuses_a_value_that_would_take_too_long() -> None:
    """Fail closed, with a reason."""
    compiled = compile_schema(
        {"items": {"$ref": "#/$defs/d0"}, "$defs": doubling(12, {"minimum": 0})}
    )
    value = list(range(100_000))
    assert not compiled.is_valid(value)
    assert [(p.pointer, p.keyword) for p in compiled.check(value)] == [("", "work")]


def test_recursive_alternatives_accept_a_deep_value() -> None:
    """A grammar of ten alternatives is ordinary and must work at any depth we accept."""
    compiled = compile_schema({"$ref": "#/$defs/e", "$defs": GRAMMAR})
    assert compiled.is_valid(tree(9))
    deep: Any = 1
    for _ in range(30):
        deep = {"op": 3, "args": [deep]}
    assert compiled.is_valid(deep)
    assert compiled.check({"op": 3, "args": [{"op": "x"}]}) != ()


def test_cycle_that_doubles_through_children_is_checked_within_bounds() -> None:
    """Security: 2**60 ways through the value, were they walked one by one."""
    compiled = compile_schema({"$ref": "#/$defs/d0", "$defs": through_children(8)})
    assert compiled.is_valid(nest(60))
    found = compiled.problems(nest(60))
    assert found == ()


def test_long_text_in_many_alternatives_is_still_explained() -> None:
    """A 4 MiB string is quoted by no one, and the problem beside it is found."""
    alternative = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "mode": {"type": "integer"}},
        "additionalProperties": False,
    }
    compiled = compile_schema({"oneOf": [alternative | {"required": [f"k{i}"]} for i in range(8)]})
    value = {"text": "x" * 4_000_000, "mode": "w"}
    assert ("/mode", "type") in [(p.pointer, p.keyword) for p in compiled.check(value)]


def test_value_with_very_many_members_gets_one_problem() -> None:
    """The reference engine never sees it."""
    compiled = compile_schema({"items": {"type": "integer"}})
    found = compiled.check([1] * 50_000 + ["a", "b"])
    assert [(p.pointer, p.message) for p in found] == [("/50000", "fails 'type', got \"a\"")]


def test_ordinary_schema_is_not_guarded_per_value() -> None:
    """The fast path has to stay fast: linear schemas skip the count."""
    ordinary = compile_schema(
        {"items": {"oneOf": [{"properties": {"k": {"const": i}}} for i in range(16)]}}
    )
    recursive = compile_schema({"properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}})
    multiplying = compile_schema({"allOf": [{"additionalProperties": {"$ref": "#"}}] * 2})
    assert [s._cost.is_linear for s in (ordinary, recursive, multiplying)] == [True, True, False]
