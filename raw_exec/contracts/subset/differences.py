"""Where the local check deliberately says no and the public CLI's check says yes.

There is no difference in the other direction, and none in where a problem is found. The
differential test knows every entry by its name and fails on any difference without one.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DIFFERENCES", "Difference"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One kind of schema that only this check refuses.

    Args:
        name: Stable word for tests and documents.
        reason: Why it is refused here.
    """

    name: str
    reason: str


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "unenforced_keyword",
        "prefixItems, contains, propertyNames, dependentRequired, unevaluatedProperties and "
        "their like restrict arguments; the bindings of neither generator check them, so what "
        "the contract refuses would reach the implementation",
    ),
    Difference(
        "reference_keyword",
        "$dynamicRef and $recursiveRef are references as much as $ref, and not resolved either",
    ),
    Difference(
        "keyword_value",
        "a limit that is no number, a pattern that is no string and the like mean nothing; the "
        "public check does not look at them, and the registry refuses the schema later",
    ),
    Difference(
        "portable_pattern",
        "Python and JavaScript read the pattern differently, or one of them not at all, so the "
        "same arguments would be accepted by one binding and refused by the other",
    ),
    Difference(
        "empty_branches",
        "an empty anyOf or oneOf accepts nothing, and JSON Schema does not allow it",
    ),
    Difference(
        "property_name",
        "a JavaScript object can not carry a property called __proto__, and half a surrogate "
        "pair is no character",
    ),
    Difference(
        "enum_type",
        "an enum or const whose every value contradicts the type beside it accepts nothing, "
        "so no type can be generated for it",
    ),
    Difference(
        "const_value",
        "a const that is an object or a list has no literal type in either language",
    ),
    Difference(
        "number_range",
        "an integer beyond 2**53-1 is another number once JavaScript has read it",
    ),
    Difference(
        "size",
        "a schema of more than 20,000 values or 64 levels is refused by the registry as well",
    ),
)
