"""Random schemas inside the subset, and values that nearly fit them."""

from __future__ import annotations

import random
from typing import Any

PATTERNS = (
    "^[a-c]+$",
    "b",
    "^\\d{2,3}$",
    "[^\\s]$",
    "^(a|b){2}$",
    "^.$",
    "a.c",
    "^\\w[\\w.-]*$",
    "x*",
    "^$",
    "[#&~^-]",
    "\\x61",
    "é|😀",
    "^[^a]\\S?",
)
STRINGS = (
    "", "a", "b", "ab", "abc", "12", "123", "a\nc", "a\n", "é", "😀", "e\u0301", "x-y", "~",
    "^", "\u2028", "\u00a0", "\u0663", " ", "aa", "b.c",
)  # fmt: skip
NUMBERS = (0, 1, 2, 3, -1, 1.0, 1.5, 0.1, 0.3, 0.7, 7, 1e3, 1e-7, -2.5, 2**53 - 1, -0.0)
NAMES = ("a", "b", "c", "class", "with-dash", "list", "constructor", "model_config", "")


def random_subset_schema(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    """Return a schema that uses any keyword which bindings enforce."""
    schema: dict[str, Any] = {}
    kind = rng.choice(
        ("string", "integer", "number", "boolean", "null", "array", "object", "object", None)
    )
    if kind is not None:
        schema["type"] = kind
    if kind in ("string", None) and rng.random() < 0.6:
        schema |= _some(
            rng,
            minLength=rng.randrange(3),
            maxLength=rng.randrange(4),
            pattern=rng.choice(PATTERNS),
        )
    if kind in ("integer", "number", None) and rng.random() < 0.6:
        schema |= _some(
            rng,
            minimum=rng.choice((0, 1, -1.5)),
            maximum=rng.choice((2, 3.5)),
            exclusiveMinimum=rng.choice((0, 1)),
            exclusiveMaximum=rng.choice((3, 7)),
            multipleOf=rng.choice((1, 2, 0.1, 0.5, 1.5)),
        )
    if kind in ("array", None) and depth and rng.random() < 0.7:
        schema |= _some(
            rng,
            items=random_subset_schema(rng, depth - 1),
            minItems=rng.randrange(3),
            maxItems=rng.randrange(4),
            uniqueItems=rng.random() < 0.8,
        )
    if kind in ("object", None) and depth and rng.random() < 0.8:
        schema |= random_object(rng, depth)
    if rng.random() < 0.15:
        scalars: list[Any] = [list(STRINGS), list(NUMBERS), [True, False]]
        pool = [one for one in rng.choice(scalars) if _is_of(one, kind)]
        if pool:
            schema["enum"] = rng.sample(pool, min(len(pool), rng.randrange(1, 4)))
    if rng.random() < 0.08:
        pool = [one for one in (*STRINGS, *NUMBERS, True, None) if _is_of(one, kind)]
        if pool:
            schema["const"] = rng.choice(pool)
    for keyword in ("anyOf", "oneOf"):
        if depth and rng.random() < 0.15:
            schema[keyword] = [
                random_subset_schema(rng, depth - 1) for _ in range(rng.randrange(1, 4))
            ]
    return schema


def random_object(rng: random.Random, depth: int) -> dict[str, Any]:
    """Return the keywords of an object schema, without its type."""
    names = rng.sample(NAMES, rng.randrange(4))
    schema = _some(
        rng,
        minProperties=rng.randrange(3),
        maxProperties=rng.randrange(4),
        additionalProperties=rng.random() < 0.5,
    )
    schema["properties"] = {name: random_subset_schema(rng, depth - 1) for name in names}
    schema["required"] = [name for name in names if rng.random() < 0.3]
    return schema


def _some(rng: random.Random, **entries: Any) -> dict[str, Any]:
    return {key: value for key, value in entries.items() if rng.random() < 0.35}


def _is_of(value: Any, kind: str | None) -> bool:
    if kind is None:
        return True
    names = {bool: "boolean", str: "string", type(None): "null"}
    if type(value) in names:
        return names[type(value)] == kind
    return kind == "number" or (kind == "integer" and float(value).is_integer())


def random_value(rng: random.Random, schema: dict[str, Any], depth: int = 4) -> Any:
    """Return a value that fits a schema in about every other case."""
    if rng.random() < 0.07 or depth == 0:
        return rng.choice((*STRINGS[:6], *NUMBERS[:6], True, None, [], {}, ["a"], {"a": 1}))
    for keyword in ("const", "enum", "anyOf", "oneOf"):
        if keyword in schema and rng.random() < 0.75:
            if keyword == "const":
                return schema["const"]
            chosen = rng.choice(schema[keyword])
            if keyword == "enum":
                return chosen
            value = random_value(rng, chosen, depth - 1)
            if isinstance(value, dict) and "properties" in schema:
                own = random_value(rng, {**schema, keyword: [{"type": "object"}]}, 2)
                value = own | value if isinstance(own, dict) else value
            return value
    kind = schema.get("type") or rng.choice(("string", "number", "array", "object", "null"))
    if kind == "string":
        return rng.choice(STRINGS)
    if kind in ("integer", "number"):
        return rng.choice(NUMBERS)
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "null":
        return None
    if kind == "array":
        items = schema.get("items", {})
        return [random_value(rng, items, depth - 1) for _ in range(rng.randrange(4))]
    value = {}
    for name, inner in schema.get("properties", {}).items():
        if name in schema.get("required", ()) or rng.random() < 0.6:
            value[name] = random_value(rng, inner, depth - 1)
    if rng.random() < 0.2:
        value[rng.choice(("extra", "toString", "a"))] = rng.choice((1, "x", None))
    return value
