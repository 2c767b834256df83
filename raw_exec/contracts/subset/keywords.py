"""Values of the keywords that bindings enforce: limits, patterns, constants.

The registry compiles every schema and would refuse most of these later; here the author is
told at once, and by pointer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...limits import MAX_SAFE_INTEGER
from ...schema.patterns import PatternRefused, compile_pattern
from .patterns import javascript_pattern
from .problem import SubsetProblem as Problem

__all__ = ["COUNTS", "NUMBERS", "is_number", "matches_type", "value_problems"]

COUNTS: Final = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)
NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TYPES_OF: Final = {
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (Mapping,),
}


def is_number(value: object) -> bool:
    """Return whether a JSON value is a number that JSON can write down."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def matches_type(value: object, name: str) -> bool:
    """Return whether a JSON value is of the type with this name. ``7.0`` is an integer."""
    if name == "number":
        return is_number(value)
    if name == "integer":
        return is_number(value) and (
            isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        )
    return isinstance(value, _TYPES_OF.get(name, (object,)))


def value_problems(schema: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """Yield what is wrong with the limits, the pattern and the constants of one schema."""
    for keyword in COUNTS:
        value = schema.get(keyword, 0)
        if not matches_type(value, "integer") or value < 0:
            yield Problem(
                f"{at}/{keyword}",
                f"{keyword!r} must be a whole number from 0",
                rule="keyword_value",
            )
        elif value > MAX_SAFE_INTEGER:
            yield _unsafe(f"{at}/{keyword}")
    for keyword in NUMBERS:
        value = schema.get(keyword, 1)
        if not is_number(value):
            yield Problem(f"{at}/{keyword}", f"{keyword!r} must be a number", rule="keyword_value")
        elif keyword == "multipleOf" and value <= 0:
            yield Problem(f"{at}/{keyword}", "'multipleOf' must be above 0", rule="keyword_value")
        elif isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
            yield _unsafe(f"{at}/{keyword}")
    if not isinstance(schema.get("uniqueItems", False), bool):
        yield Problem(
            f"{at}/uniqueItems", "'uniqueItems' must be true or false", rule="keyword_value"
        )
    yield from _pattern(schema, at)
    yield from _constants(schema, at)


def _unsafe(at: str) -> Problem:
    return Problem(
        at, "an integer beyond 2**53-1 is another number in JavaScript", rule="number_range"
    )


def _pattern(schema: Mapping[str, Any], at: str) -> Iterator[Problem]:
    pattern = schema.get("pattern", "")
    if not isinstance(pattern, str):
        yield Problem(f"{at}/pattern", "'pattern' must be a string", rule="keyword_value")
        return
    try:
        compile_pattern(pattern)
    except PatternRefused as exc:
        yield Problem(f"{at}/pattern", f"the pattern {exc}", rule="portable_pattern")
        return
    if javascript_pattern(pattern) is None:
        yield Problem(
            f"{at}/pattern",
            "the pattern does not mean the same in every language; use literals, . ^ $ |, "
            "groups, simple classes, \\d \\w \\s and repetition",
            rule="portable_pattern",
        )


def _constants(schema: Mapping[str, Any], at: str) -> Iterator[Problem]:
    named = schema.get("type")
    if "const" in schema:
        value = schema["const"]
        if isinstance(value, list | Mapping):
            yield Problem(
                f"{at}/const", "a list or object as 'const' has no literal type", rule="const_value"
            )
            return
        if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
            yield _unsafe(f"{at}/const")
        if isinstance(named, str) and not matches_type(value, named):
            yield Problem(
                f"{at}/const",
                f"the value is not of the type {named!r:.80} beside it",
                rule="enum_type",
            )
    values = schema.get("enum")
    if isinstance(values, list):
        if any(isinstance(one, int) and abs(one) > MAX_SAFE_INTEGER for one in values):
            yield _unsafe(f"{at}/enum")
        if values and isinstance(named, str) and not any(matches_type(v, named) for v in values):
            yield Problem(
                f"{at}/enum", f"no value is of the type {named!r:.80} beside it", rule="enum_type"
            )
