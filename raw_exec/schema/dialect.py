"""The two dialects that are supported, as tables of what each keyword holds.

The tables drive everything that walks a schema: the load rules, the work
budget, path resolution and the copies that the two engines receive. A keyword
that is missing here is an annotation: it is never walked, and no engine sees
it, so that both engines agree on what counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

__all__ = ["DIALECTS", "DRAFT_07", "DRAFT_2020_12", "Dialect", "Shape"]


class Shape(Enum):
    """What sits under a keyword, and which value its subschemas apply to."""

    ONE = "one"
    """One subschema, same value."""
    LIST = "list"
    """A list of subschemas, same value."""
    MAP = "map"
    """An object of subschemas, same value (``dependentSchemas``)."""
    CHILD = "child"
    """One subschema, applied to members, items or names of the value."""
    CHILD_LIST = "child_list"
    """A list of subschemas, one per leading item."""
    CHILD_MAP = "child_map"
    """An object of subschemas, keyed by property name or pattern."""
    ITEMS = "items"
    """Draft-07 ``items``: one subschema or a list."""
    DEPENDENCIES = "dependencies"
    """Draft-07 ``dependencies``: a subschema or a list of names per property."""
    DEFINITIONS = "definitions"
    """An object of subschemas that apply only where they are referred to."""
    ASSERTION = "assertion"
    """No subschema; checks the value itself."""


_SHARED: Final = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), Shape.LIST),
    **dict.fromkeys(("not", "if", "then", "else"), Shape.ONE),
    **dict.fromkeys(("additionalProperties", "propertyNames", "contains"), Shape.CHILD),
    **dict.fromkeys(("properties", "patternProperties"), Shape.CHILD_MAP),
    "definitions": Shape.DEFINITIONS,
    **dict.fromkeys(
        (
            "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum",
            "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems",
            "uniqueItems", "maxProperties", "minProperties", "required",
        ),
        Shape.ASSERTION,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dialect:
    """One draft of JSON Schema.

    Args:
        name: Short name, as shown to people.
        uri: The ``$schema`` value, without a trailing ``#``.
        keywords: What each keyword that has an effect holds.
        ref_hides_siblings: Whether ``$ref`` makes the keywords beside it void.
    """

    name: str
    uri: str
    keywords: dict[str, Shape]
    ref_hides_siblings: bool


DRAFT_2020_12: Final = Dialect(
    "2020-12",
    "https://json-schema.org/draft/2020-12/schema",
    {
        **_SHARED,
        "$defs": Shape.DEFINITIONS,
        "dependentSchemas": Shape.MAP,
        "items": Shape.CHILD,
        "prefixItems": Shape.CHILD_LIST,
        "unevaluatedItems": Shape.CHILD,
        "unevaluatedProperties": Shape.CHILD,
        "dependentRequired": Shape.ASSERTION,
        "maxContains": Shape.ASSERTION,
        "minContains": Shape.ASSERTION,
    },
    ref_hides_siblings=False,
)

DRAFT_07: Final = Dialect(
    "draft-07",
    "http://json-schema.org/draft-07/schema",
    {
        **_SHARED,
        "items": Shape.ITEMS,
        "additionalItems": Shape.CHILD,
        "dependencies": Shape.DEPENDENCIES,
    },
    ref_hides_siblings=True,
)

DIALECTS: Final = {dialect.uri: dialect for dialect in (DRAFT_2020_12, DRAFT_07)}
