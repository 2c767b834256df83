"""Verdicts, problems, and the text that a language model is shown."""

from __future__ import annotations

from typing import Any

import pytest

from raw_exec.schema import SchemaProblem, compile_schema
from raw_exec.schema.engines import FastEngine, SearchBudget
from raw_exec.schema.problems import MAX_PREVIEW_CHARACTERS, preview
from raw_exec.values import freeze

OPERATIONS = {
    "type": "object",
    "properties": {
        "operations": {
            "type": "array",
            "items": {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {
                            "operation": {"const": name},
                            "path": {"type": "string", "minLength": 1},
                        },
                        "required": ["operation", "path"],
                        "additionalProperties": False,
                    }
                    for name in ("append", "delete", "overwrite")
                ]
            },
        }
    },
    "required": ["operations"],
    "additionalProperties": False,
}


def problems(schema: Any, value: Any) -> list[tuple[str, str, str, str]]:
    compiled = compile_schema(schema)
    found = compiled.check(value)
    assert compiled.disagreements == 0
    return [(p.pointer, p.keyword, p.expected, p.got) for p in found]


@pytest.mark.parametrize(
    ("schema", "value", "valid"),
    [
        ({"type": "integer"}, 1.0, True),
        ({"type": "integer"}, 1.5, False),
        ({"type": "integer"}, True, False),
        ({"type": "integer"}, 1e300, True),
        ({"type": "number"}, False, False),
        ({"type": "boolean"}, 1, False),
        ({"const": 1}, 1.0, True),
        ({"const": 1}, True, False),
        ({"const": [0]}, [False], False),
        ({"const": {"a": 1}}, {"a": 1.0}, True),
        ({"const": -0.0}, 0, True),
        ({"enum": [0, "0"]}, False, False),
        ({"uniqueItems": True}, [1, True, 0, False], True),
        ({"uniqueItems": True}, [1, 1.0], False),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
        ({"multipleOf": 0.1}, 0.3, True),
        ({"multipleOf": 0.01}, 19.99, True),
        ({"multipleOf": 0.01}, 19.995, False),
        ({"multipleOf": 0.123456789}, 1e308, False),
        ({"maximum": 2**53 - 1}, 2**53 - 1, True),
        ({"exclusiveMaximum": 2**53 - 1}, 2**53 - 1, False),
        ({"maxLength": 1}, "😀", True),
        ({"minLength": 2}, "😀", False),
    ],
)
def test_numbers_and_equality_follow_the_specification(
    schema: Any, value: Any, valid: bool
) -> None:
    """Contract-mandated: 1.0 is an integer, true is not 1, decimals are exact."""
    compiled = compile_schema(schema)
    assert (compiled.is_valid(value), compiled.problems(value) == ()) == (valid, valid)


def test_frozen_values_are_checked_like_plain_ones() -> None:
    """Arguments arrive frozen."""
    good = {"operations": [{"operation": "append", "path": "a"}]}
    compiled = compile_schema(OPERATIONS)
    assert compiled.check(freeze(good)) == ()
    assert compiled.check(freeze({**good, "x": 1})) == compiled.check({**good, "x": 1}) != ()


def test_every_problem_has_its_own_pointer() -> None:
    """All problems, not the first one (``invalid_arguments``)."""
    schema = {
        "type": "object",
        "properties": {"a/b": {"type": "string"}, "n": {"type": "array", "items": {"minimum": 3}}},
        "required": ["a/b", "c", "d"],
        "additionalProperties": False,
    }
    assert problems(schema, {"a/b": 1, "n": [3, 2], "z": None, "c": 0}) == [
        ("/a~1b", "type", "string", "integer 1"),
        ("/n/1", "minimum", "a number of at least 3", "integer 2"),
        (
            "", "required", "property 'd'",
            'object with 4 properties: "a/b", "n", "z", "c"',
        ),
        (
            "/z", "additionalProperties", "nothing here (not declared by the schema)", "null",
        ),
        (
            "/c", "additionalProperties", "nothing here (not declared by the schema)", "integer 0",
        ),
    ]  # fmt: skip


def test_alternatives_show_the_nearest_branch() -> None:
    """A discriminator that fits decides which branch is explained."""
    value = {"operations": [{"operation": "delete", "path": "", "extra": 1}]}
    assert problems(OPERATIONS, value) == [
        ("/operations/0/path", "minLength", "at least 1 characters", 'string ""'),
        (
            "/operations/0/extra",
            "additionalProperties",
            "nothing here (not declared by the schema)",
            "integer 1",
        ),
    ]


def test_alternatives_with_an_unknown_discriminator_list_the_known_ones() -> None:
    """One problem, not one per branch."""
    value = {"operations": [{"operation": "rename", "path": "a"}]}
    assert problems(OPERATIONS, value) == [
        (
            "/operations/0/operation",
            "enum",
            'one of "append", "delete", "overwrite"',
            'string "rename"',
        )
    ]


def test_alternatives_of_the_wrong_type_list_the_types() -> None:
    """``string or integer``, once."""
    schema = {"anyOf": [{"type": "string"}, {"type": ["integer", "null"]}]}
    assert problems(schema, []) == [("", "type", "string or integer or null", "[]")]


def test_value_that_matches_two_of_one_is_one_problem() -> None:
    """``oneOf`` can also fail by matching too much."""
    schema = {"oneOf": [{"type": "integer"}, {"minimum": 2}]}
    assert problems(schema, 3) == [
        ("", "oneOf", "a value that matches exactly one of the alternatives", "integer 3")
    ]


def test_alternatives_that_are_all_closed_are_one_problem() -> None:
    """A branch may be ``false``, which leaves no trace in the error's path."""
    assert problems({"anyOf": [False, False]}, 3) == [
        ("", "", "nothing here (not declared by the schema)", "integer 3")
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ('a\n"b', '"a\\n\\"b"'),
        ([], "[]"),
        ({}, "{}"),
        ([1, 2], "array of 2 items"),
        ({"a": 1}, 'object with 1 properties: "a"'),
        (1.5, "1.5"),
    ],
)
def test_preview_shows_small_values_as_they_are(value: Any, text: str) -> None:
    """The model should recognise what it sent."""
    assert preview(value) == text


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, "\n" * 10**6, "\\" * 500, "😀" * 500, {"k" * 999: 1, "l" * 99: 2}, [0] * 10**6],
)
def test_preview_of_anything_is_bounded(value: Any) -> None:
    """At most 120 characters, whatever is in it."""
    assert len(preview(value)) <= MAX_PREVIEW_CHARACTERS
    assert len(problems({"not": {}}, value)[0][3]) <= MAX_PREVIEW_CHARACTERS


def test_explanation_has_a_line_per_problem() -> None:
    """Pointer, what is expected, what is there."""
    compiled = compile_schema(OPERATIONS)
    assert compiled.explain({"operations": 1, "x": "y"}) == (
        "/operations: expected array, got integer 1\n"
        '/x: expected nothing here (not declared by the schema), got string "y"'
    )
    assert compiled.explain({"operations": []}) == ""


def test_explanation_is_bounded_and_says_how_much_is_left_out() -> None:
    """Bytes, not characters; the mark fits too."""
    compiled = compile_schema({"items": {"type": "string"}})
    text = compiled.explain(list(range(50)), max_bytes=200)
    assert text.splitlines()[-1] == "… and 45 more problems"
    assert len(text.splitlines()) == 6
    assert len(text.encode()) <= 200
    many = compiled.explain(list(range(500)), max_bytes=200)
    assert many.splitlines()[-1] == "… and 59+ more problems"
    for size in range(120):
        assert len(compiled.explain(["é", *range(50)], max_bytes=size).encode()) <= size


def test_number_of_problems_is_bounded() -> None:
    """A million wrong items are not a million problems."""
    compiled = compile_schema({"items": {"type": "string"}})
    assert len(compiled.check(list(range(5000)))) == 64
    assert len(compiled.check(list(range(5000)), limit=7)) == 7


def test_reference_decides_when_the_engines_differ_and_it_is_counted() -> None:
    """Failing on purpose: the fast engine is replaced by one that refuses everything."""
    compiled = compile_schema({"type": "string"})

    class Wrong:
        def is_valid(self, _value: object) -> bool:
            return False

    compiled._fast_engine = FastEngine(Wrong(), SearchBudget())
    assert compiled.check("a") == ()
    assert compiled.disagreements == 1
    assert compiled.check(1) == (
        SchemaProblem("", "expected string, got integer 1", "type", "string", "integer 1"),
    )
    assert compiled.disagreements == 1


def test_value_at_the_depth_limit_is_checked_and_explained() -> None:
    """``freeze`` allows 64 levels; both engines must get to the bottom of them."""
    compiled = compile_schema({"type": ["array", "integer"], "items": {"$ref": "#"}})
    good: Any = 1
    bad: Any = "x"
    for _ in range(64):
        good, bad = [good], [bad]
    assert compiled.check(freeze(good)) == ()
    assert [p.pointer for p in compiled.check(freeze(bad))] == ["/0" * 64]


def test_value_deeper_than_the_reference_goes_still_gets_a_problem() -> None:
    """Many references per level exhaust the interpreter's stack, not the fast engine's."""
    definitions: dict[str, Any] = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(20)}
    definitions["d20"] = {"type": ["array", "integer"], "items": {"$ref": "#/$defs/d0"}}
    compiled = compile_schema({"$ref": "#/$defs/d0", "$defs": definitions})
    bad: Any = "x"
    for _ in range(64):
        bad = [bad]
    assert [(p.pointer, p.keyword) for p in compiled.check(bad)] == [("/0" * 64, "type")]
