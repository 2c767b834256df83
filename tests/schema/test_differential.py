"""Random schemas and values: the two engines never differ."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raw_exec.errors import SchemaError
from raw_exec.schema import compile_schema

_NAMES = st.sampled_from(["a", "b", "c", "é"])
_SCALARS = st.sampled_from(
    [None, True, False, 0, 1, 2, -1, 1.0, 3.0, 0.5, 0.3, 19.99, -0.0, 1e22, 1e-7, 2**53 - 1,
     "", "a", "ab", "abc", "é", "😀x"]
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_TYPES = st.sampled_from(["string", "integer", "number", "object", "array", "null", "boolean"])
_SMALL = st.integers(0, 3)
_PATTERNS = st.sampled_from(["a", "^a", "b$", "^[a-b]*$", "\\d", "^.$", "é"])


def _keywords(sub: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    some = st.lists(sub, min_size=1, max_size=3)
    optional: dict[str, st.SearchStrategy[Any]] = {
        "type": _TYPES | st.lists(_TYPES, min_size=1, max_size=2, unique=True),
        "enum": st.lists(_VALUES, min_size=1, max_size=3),
        "const": _VALUES,
        "multipleOf": st.sampled_from([1, 2, 0.5, 0.1, 0.01, 1e-7, 1.5]),
        "maximum": st.sampled_from([0, 1, 2.5]),
        "exclusiveMinimum": st.sampled_from([0, 1, -1.5]),
        "maxLength": _SMALL, "minLength": _SMALL, "maxItems": _SMALL, "minItems": _SMALL,
        "maxProperties": _SMALL, "minProperties": _SMALL, "minContains": _SMALL,
        "maxContains": _SMALL,
        "pattern": _PATTERNS | st.sampled_from(["(?i)A", "\\bx", "^\\pL"]),
        "uniqueItems": st.booleans(),
        "required": st.lists(_NAMES, max_size=2, unique=True),
        "dependentRequired": st.dictionaries(_NAMES, st.lists(_NAMES, max_size=1), max_size=1),
        "allOf": some, "anyOf": some, "oneOf": some, "prefixItems": some,
        "properties": st.dictionaries(_NAMES, sub, max_size=2),
        "patternProperties": st.dictionaries(_PATTERNS, sub, max_size=1),
        "dependentSchemas": st.dictionaries(_NAMES, sub, max_size=1),
        "$ref": st.sampled_from(["#/$defs/x", "#/$defs/y"]),
        **dict.fromkeys(
            ("not", "if", "then", "else", "additionalProperties", "propertyNames", "items",
             "contains", "unevaluatedItems", "unevaluatedProperties"),
            sub,
        ),
    }  # fmt: skip
    return st.lists(st.sampled_from(list(optional)), max_size=4, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: optional[name] for name in names})
    )


_SCHEMAS = st.recursive(st.booleans() | st.just({}), _keywords, max_leaves=8)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    schema=_SCHEMAS.filter(lambda s: isinstance(s, dict)),
    definitions=st.fixed_dictionaries({"x": _SCHEMAS, "y": _SCHEMAS}),
    values=st.lists(_VALUES, min_size=3, max_size=8),
)
def test_both_engines_give_one_verdict(
    schema: dict[str, Any], definitions: dict[str, Any], values: list[Any]
) -> None:
    """The fast engine accepts on its own, so it must accept exactly what the reference does."""
    try:
        compiled = compile_schema({**schema, "$defs": definitions})
    except SchemaError:
        return
    for value in values:
        assert compiled.is_valid(value) is (compiled.problems(value) == ()), (schema, value)
    assert compiled.disagreements == 0


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    document=_VALUES
    | _SCHEMAS
    | st.dictionaries(
        st.sampled_from(
            ["$ref", "$id", "$anchor", "$schema", "pattern", "properties", "items", "$defs", "type"]
        ),
        _VALUES | _SCHEMAS,
    )
)
def test_any_document_compiles_or_is_refused(document: Any) -> None:
    """Fuzz rule: accepted, or the one documented error."""
    problems: tuple[Any, ...] = ()
    try:
        compile_schema(document)
    except SchemaError as exc:
        problems = exc.problems or (None,)
    assert all(getattr(problem, "rule", "") for problem in problems)
