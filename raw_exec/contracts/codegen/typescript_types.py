"""TypeScript of shapes: static types, and the zod schemas that check them."""

from __future__ import annotations

import json
from typing import Any, Final

from ..subset.patterns import javascript_pattern
from .shapes import Shape

__all__ = ["quoted", "static_type", "zod"]

_TYPES: Final = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "any": "unknown",
}
_CHECKED: Final = {
    "string": "z.string()",
    "integer": "z.int()",
    "number": "z.number()",
    "boolean": "z.boolean()",
    "null": "z.null()",
    "any": "z.unknown()",
}
_OBJECT: Final = {"strip": "z.object", "keep": "z.looseObject", "forbid": "z.strictObject"}
_STEP: Final = "  "


def quoted(value: Any) -> str:
    """Return plain data as ASCII source."""
    return json.dumps(value, ensure_ascii=True, separators=(", ", ": "))


def comment(text: str, indent: str = "") -> str:
    """Return a text as a documentation comment that it can not end."""
    safe = text.replace("*/", "*\\/").replace("\u2028", " ").replace("\u2029", " ")
    lines = safe.splitlines() or [""]
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */"
    return "\n".join(
        [f"{indent}/**", *(f"{indent} * {one}".rstrip() for one in lines), f"{indent} */"]
    )


# --- static types -------------------------------------------------------------------------


def static_type(shape: Shape, indent: str = "") -> str:
    """Return the type of the values that a shape accepts, as exactly as types can say it."""
    parts: list[str] = []
    own = _own_type(shape, indent)
    if own != "unknown":
        parts.append(own)
    for branches in (shape.any_of, shape.one_of):
        types = list(dict.fromkeys(static_type(branch, indent) for branch in branches))
        if types and "unknown" not in types:
            parts.append(types[0] if len(types) == 1 else f"({' | '.join(types)})")
    return " & ".join(parts) or "unknown"


def _own_type(shape: Shape, indent: str) -> str:
    if shape.values is not None:
        types = " | ".join(quoted(one) for one in shape.values)
        return f"({types})" if len(shape.values) > 1 else types or "never"
    if shape.kind == "array":
        items = "unknown" if shape.items is None else static_type(shape.items, indent)
        return f"Array<{items}>"
    if shape.kind != "object":
        return _TYPES[shape.kind]
    if not shape.fields:
        return f"Record<string, {'never' if shape.extra == 'forbid' else 'unknown'}>"
    inner = indent + _STEP
    lines = ["{"]
    for one in shape.fields:
        if one.shape.description:
            lines.append(comment(one.shape.description, inner))
        kind = static_type(one.shape, inner)
        mark = ":" if one.required else "?:"
        tail = "" if one.required or kind == "unknown" else " | undefined"
        lines.append(f"{inner}{quoted(one.name)}{mark} {kind}{tail};")
    if shape.extra == "keep":
        lines.append(f"{inner}[name: string]: unknown;")
    return "\n".join([*lines, indent + "}"])


# --- zod ------------------------------------------------------------------------------------


def zod(shape: Shape, indent: str = "") -> str:
    """Return an expression whose schema accepts what a shape accepts, and nothing else."""
    branches = [
        f"{combine}({', '.join(zod(one, indent) for one in of)})"
        for combine, of in (("anyOf", shape.any_of), ("oneOf", shape.one_of))
        if of
    ]
    rest = [
        *branches,
        *(f"when({quoted(one.kind)}, {zod(one, indent)})" for one in shape.conditions),
    ]
    expression = _own_zod(shape, indent)
    if shape.limits:
        limits = ", ".join(f"{key}: {_limit(key, value)}" for key, value in shape.limits)
        expression = f"limited({expression}, {{ {limits} }})"
    if expression == _CHECKED["any"] and rest:
        expression = rest.pop(0)
    for one in rest:
        expression = f"allOf({expression}, {one})"
    return expression


def _limit(keyword: str, value: Any) -> str:
    return quoted(javascript_pattern(value) if keyword == "pattern" else value)


def _own_zod(shape: Shape, indent: str) -> str:
    if shape.values is not None:
        if not shape.values:
            return "nothing<never>()"
        return f"z.literal([{', '.join(quoted(one) for one in shape.values)}])"
    if shape.kind == "array":
        items = "z.unknown()" if shape.items is None else zod(shape.items, indent)
        return f"z.array({items})"
    if shape.kind != "object":
        return _CHECKED[shape.kind]
    if not shape.fields:
        if shape.extra == "forbid":
            return "z.record(z.string(), nothing<never>())"
        if shape.extra == "strip":
            return "z.object({})"
        return "z.record(z.string(), z.unknown())"
    inner = indent + _STEP
    lines = [f"{_OBJECT[shape.extra]}({{"]
    for one in shape.fields:
        expression = zod(one.shape, inner)
        if not one.required:
            expression += ".optional()"
        lines.append(f"{inner}{quoted(one.name)}: {expression},")
    return "\n".join([*lines, indent + "})"])
