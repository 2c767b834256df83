"""``unevaluatedItems`` and ``unevaluatedProperties`` for the reference engine.

Which members count as evaluated is worked out per subschema that applies to the same
value and accepts it. Patterns are RE2's, and sets are used where the library keeps
lists, so an array of n items costs n and not n².
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import ValidationError

from .steps import metered_search

__all__ = ["unevaluated_items", "unevaluated_properties"]


def unevaluated_properties(
    validator: Any, subschema: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    """Check the members of an object that no other keyword has looked at."""
    if not isinstance(instance, dict):
        return
    evaluated = _evaluated_names(validator, instance, schema, own=False)
    for name, value in instance.items():
        if name in evaluated:
            continue
        if subschema is False:
            yield ValidationError("is not declared", path=(name,), instance=value)
        else:
            yield from validator.descend(value, subschema, path=name)


def unevaluated_items(
    validator: Any, subschema: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    """Check the items of an array that no other keyword has looked at."""
    if not isinstance(instance, list):
        return
    evaluated = _evaluated_indexes(validator, instance, schema, own=False)
    for index, value in enumerate(instance):
        if index in evaluated:
            continue
        if subschema is False:
            yield ValidationError("is not declared", path=(index,), instance=value)
        else:
            yield from validator.descend(value, subschema, path=index)


def _accepts(validator: Any, instance: Any, schema: Any) -> bool:
    return next(iter(validator.descend(instance, schema)), None) is None


def _applied(validator: Any, instance: Any, schema: Any) -> Iterator[tuple[Any, Any]]:
    """Yield ``(validator, subschema)`` of what applies to the same value and accepts it."""
    if "$ref" in schema:
        resolved = validator._resolver.lookup(schema["$ref"])
        yield (
            validator.evolve(schema=resolved.contents, _resolver=resolved.resolver),
            resolved.contents,
        )
    for keyword in ("allOf", "anyOf", "oneOf"):
        for subschema in schema.get(keyword, ()):
            if _accepts(validator, instance, subschema):
                yield validator, subschema
    if "if" in schema:
        if _accepts(validator, instance, schema["if"]):
            yield validator, schema["if"]
            if "then" in schema:
                yield validator, schema["then"]
        elif "else" in schema:
            yield validator, schema["else"]
    if isinstance(instance, dict):
        for name, subschema in schema.get("dependentSchemas", {}).items():
            if name in instance:
                yield validator, subschema


def _evaluated_names(
    validator: Any, instance: dict[str, Any], schema: Any, *, own: bool = True
) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    if "additionalProperties" in schema or (own and "unevaluatedProperties" in schema):
        return set(instance)
    names = {name for name in schema.get("properties", ()) if name in instance}
    for pattern in schema.get("patternProperties", ()):
        names.update(name for name in instance if metered_search(pattern, name))
    for inner, subschema in _applied(validator, instance, schema):
        names |= _evaluated_names(inner, instance, subschema)
    return names


def _evaluated_indexes(
    validator: Any, instance: list[Any], schema: Any, *, own: bool = True
) -> set[int]:
    if not isinstance(schema, dict):
        return set()
    if "items" in schema or (own and "unevaluatedItems" in schema):
        return set(range(len(instance)))
    indexes = set(range(min(len(schema.get("prefixItems", ())), len(instance))))
    if "contains" in schema:
        indexes.update(
            index
            for index, value in enumerate(instance)
            if _accepts(validator, value, schema["contains"])
        )
    for inner, subschema in _applied(validator, instance, schema):
        indexes |= _evaluated_indexes(inner, instance, subschema)
    return indexes
