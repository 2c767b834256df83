"""Random schemas, good and bad, for the tests of the subset and of what is built on it."""

from __future__ import annotations

import random
from typing import Any

NAMES = ("a", "b", "kind", "a/b", "m~n", "class", "with-dash", "list", "é", "", "1st", "$ref")
_TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")
_ODD: tuple[Any, ...] = (None, True, False, 0, -1, 1.5, "x", "", [], {}, ["a"], {"type": "string"})
_SCALARS: tuple[Any, ...] = ("x", "y", "", 1, 2, 1.0, 1.5, -3, True, False)
_HARMLESS: dict[str, Any] = {
    "title": "T",
    "description": "D",
    "default": {"$ref": "x"},
    "$comment": "c",
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://example.com/x",
    "examples": [{"not": 1}],
    "format": "uri",
    "deprecated": True,
    "x-more": {"allOf": []},
    "definitions": {"d": {"$ref": "x"}},
    "minLength": 1,
    "maxLength": 4,
    "pattern": "^[a-z]+$",
    "minimum": 0,
    "maximum": 9,
    "multipleOf": 2,
    "minItems": 1,
    "uniqueItems": True,
    "maxProperties": 3,
    "const": "x",
    "readOnly": True,
    "contentEncoding": "base64",
}


def random_schema(rng: random.Random, depth: int = 3) -> Any:
    """Return a schema that breaks the subset in about two of three cases."""
    schema: dict[str, Any] = {}
    for _ in range(rng.randrange(1, 5)):
        keyword, value = _entry(rng, depth)
        schema[keyword] = value
    if rng.random() < 0.6:
        schema["type"] = rng.choice(_TYPES)
    return schema


def _entry(rng: random.Random, depth: int) -> tuple[str, Any]:
    inner = (lambda: random_schema(rng, depth - 1)) if depth else (lambda: {"type": "string"})
    roll = rng.random()
    if roll < 0.08:
        keyword = rng.choice(
            ("$ref", "$defs", "allOf", "not", "if", "then", "else", "patternProperties")
        )
        return keyword, rng.choice((inner(), rng.choice(_ODD)))
    if roll < 0.12:
        keyword = rng.choice(
            ("$dynamicRef", "prefixItems", "contains", "propertyNames", "unevaluatedItems")
        )
        return keyword, rng.choice(_ODD)
    if roll < 0.2:
        odd = ("type", "items", "properties", "required", "enum", "anyOf", "oneOf", "pattern")
        return rng.choice((*odd, "additionalProperties", "minLength", "maximum", "const")), (
            rng.choice(_ODD)
        )
    if roll < 0.5:
        names = rng.sample(NAMES, rng.randrange(0, 4))
        return "properties", {
            name: rng.choice(_ODD) if rng.random() < 0.04 else inner() for name in names
        }
    if roll < 0.58:
        return "required", [rng.choice(("a", "b", "kind", 3)) for _ in range(rng.randrange(3))]
    if roll < 0.66:
        kinds = [_SCALARS, ("x", "y"), (1, 1.5), (True,), (None,), ({}, "x")]
        return "enum", [rng.choice(rng.choice(kinds)) for _ in range(rng.randrange(3))]
    if roll < 0.76:
        branches = [inner() for _ in range(rng.randrange(1, 3))]
        if rng.random() < 0.1:
            branches.append(rng.choice(_ODD))
        return rng.choice(("anyOf", "oneOf")), branches
    if roll < 0.84:
        return "items", inner()
    if roll < 0.88:
        return "additionalProperties", rng.choice((True, False))
    return rng.choice(list(_HARMLESS.items()))
