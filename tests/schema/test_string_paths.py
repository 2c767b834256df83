"""Does a predicate's path lead to a string?"""

from __future__ import annotations

from typing import Any

import pytest

from raw_exec.schema import compile_schema, parse_path, resolve_string_path

TEXT = {"type": "string"}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def arr(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("files[*].path", ("files", None, "path")),
        ("m[*][*]", ("m", None, None)),
        ("a-b c.é", ("a-b c", "é")),
        ("", None), (".", None), ("a.", None), (".a", None), ("a..b", None), ("[*]", None),
        ("a[0]", None), ("a[*", None), ("a[*]b", None), ("a[ * ]", None), ("a]", None),
        ("a" * 1025, None),
    ],
)  # fmt: skip
def test_path_is_read_strictly(path: str, steps: tuple[str | None, ...] | None) -> None:
    """Names joined by dots, ``[*]`` per array step, nothing else."""
    assert parse_path(path) == steps


GOOD: list[tuple[str, Any, str]] = [
    ("property", obj(a=TEXT), "a"),
    ("nested", obj(a=obj(b=TEXT)), "a.b"),
    ("items", obj(files=arr(obj(path=TEXT))), "files[*].path"),
    ("items of items", obj(m=arr(arr(TEXT))), "m[*][*]"),
    ("prefix items", obj(a={"prefixItems": [TEXT, TEXT]}), "a[*]"),
    ("reference", {**obj(a={"$ref": "#/$defs/x"}), "$defs": {"x": TEXT}}, "a"),
    ("recursion", {**obj(next={"$ref": "#"}, name=TEXT)}, "next.next.name"),
    ("one branch", {"oneOf": [obj(a=TEXT), obj(b={"type": "integer"})]}, "a"),
    ("both branches", {"anyOf": [obj(a=TEXT), obj(a={"const": "x"})]}, "a"),
    ("allOf", obj(a={"allOf": [{"minLength": 1}, TEXT]}), "a"),
    ("then", {"if": {}, "then": obj(a=TEXT)}, "a"),
    ("enum of strings", obj(a={"enum": ["x", "y"]}), "a"),
    ("const", obj(a={"const": "x"}), "a"),
    ("nullable list", obj(a={"type": ["string", "null"]}), "a"),
    ("nullable branch", obj(a={"anyOf": [TEXT, {"type": "null"}]}), "a"),
    ("pattern property", {"patternProperties": {"^x-": TEXT}}, "x-a"),
    ("map", {"additionalProperties": TEXT}, "anything"),
    (
        "draft-07 items list",
        {"$schema": "http://json-schema.org/draft-07/schema#", **obj(a={"items": [TEXT]})},
        "a[*]",
    ),
]

BAD: list[tuple[str, Any, str, str]] = [
    ("undeclared", obj(a=TEXT), "b", "unknown"),
    ("undeclared in an open object", {**obj(a=TEXT), "additionalProperties": True}, "b", "unknown"),
    ("no array", obj(a=TEXT), "a[*]", "unknown"),
    ("array without step", obj(a=arr(obj(b=TEXT))), "a.b", "unknown"),
    ("under not", {"not": obj(a=TEXT)}, "a", "unknown"),
    ("under if", {"if": obj(a=TEXT), "then": {}}, "a", "unknown"),
    ("in contains", obj(a={"contains": TEXT}), "a[*]", "unknown"),
    ("malformed", obj(a=TEXT), "a[0]", "unknown"),
    ("boolean schema", True, "a", "unknown"),
    ("array itself", obj(a=arr(TEXT)), "a", "not_string"),
    ("number", obj(a={"type": "integer"}), "a", "not_string"),
    ("untyped", obj(a={"minLength": 1}), "a", "not_string"),
    ("anything", obj(a=True), "a", "not_string"),
    ("null only", obj(a={"type": "null"}), "a", "not_string"),
    ("string or array", obj(a={"type": ["string", "array"]}), "a", "not_string"),
    ("string or array by branch", obj(a={"anyOf": [TEXT, arr(TEXT)]}), "a", "not_string"),
    ("mixed enum", obj(a={"enum": ["x", 1]}), "a", "not_string"),
    ("other branch is a number", {"oneOf": [obj(a=TEXT), obj(a={"type": "number"})]}, "a",
     "not_string"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "path"), [c[1:] for c in GOOD], ids=[c[0] for c in GOOD])
def test_path_to_a_string_resolves(schema: Any, path: str) -> None:
    """Through references, branches, items and maps."""
    assert resolve_string_path(compile_schema(schema), path) is None


@pytest.mark.parametrize(("schema", "path", "kind"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_path_that_could_silently_never_match_is_a_problem(
    schema: Any, path: str, kind: str
) -> None:
    """Security: a rule on such a path would allow what it should ask about."""
    problem = resolve_string_path(compile_schema(schema), path)
    assert problem is not None
    assert problem.kind == kind
    assert path.partition("[")[0] in str(problem)
