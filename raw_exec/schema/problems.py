"""Turn engine errors into problems that a language model can act on.

A failed ``anyOf``/``oneOf`` is one error with a context of errors per branch. The
model is shown one thing to fix, chosen so:

1. every branch fails on the type or the fixed value of one and the same place:
   one problem there, listing what the branches would accept;
2. otherwise the nearest branch, whose problems take the place of the error: one
   that fails on no fixed value first, then one that fails on no type of the value
   itself, then the fewest errors, then the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..values import escape_pointer

__all__ = ["MAX_PREVIEW_CHARACTERS", "SchemaProblem", "explain", "flatten", "preview"]

MAX_PREVIEW_CHARACTERS: Final = 120
_MAX_CHOICES: Final = 24
_FIXED: Final = ("const", "enum")


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One thing wrong with one place of a value.

    Args:
        pointer: JSON Pointer of the place; ``""`` is the whole value.
        message: ``expected`` and ``got`` in one line.
        keyword: The schema keyword that failed.
        expected: What would be accepted there.
        got: A preview of what is there, at most ``MAX_PREVIEW_CHARACTERS``.
    """

    pointer: str
    message: str
    keyword: str
    expected: str
    got: str


def pointer_of(path: Iterable[str | int]) -> str:
    """Return the JSON Pointer of a path."""
    return "".join(f"/{escape_pointer(str(step))}" for step in path)


def preview(value: Any, limit: int = MAX_PREVIEW_CHARACTERS) -> str:
    """Return a bounded text for a value: JSON if it fits, else its kind and its start.

    Never does work in proportion to the size of a large value.
    """
    if isinstance(value, str):
        text = json.dumps(value[:limit], ensure_ascii=False)
        if len(text) <= limit and len(value) <= limit:
            return text
        note = f"… ({len(value)} characters)"
        return text[: limit - len(note) - 1].rstrip("\\") + '"' + note[: limit - 1]
    if isinstance(value, dict | list):
        if not value:
            return "{}" if isinstance(value, dict) else "[]"
        what = "properties" if isinstance(value, dict) else "items"
        if isinstance(value, dict):
            names = ", ".join(preview(name, 24) for name in list(value)[:5])
            text = f"object with {len(value)} {what}: {names}"
        else:
            text = f"array of {len(value)} {what}"
        return text if len(text) <= limit else text[: limit - 1] + "…"
    text = json.dumps(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


_TYPE_NAMES: Final = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
}


def got_text(value: Any) -> str:
    """Return a preview that names the type where the JSON text alone does not."""
    for kind, name in _TYPE_NAMES.items():
        if isinstance(value, kind) and value is not None:
            return f"{name} {preview(value, MAX_PREVIEW_CHARACTERS - 10)}"
    return preview(value)


def _choices(values: Sequence[Any]) -> str:
    shown = ", ".join(preview(value, 40) for value in values[:_MAX_CHOICES])
    more = len(values) - _MAX_CHOICES
    return shown + (f" and {more} more" if more > 0 else "")


def _alternatives(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return " or ".join(unique[:_MAX_CHOICES]) or "nothing"


_COUNTED: Final = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} properties",
    "maxProperties": "at most {} properties",
    "minimum": "a number of at least {}",
    "maximum": "a number of at most {}",
    "exclusiveMinimum": "a number above {}",
    "exclusiveMaximum": "a number below {}",
    "multipleOf": "a multiple of {}",
}
_PLAIN: Final = {
    "uniqueItems": "items that all differ",
    "not": "a value outside the schema's 'not'",
    "contains": "more or fewer items that match the schema's 'contains'",
    "propertyNames": "other property names",
    "anyOf": "a value that matches one of the alternatives",
    "oneOf": "a value that matches exactly one of the alternatives",
}
_UNDECLARED: Final = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")


def describe(keyword: str, wanted: Any, message: str) -> str:
    """Return what a keyword expects, in words.

    Args:
        keyword: The keyword that failed; ``""`` for a schema that is ``false``.
        wanted: The keyword's value in the schema.
        message: The engine's own message, for ``required``.
    """
    if keyword == "type":
        return _alternatives([wanted] if isinstance(wanted, str) else wanted)
    if keyword == "enum":
        return f"one of {_choices(wanted)}"
    if keyword == "const":
        return preview(wanted, 80)
    if keyword == "pattern":
        return f"text that matches {wanted[:200]!r}"
    if keyword == "required":
        return f"property {message}"
    if keyword in _COUNTED:
        return _COUNTED[keyword].format(preview(wanted, 40))
    if keyword in _UNDECLARED or keyword == "":
        return "nothing here (not declared by the schema)"
    return _PLAIN.get(keyword, f"what the schema's {keyword!r} asks for")


def make_problem(
    pointer: str, keyword: str, wanted: Any, message: str, instance: Any
) -> SchemaProblem:
    """Return the problem for one engine error."""
    expected = describe(keyword, wanted, message)
    got = got_text(instance)
    return SchemaProblem(pointer, f"expected {expected}, got {got}", keyword, expected, got)


def flatten(errors: Iterable[Any], base: str, limit: int) -> tuple[SchemaProblem, ...]:
    """Return problems for the reference's errors, alternatives replaced by the nearest.

    Args:
        errors: ``jsonschema.ValidationError``, top level.
        base: Pointer that goes before every pointer.
        limit: Most problems to return.
    """
    out: dict[SchemaProblem, None] = {}
    for error in errors:
        _flatten(error, (), base, out)
        if len(out) >= limit:
            break
    return tuple(out)[:limit]


def _flatten(error: Any, above: tuple[Any, ...], base: str, out: dict[SchemaProblem, None]) -> None:
    path = (*above, *error.relative_path)
    if error.context:
        branches: dict[Any, list[Any]] = {}
        for inner in error.context:
            # A branch that is `false` leaves no index behind.
            index = inner.relative_schema_path[0] if inner.relative_schema_path else None
            branches.setdefault(index, []).append(inner)
        merged = _merge(list(branches.values()), path, base)
        if merged is not None:
            out[merged] = None
            return
        for inner in min(branches.values(), key=_distance):
            _flatten(inner, path, base, out)
        return
    message = error.message
    if error.validator == "required":
        # The library reports each missing name on its own, quoted at the start.
        message = message.removesuffix(" is a required property")
    keyword = error.validator or ""
    problem = make_problem(
        base + pointer_of(path), keyword, error.validator_value, message, error.instance
    )
    out[problem] = None


def _distance(errors: list[Any]) -> tuple[bool, bool, bool, int]:
    closed = any(e.validator is None for e in errors)
    fixed = any(e.validator in _FIXED for e in errors)
    wrong_kind = any(e.validator == "type" and not e.relative_path for e in errors)
    return (closed, fixed, wrong_kind, len(errors))


def _merge(branches: list[list[Any]], path: tuple[Any, ...], base: str) -> SchemaProblem | None:
    """Return one problem if every branch fails on one place's type or fixed value."""
    candidates = [
        {tuple(e.relative_path): e for e in reversed(errors) if e.validator in _FIXED}
        for errors in branches
    ]
    shared = [place for place in candidates[0] if all(place in c for c in candidates)]
    if shared:
        errors = [candidate[shared[0]] for candidate in candidates]
        values: list[Any] = []
        for error in errors:
            wanted = error.validator_value
            values += wanted if error.validator == "enum" else [wanted]
        pointer = base + pointer_of((*path, *shared[0]))
        return make_problem(pointer, "enum", values, "", errors[0].instance)
    typed = [
        [e for e in errors if e.validator == "type" and not e.relative_path] for errors in branches
    ]
    if all(typed):
        names: list[str] = []
        for errors in typed:
            wanted = errors[0].validator_value
            names += [wanted] if isinstance(wanted, str) else wanted
        return make_problem(base + pointer_of(path), "type", names, "", typed[0][0].instance)
    return None


def explain(problems: Sequence[SchemaProblem], *, max_bytes: int, more: bool) -> str:
    """Return the message for a language model: a line per problem.

    Args:
        problems: In the order to show.
        max_bytes: Bound on the UTF-8 text, the mark of what is left out included.
        more: Whether there may be problems beyond ``problems``.
    """
    lines = [f"{p.pointer or '(root)'}: {p.message}" for p in problems]
    kept: list[str] = []
    used = 0
    for index, line in enumerate(lines):
        left = len(lines) - index - 1
        mark = _mark(left, more)
        size = len(line.encode("utf-8", "replace")) + 1
        if used + size + (len(mark.encode()) if mark else -1) > max_bytes:
            kept.append(_mark(left + 1, more))
            break
        kept.append(line)
        used += size
    else:
        if more:
            kept.append(_mark(0, more))
    text = "\n".join(kept)
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")


def _mark(left: int, more: bool) -> str:
    if left == 0 and not more:
        return ""
    if left == 0:
        return "… and possibly more problems"
    return f"… and {left}{'+' if more else ''} more problem{'' if left == 1 else 's'}"
