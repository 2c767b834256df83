"""Facts about subschemas that a projection rests on: null, and whether two can both hold."""

from __future__ import annotations

import json
from typing import Any

from ..schema.nodes import Node

__all__ = ["admits_null", "are_disjoint", "target_of", "type_of"]

_ALL = frozenset({"string", "number", "boolean", "null", "object", "array"})
_MAX_STEPS = 64


def target_of(node: Node) -> Node | None:
    """Return where the ``$ref`` of a subschema leads."""
    return next((edge.target for edge in node.edges if edge.keyword == "$ref"), None)


def _branches(node: Node, keyword: str) -> list[Node]:
    return [edge.target for edge in node.edges if edge.keyword == keyword]


def admits_null(node: Node, steps: int = _MAX_STEPS) -> bool:
    """Say whether ``null`` may fit a subschema; yes when that is hard to tell."""
    schema = node.schema
    if not isinstance(schema, dict) or steps == 0:
        return schema is not False
    target = target_of(node)
    if target is not None and not admits_null(target, steps - 1):
        return False
    if "null" not in _types(schema):
        return False
    for keyword in ("anyOf", "oneOf"):
        branches = _branches(node, keyword)
        if branches and not any(admits_null(branch, steps - 1) for branch in branches):
            return False
    return all(admits_null(branch, steps - 1) for branch in _branches(node, "allOf"))


def are_disjoint(first: Node, second: Node) -> bool:
    """Say whether no value can fit both; no when that is hard to tell."""
    one, other = _resolved(first), _resolved(second)
    if one is None or other is None:
        return False
    if not _types(one.schema) & _types(other.schema):
        return True
    mine, theirs = _values(one.schema), _values(other.schema)
    if mine is not None and theirs is not None and not mine & theirs:
        return True
    return _are_told_apart(one, other)


def _are_told_apart(one: Node, other: Node) -> bool:
    """Say whether both are objects that must have a property with different values."""
    if _types(one.schema) != {"object"} and _types(other.schema) != {"object"}:
        return False
    required = set(one.schema.get("required", ())) & set(other.schema.get("required", ()))
    mine = {e.key: e.target for e in one.edges if e.keyword == "properties"}
    theirs = {e.key: e.target for e in other.edges if e.keyword == "properties"}
    for name in required & set(mine) & set(theirs):
        left, right = _resolved(mine[name]), _resolved(theirs[name])
        if left is None or right is None:
            continue
        values, others = _values(left.schema), _values(right.schema)
        if values is not None and others is not None and not values & others:
            return True
    return False


def _resolved(node: Node) -> Node | None:
    for _ in range(_MAX_STEPS):
        if not isinstance(node.schema, dict):
            return None
        target = target_of(node)
        if target is None:
            return node
        node = target
    return None


def _types(schema: dict[str, Any]) -> frozenset[str]:
    named = schema.get("type")
    if named is None:
        values = _raw_values(schema)
        return _ALL if values is None else frozenset(type_of(value) for value in values)
    names = [named] if isinstance(named, str) else named
    found = frozenset("number" if name == "integer" else str(name) for name in names)
    values = _raw_values(schema)
    return found if values is None else found & {type_of(value) for value in values}


def _raw_values(schema: dict[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _values(schema: dict[str, Any]) -> frozenset[str] | None:
    values = _raw_values(schema)
    if values is None or any(isinstance(value, dict | list) for value in values):
        return None
    return frozenset(json.dumps(_number(value), sort_keys=True) for value in values)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def type_of(value: Any) -> str:
    """Return the JSON type of a value; ``number`` for an integer too."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
