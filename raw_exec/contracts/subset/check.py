"""Walk a schema and name every place that the generators can not express.

Order of problems: document order of the places, and within one schema the order of the rules
below. A keyword that is refused as a whole is not looked into. The pointer names the schema
that holds the keyword, or the value itself when it is the value that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from ...errors import Problem as AnyProblem
from ...jsontext import JsonTextError, parse
from ...values import escape_pointer
from ..errors import Invalid
from .keywords import is_number, value_problems
from .problem import SubsetProblem as Problem

__all__ = ["Role", "check_subset", "find_subset_problems", "format_problems", "parse_schema"]

Role = Literal["input", "output"]

MAX_SCHEMA_BYTES: Final = 4 * 1024 * 1024
MAX_DEPTH: Final = 64
MAX_VALUES: Final = 20_000

_REFUSED: Final = {
    "$ref": "references are not followed; put the referenced schema here",
    "$defs": "definitions are only good for references, which are not followed; "
    "put each where it is used",
    "allOf": "'allOf' is not merged; write one schema that says all of it",
    "not": "'not' leaves no type to generate; describe what is allowed",
    "if": "conditions are not generated; use 'oneOf' with a branch for each case",
    "then": "conditions are not generated; use 'oneOf' with a branch for each case",
    "else": "conditions are not generated; use 'oneOf' with a branch for each case",
    "patternProperties": "a pattern for names gives no names to generate; list the properties",
}
_REFERENCES: Final = ("$dynamicRef", "$recursiveRef")
_UNENFORCED: Final = (
    "prefixItems",
    "contains",
    "minContains",
    "maxContains",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "unevaluatedItems",
)
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})


def parse_schema(text: bytes | str, *, where: str | None = None) -> dict[str, Any]:
    """Return the JSON object in a text.

    Raises:
        Invalid: ``schema_not_json``, with line and column in ``problems``.
    """
    try:
        value = parse(text, max_bytes=MAX_SCHEMA_BYTES, max_depth=MAX_DEPTH * 2, where=where)
    except JsonTextError as exc:
        raise Invalid(
            "schema_not_json",
            f"the schema is not JSON: {exc}",
            hint="fix it",
            problems=exc.problems,
        ) from exc
    if not isinstance(value, dict):
        raise Invalid("schema_not_json", "the schema is not a JSON object", hint="write { … }")
    return value


def check_subset(schema: object, *, role: Role = "input") -> None:
    """Raise when a schema is outside the subset.

    Raises:
        Invalid: ``schema_outside_subset``, with every problem.
    """
    problems = find_subset_problems(schema, role=role)
    if problems:
        raise Invalid("schema_outside_subset", format_problems(problems), problems=problems)


def format_problems(problems: Sequence[AnyProblem]) -> str:
    """Return a headline and a line per problem; the root is shown as ``/``."""
    count = f"{len(problems)} schema issue{'' if len(problems) == 1 else 's'}"
    lines = [f"  {problem.pointer or '/'}: {problem.message}" for problem in problems]
    return "\n".join([f"{count}; nothing was sent:", *lines])


def find_subset_problems(schema: object, *, role: Role = "input") -> tuple[Problem, ...]:
    """Return every place of a schema that bindings can not be generated from.

    Args:
        schema: The schema as JSON data.
        role: An input schema must have an object at its root; an output schema may be
            anything.
    """
    if not isinstance(schema, Mapping):
        return (Problem("", "a schema must be a JSON object"),)
    too_big = _size_problem(schema)
    if too_big is not None:
        return (too_big,)
    found: list[Problem] = []
    if role == "input" and schema.get("type") != "object":
        found.append(
            Problem(
                "",
                'an input schema needs "type": "object" at its root: providers take nothing '
                "else as a tool's arguments",
            )
        )
    found += _walk(schema, "")
    return tuple(found)


def _size_problem(schema: Mapping[str, Any]) -> Problem | None:
    count = 0
    pending: list[tuple[Any, str, int]] = [(schema, "", 0)]
    while pending:
        value, pointer, depth = pending.pop()
        count += 1
        if depth > MAX_DEPTH:
            return Problem(pointer, f"is nested deeper than {MAX_DEPTH} levels", rule="size")
        if count > MAX_VALUES:
            return Problem("", f"has more than {MAX_VALUES} values", rule="size")
        if isinstance(value, Mapping):
            for key, item in value.items():
                pending.append((item, f"{pointer}/{escape_pointer(str(key))}", depth + 1))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                pending.append((item, f"{pointer}/{index}", depth + 1))
    return None


def _walk(schema: Mapping[str, Any], at: str) -> Iterator[Problem]:
    for keyword, message in _REFUSED.items():
        if keyword in schema:
            yield Problem(at, message)
    for keyword in _REFERENCES:
        if keyword in schema:
            yield Problem(
                at,
                f"{keyword!r} is a reference, and references are not followed",
                rule="reference_keyword",
            )
    for keyword in _UNENFORCED:
        if keyword in schema:
            yield Problem(
                at,
                f"{keyword!r} is not checked by generated bindings; leave it out, and let the "
                "implementation refuse such arguments",
                rule="unenforced_keyword",
            )
    yield from _type(schema, at)
    for keyword, check in _VALUES.items():
        if keyword in schema:
            yield from check(schema, at)
    yield from value_problems(schema, at)


def _type(schema: Mapping[str, Any], at: str) -> Iterator[Problem]:
    named = schema.get("type", "object")
    if isinstance(named, list):
        yield Problem(at, "'type' is a list; use 'anyOf' with a schema for each type")
    elif not isinstance(named, str):
        yield Problem(at, "'type' must be a string")
    elif named not in _TYPES:
        yield Problem(at, f"there is no type {named!r:.80}; use one of {', '.join(sorted(_TYPES))}")


def _additional(schema: Mapping[str, Any], at: str) -> Iterator[Problem]:
    if not isinstance(schema["additionalProperties"], bool):
        yield Problem(
            f"{at}/additionalProperties",
            "a schema for further properties is not generated; use true or false, or list the "
            "properties",
        )


def _items(schema: Mapping[str, Any], at: str) -> Iterator[Problem]:
    items = schema["items"]
    if isinstance(items, list):
        yield Problem(f"{at}/items", "a tuple is not generated; use one schema for all items")
    elif not isinstance(items, Mapping):
        yield Problem(f"{at}/items", "'items' must be a schema object")
    else:
        yield from _walk(items, f"{at}/items")


def _properties(schema: Mapping[str, Any], at: str) -> Iterator[Problem]:
    properties = schema["properties"]
    if not isinstance(properties, Mapping):
        yield Problem(f"{at}/properties", "'properties' must be an object")
        return
    for name, inner in properties.items():
        place = f"{at}/properties/{escape_pointer(name)}"
        if name == "__proto__" or any("\ud800" <= char <= "\udfff" for char in name):
            yield Problem(
                place,
                "no JavaScript object can carry a property of this name",
                rule="property_name",
            )
        if isinstance(inner, Mapping):
            yield from _walk(inner, place)
        else:
            yield Problem(place, "a property must be a schema object")


def _required(schema: Mapping[str, Any], at: str) -> Iterator[Problem]:
    required = schema["required"]
    if not isinstance(required, list):
        yield Problem(f"{at}/required", "'required' must be a list of property names")
        return
    properties = schema.get("properties")
    declared = properties if isinstance(properties, Mapping) else {}
    for name in required:
        if not isinstance(name, str):
            yield Problem(f"{at}/required", "'required' must list strings only")
        elif name not in declared:
            yield Problem(f"{at}/required", f"{name!r:.80} is required, but not in 'properties'")


def _enum(schema: Mapping[str, Any], at: str) -> Iterator[Problem]:
    values = schema["enum"]
    place = f"{at}/enum"
    if not isinstance(values, list):
        yield Problem(place, "'enum' must be a list")
        return
    if not values:
        yield Problem(place, "'enum' must list at least one value")
        return
    kinds = {_scalar_kind(value) for value in values}
    if None in kinds:
        yield Problem(place, "'enum' may list strings, numbers and booleans only")
    elif len(kinds) > 1:
        yield Problem(place, "the values of an 'enum' must be of one type")


def _scalar_kind(value: object) -> str | None:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "number" if is_number(value) else None


def _branches(keyword: str) -> Callable[[Mapping[str, Any], str], Iterator[Problem]]:
    def check(schema: Mapping[str, Any], at: str) -> Iterator[Problem]:
        branches = schema[keyword]
        if not isinstance(branches, list):
            yield Problem(f"{at}/{keyword}", f"{keyword!r} must be a list of schemas")
            return
        if not branches:
            yield Problem(
                f"{at}/{keyword}", f"{keyword!r} needs at least one branch", rule="empty_branches"
            )
        for index, branch in enumerate(branches):
            place = f"{at}/{keyword}/{index}"
            if isinstance(branch, Mapping):
                yield from _walk(branch, place)
            else:
                yield Problem(place, "a branch must be a schema object")

    return check


_VALUES: Final[dict[str, Callable[[Mapping[str, Any], str], Iterator[Problem]]]] = {
    "additionalProperties": _additional,
    "items": _items,
    "enum": _enum,
    "properties": _properties,
    "required": _required,
    "oneOf": _branches("oneOf"),
    "anyOf": _branches("anyOf"),
}
