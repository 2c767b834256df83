"""Schemas of the subset as shapes: what both generators emit from, with JSON Schema's meaning.

A schema says several things at once, and each only about values of one type. A shape takes
them apart:

- ``kind`` and ``values`` say what a value may be, and become its type.
- ``limits`` and ``extra`` restrict values of that kind.
- ``any_of`` and ``one_of`` restrict further; without a kind of their own they are the type.
- ``conditions`` are what a schema without ``type`` says about single types: a string may be
  anything else, but if it is a string, then it has these limits.

A branch without ``type`` takes the kind of the schema around it, whose values are the only ones
that it will ever see. Annotations (``title``, ``default``, ``format``…) restrict nothing;
``default`` is not filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from ..subset.keywords import COUNTS, NUMBERS, matches_type

__all__ = ["Extra", "Field", "Kind", "Scalar", "Shape", "build_shape"]

Kind = Literal["any", "string", "integer", "number", "boolean", "null", "array", "object"]
Extra = Literal["strip", "keep", "forbid"]
"""What happens to properties that the schema does not declare: they are allowed and dropped,
allowed and kept (``additionalProperties: true``, or nothing is declared), or refused."""

Scalar: TypeAlias = "str | int | float | bool | None"

_STRING: Final = ("minLength", "maxLength", "pattern")
_ARRAY: Final = ("minItems", "maxItems", "uniqueItems")
_OBJECT: Final = ("minProperties", "maxProperties")
_LIMITS: Final[dict[Kind, tuple[str, ...]]] = {
    "string": _STRING,
    "integer": NUMBERS,
    "number": NUMBERS,
    "array": _ARRAY,
    "object": _OBJECT,
}
_SAYS: Final[dict[Kind, tuple[str, ...]]] = {
    "string": _STRING,
    "number": NUMBERS,
    "array": (*_ARRAY, "items"),
    "object": (*_OBJECT, "properties", "required", "additionalProperties"),
}
"""Keywords that say something about values of one kind."""


@dataclass(frozen=True, slots=True)
class Field:
    """One declared property."""

    name: str
    shape: Shape
    required: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """One schema, taken apart as the module says.

    Args:
        values: What ``enum`` and ``const`` leave, or ``None`` without either.
        limits: Keyword and value, in a fixed order.
    """

    kind: Kind
    values: tuple[Scalar, ...] | None = None
    limits: tuple[tuple[str, Any], ...] = ()
    items: Shape | None = None
    fields: tuple[Field, ...] = ()
    extra: Extra = "keep"
    any_of: tuple[Shape, ...] = ()
    one_of: tuple[Shape, ...] = ()
    conditions: tuple[Shape, ...] = ()
    description: str = field(default="", compare=False)

    @property
    def branch_fields(self) -> tuple[str, ...]:
        """Names that only branches declare, in order of appearance."""
        own = {one.name for one in self.fields}
        found: dict[str, None] = {}
        for branch in (*self.any_of, *self.one_of):
            for name in (*(one.name for one in branch.fields), *branch.branch_fields):
                if name not in own:
                    found[name] = None
        return tuple(found)

    @property
    def takes_null(self) -> bool:
        """Whether ``null`` is a valid value."""
        if self.kind not in ("any", "null"):
            return False
        if self.values is not None and None not in self.values:
            return False
        if self.any_of and not any(branch.takes_null for branch in self.any_of):
            return False
        return not self.one_of or sum(branch.takes_null for branch in self.one_of) == 1


def build_shape(schema: Mapping[str, Any], above: Kind = "any") -> Shape:
    """Return the shape of a schema that passed the subset check.

    Args:
        above: Kind of the schema that this one is a branch of.
    """
    kind: Kind = schema.get("type", above)
    any_of = tuple(build_shape(one, kind) for one in schema.get("anyOf", ()))
    one_of = tuple(build_shape(one, kind) for one in schema.get("oneOf", ()))
    shape = _of_kind(schema, kind, "strip" if above == "object" else "keep")
    conditions: tuple[Shape, ...] = ()
    if kind == "any":
        conditions = tuple(
            _of_kind(schema, only)
            for only, keywords in _SAYS.items()
            if any(keyword in schema for keyword in keywords)
        )
    return Shape(
        kind,
        _values(schema, kind),
        shape.limits,
        shape.items,
        shape.fields,
        shape.extra,
        any_of,
        one_of,
        conditions,
        str(schema.get("description", "")),
    )


def _of_kind(schema: Mapping[str, Any], kind: Kind, bare: Extra = "keep") -> Shape:
    """Return what a schema says about values of one kind, its branches left out.

    Args:
        bare: What an object that declares nothing does with properties.
    """
    limits = tuple(
        (keyword, schema[keyword])
        for keyword in _LIMITS.get(kind, ())
        if keyword in schema and _restricts(keyword, schema[keyword])
    )
    if kind == "array":
        items = schema.get("items")
        return Shape(kind, None, limits, None if items is None else build_shape(items))
    if kind != "object":
        return Shape(kind, None, limits)
    required = frozenset(schema.get("required", ()))
    fields = tuple(
        Field(name, build_shape(inner), name in required)
        for name, inner in schema.get("properties", {}).items()
    )
    further = schema.get("additionalProperties")
    extra: Extra = "strip" if fields else bare
    if further is not None:
        extra = "keep" if further else "forbid"
    return Shape(kind, None, limits, None, fields, extra)


def _restricts(keyword: str, value: Any) -> bool:
    if keyword == "uniqueItems":
        return value is True
    return not (keyword in COUNTS and keyword.startswith("min") and value == 0)


def _values(schema: Mapping[str, Any], kind: Kind) -> tuple[Scalar, ...] | None:
    if "enum" not in schema and "const" not in schema:
        return None
    found: list[Scalar] = []
    for value in schema.get("enum", [schema.get("const")]):
        one = int(value) if isinstance(value, float) and value.is_integer() else value
        fits = kind == "any" or matches_type(one, kind)
        if "const" in schema and not _same(one, schema["const"]):
            fits = False
        if fits and not any(_same(one, other) for other in found):
            found.append(one)
    return tuple(found)


def _same(one: object, other: object) -> bool:
    """Return whether two scalars are one JSON value: ``1`` is ``1.0``, but not ``true``."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other
