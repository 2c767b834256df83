"""Walk two schemas side by side and name what each difference does to the accepted values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from ..values import escape_pointer

__all__ = ["Effect", "Role", "diff_schemas", "shown"]

Effect = Literal["narrows", "widens", "both", "text"]
Role = Literal["input", "output"]
_Combiner = Literal["anyOf", "oneOf"]
_Schema: TypeAlias = Mapping[str, Any]
_Found: TypeAlias = "tuple[str, str, str, Effect]"
"""Pointer, kind, message, effect."""

_NOTHING: Final[_Schema] = {"not": {}}
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})
_LOWER: Final = ("minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum")
_UPPER: Final = ("maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum")
_COUNTS: Final = ("minLength", "minItems", "minProperties")
_BRANCHES: Final[tuple[_Combiner, ...]] = ("anyOf", "oneOf")
_TEXTS: Final = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "$comment",
        "$id",
        "deprecated",
        "readOnly",
        "writeOnly",
        "format",
        "contentEncoding",
        "contentMediaType",
    }
)
_OPAQUE: Final = (
    "$schema",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "$defs",
    "definitions",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "prefixItems",
    "additionalItems",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_MAX_SHOWN: Final = 80


def diff_schemas(old: Any, new: Any, role: Role, at: str) -> Iterator[_Found]:
    """Yield pointer, keyword, message and effect of every difference.

    Args:
        role: Whether what is not declared counts as never used (arguments) or as allowed.
        at: Goes before every pointer.
    """
    return _walk(_schema(old), _schema(new), at, role)


def _schema(value: Any) -> _Schema:
    if isinstance(value, Mapping):
        return value
    return _NOTHING if value is False else {}


def _key(value: Any) -> str:
    """Return a text that two values share if they are one JSON value."""
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(json.dumps(k) + _key(v) for k, v in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_key(item) for item in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=dict)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


def _was_is(keyword: str, old: _Schema, new: _Schema) -> str:
    if keyword not in old:
        return f"{keyword!r} is new: {shown(new[keyword])}"
    if keyword not in new:
        return f"{keyword!r} is gone, was {shown(old[keyword])}"
    return f"{keyword!r} was {shown(old[keyword])}, is {shown(new[keyword])}"


def _walk(old: _Schema, new: _Schema, at: str, role: Role) -> Iterator[_Found]:
    if _key(old) == _key(new):
        return
    yield from _texts(old, new, at)
    if _key(old) == _key(_NOTHING) or _key(new) == _key(_NOTHING):
        gone = _key(new) == _key(_NOTHING)
        message = "nothing is accepted here any more" if gone else "nothing was accepted here"
        yield at, "schema", message, "narrows" if gone else "widens"
        return
    alternative = _alternative(old, new, at, role)
    if alternative is not None:
        yield alternative
        return
    disjoint = False
    for found in _types(old, new, at):
        disjoint = disjoint or found[3] == "both"
        yield found
    if disjoint:
        return
    yield from _values(old, new, at)
    for keyword in (*_LOWER, *_UPPER):
        yield from _bound(keyword, old, new, at)
    yield from _rest(old, new, at)
    yield from _walk(
        _schema(old.get("items", {})), _schema(new.get("items", {})), f"{at}/items", role
    )
    yield from _properties(old, new, at, role)
    yield from _additional(old, new, at, role)
    yield from _required(old, new, at)
    for combiner in _BRANCHES:
        yield from _branches(combiner, old, new, at, role)


def _texts(old: _Schema, new: _Schema, at: str) -> Iterator[_Found]:
    known = {"type", "enum", "const", "items", "properties", "additionalProperties", "required"}
    known |= {*_LOWER, *_UPPER, *_BRANCHES, *_OPAQUE, "multipleOf", "pattern", "uniqueItems"}
    for keyword in dict.fromkeys([*new, *old]):
        if keyword not in known and not _same(keyword, old, new):
            pointer = f"{at}/{escape_pointer(keyword)}"
            yield pointer, keyword, _was_is(keyword, old, new), "text"


def _same(keyword: str, old: _Schema, new: _Schema) -> bool:
    return (keyword in old) == (keyword in new) and _key(old.get(keyword)) == _key(new.get(keyword))


# --- single values --------------------------------------------------------------------------


def _type_set(schema: _Schema) -> frozenset[str]:
    named = schema.get("type")
    types = _TYPES if named is None else frozenset([named] if isinstance(named, str) else named)
    if "number" in types:
        types |= {"integer"}
    if "enum" in schema or "const" in schema:
        types &= {_type_of(value) for value in _value_list(schema)}
    return types


def _type_of(value: Any) -> str:
    for kind, name in ((bool, "boolean"), (str, "string"), (list, "array"), (Mapping, "object")):
        if isinstance(value, kind):
            return name
    if value is None:
        return "null"
    return "integer" if float(value).is_integer() else "number"


def _value_list(schema: _Schema) -> list[Any]:
    values = list(schema.get("enum", [schema.get("const")]))
    if "const" in schema:
        values = [one for one in values if _key(one) == _key(schema["const"])]
    return values


def _types(old: _Schema, new: _Schema, at: str) -> Iterator[_Found]:
    was, now = _type_set(old), _type_set(new)
    effect = _set_effect(was, now)
    if effect is not None and ("type" in old or "type" in new) and not _same("type", old, new):
        if not was & now:
            effect = "both"
        yield f"{at}/type", "type", _was_is("type", old, new), effect


def _set_effect(was: frozenset[str], now: frozenset[str]) -> Effect | None:
    if was == now:
        return None
    if was < now:
        return "widens"
    return "narrows" if now < was else "both"


def _values(old: _Schema, new: _Schema, at: str) -> Iterator[_Found]:
    had = "enum" in old or "const" in old
    has = "enum" in new or "const" in new
    keyword = "const" if "enum" not in old and "enum" not in new else "enum"
    pointer = f"{at}/{keyword}"
    if had and has:
        was = {_key(value): value for value in _value_list(old)}
        now = {_key(value): value for value in _value_list(new)}
        for key in sorted(now.keys() - was.keys()):
            yield pointer, keyword, f"the value {shown(now[key])} is new", "widens"
        for key in sorted(was.keys() - now.keys()):
            yield pointer, keyword, f"the value {shown(was[key])} is gone", "narrows"
    elif has:
        listed = shown(_value_list(new))
        yield pointer, keyword, f"only these values are left: {listed}", "narrows"
    elif had:
        yield pointer, keyword, f"not only {shown(_value_list(old))} any more", "widens"


def _bound(keyword: str, old: _Schema, new: _Schema, at: str) -> Iterator[_Found]:
    default = 0 if keyword in _COUNTS else None
    was, now = old.get(keyword, default), new.get(keyword, default)
    if was == now:
        return
    raised = was is None or (now is not None and now > was)
    if keyword in _UPPER:
        raised = now is None or (was is not None and now > was)
    tighter = raised if keyword in _LOWER else not raised
    effect: Effect = "narrows" if tighter else "widens"
    yield f"{at}/{keyword}", keyword, _was_is(keyword, old, new), effect


def _rest(old: _Schema, new: _Schema, at: str) -> Iterator[_Found]:
    if old.get("uniqueItems", False) != new.get("uniqueItems", False):
        effect: Effect = "narrows" if new.get("uniqueItems") else "widens"
        yield f"{at}/uniqueItems", "uniqueItems", _was_is("uniqueItems", old, new), effect
    if not _same("pattern", old, new):
        effect = "both"
        if "pattern" not in old or "pattern" not in new:
            effect = "narrows" if "pattern" in new else "widens"
        yield f"{at}/pattern", "pattern", _was_is("pattern", old, new), effect
    if not _same("multipleOf", old, new):
        effect = _step_effect(old.get("multipleOf"), new.get("multipleOf"))
        yield f"{at}/multipleOf", "multipleOf", _was_is("multipleOf", old, new), effect
    for keyword in _OPAQUE:
        if not _same(keyword, old, new):
            message = f"{_was_is(keyword, old, new)}; what that changes is not analysed"
            yield f"{at}/{escape_pointer(keyword)}", keyword, message, "both"


def _step_effect(was: Any, now: Any) -> Effect:
    if was is None or now is None:
        return "widens" if now is None else "narrows"
    one, other = Fraction(repr(was)), Fraction(repr(now))
    if other % one == 0:
        return "narrows"
    return "widens" if one % other == 0 else "both"


# --- objects --------------------------------------------------------------------------------


def _properties(old: _Schema, new: _Schema, at: str, role: Role) -> Iterator[_Found]:
    was, now = _declared(old), _declared(new)
    for name in dict.fromkeys([*now, *was]):
        pointer = f"{at}/properties/{escape_pointer(name)}"
        if name in was and name in now:
            yield from _walk(_schema(was[name]), _schema(now[name]), pointer, role)
            continue
        added = name in now
        further = (old if added else new).get("additionalProperties")
        if further is True or isinstance(further, Mapping):
            before, after = was.get(name, further), now.get(name, further)
            yield from _walk(_schema(before), _schema(after), pointer, role)
            continue
        allowed = further is None and role == "output"
        message = f"the property {shown(name)} is {'new' if added else 'gone'}"
        yield pointer, "property", message, "narrows" if added == allowed else "widens"


def _declared(schema: _Schema) -> Mapping[str, Any]:
    properties = schema.get("properties", {})
    return properties if isinstance(properties, Mapping) else {}


def _additional(old: _Schema, new: _Schema, at: str, role: Role) -> Iterator[_Found]:
    pointer, keyword = f"{at}/additionalProperties", "additionalProperties"
    if _same(keyword, old, new):
        return
    was, now = old.get(keyword), new.get(keyword)
    if {was is False, now is False} == {True, False}:
        yield pointer, keyword, _was_is(keyword, old, new), "narrows" if now is False else "widens"
    elif isinstance(was, Mapping) or isinstance(now, Mapping):
        yield from _walk(_schema(was), _schema(now), pointer, role)
    else:
        fate = "kept" if now is True else "dropped"
        yield pointer, keyword, f"undeclared properties are {fate} now", "text"


def _required(old: _Schema, new: _Schema, at: str) -> Iterator[_Found]:
    was, now = old.get("required", []), new.get("required", [])
    for name in dict.fromkeys([*now, *was]):
        if (name in was) != (name in now):
            added = name in now
            message = f"{shown(name)} is {'required now' if added else 'not required any more'}"
            yield f"{at}/required", "required", message, "narrows" if added else "widens"


# --- alternatives ---------------------------------------------------------------------------


def _alternative(old: _Schema, new: _Schema, at: str, role: Role) -> _Found | None:
    """Compare a schema with alternatives of which it is one, such as itself or null."""
    pairs: tuple[tuple[_Schema, _Schema, Effect], ...] = (
        (old, new, "widens"),
        (new, old, "narrows"),
    )
    for plain, several, effect in pairs:
        combiner = _only_branches(several)
        if combiner is None or _only_branches(plain) is not None:
            continue
        branches = [_schema(one) for one in several[combiner]]
        for index, branch in enumerate(branches):
            others = branches[:index] + branches[index + 1 :]
            apart = combiner == "anyOf" or all(_are_disjoint(branch, one) for one in others)
            if apart and not any(found[3] != "text" for found in _walk(plain, branch, at, role)):
                what = "one of several alternatives now" if plain is old else "the only one left"
                return f"{at}/{combiner}", combiner, f"what was accepted is {what}", effect
    return None


def _only_branches(schema: _Schema) -> _Combiner | None:
    says = [keyword for keyword in schema if keyword not in _TEXTS]
    for combiner in _BRANCHES:
        if says == [combiner] and isinstance(schema[combiner], list):
            return combiner
    return None


def _branches(
    combiner: _Combiner, old: _Schema, new: _Schema, at: str, role: Role
) -> Iterator[_Found]:
    was = [_schema(one) for one in old.get(combiner, [])]
    now = [_schema(one) for one in new.get(combiner, [])]
    if not was or not now:
        if was or now:
            pointer = f"{at}/{combiner}"
            yield pointer, combiner, _was_is(combiner, old, new), "narrows" if now else "widens"
        return
    left = list(enumerate(was))
    unmatched: list[tuple[int, _Schema]] = []
    for index, branch in enumerate(now):
        twin = next((one for one in left if _key(one[1]) == _key(branch)), None)
        if twin is None:
            unmatched.append((index, branch))
        else:
            left.remove(twin)
    exclusive = combiner == "oneOf"
    for (place, before), (index, after) in zip(left, unmatched, strict=False):
        apart = not exclusive or (_is_apart(before, place, was) and _is_apart(after, index, now))
        at_branch = f"{at}/{combiner}/{index}"
        for pointer, kind, message, effect in _walk(before, after, at_branch, role):
            yield pointer, kind, message, effect if apart or effect == "text" else "both"
    for index, branch in unmatched[len(left) :]:
        overlaps = exclusive and not _is_apart(branch, index, now)
        effect = "both" if overlaps else "widens"
        yield f"{at}/{combiner}/{index}", combiner, "the alternative is new", effect
    for index, branch in left[len(unmatched) :]:
        overlaps = exclusive and not _is_apart(branch, index, was)
        effect = "both" if overlaps else "narrows"
        yield f"{at}/{combiner}/{index}", combiner, "the alternative is gone", effect


def _is_apart(branch: _Schema, index: int, branches: Sequence[_Schema]) -> bool:
    return all(_are_disjoint(branch, one) for at, one in enumerate(branches) if at != index)


def _are_disjoint(one: _Schema, other: _Schema) -> bool:
    """Return whether it is certain that no value fits both."""
    types = _type_set(one) & _type_set(other)
    if not types:
        return True
    if ("enum" in one or "const" in one) and ("enum" in other or "const" in other):
        mine = {_key(value) for value in _value_list(one)}
        return not mine & {_key(value) for value in _value_list(other)}
    if types != {"object"}:
        return False
    shared = set(one.get("required", [])) & set(other.get("required", []))
    return any(
        _are_disjoint(_schema(_declared(one).get(name)), _schema(_declared(other).get(name)))
        for name in shared
    )
