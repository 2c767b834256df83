"""What a schema may not contain, each refusal under a name.

Rules, in the order in which they are applied:

=================== =====================================================================
``not_json``        a value that JSON cannot express, or a root that is no schema
``too_deep``        more than ``MAX_JSON_DEPTH`` levels
``too_large``       more than ``MAX_SCHEMA_NODES`` values
``dialect``         ``$schema`` names neither 2020-12 nor draft-07
``meta_schema``     the dialect's meta-schema says no
``nested_dialect``  a nested ``$schema`` that differs from the document's
``vocabulary``      ``$vocabulary``
``async``           ``$async``
``dynamic_scope``   ``$dynamicRef`` or ``$dynamicAnchor``
``nested_id``       ``$id`` below the root: it would change what references mean
``root_id``         a root ``$id`` with a fragment
``duplicate_anchor`` two subschemas with one ``$anchor``
``remote_ref``      ``$ref`` that does not start with ``#``
``ref_target``      ``$ref`` to a place in the document that holds no subschema
``pattern``         a pattern that RE2 refuses, or that is too long or too large
``key_pattern``     a ``patternProperties`` key outside the portable language, or complex
``pattern_budget``  all patterns together are too large
``ref_cycle``       references that lead back to their start without consuming input
``chain_depth``     more than ``MAX_CHAIN`` subschemas deep for one value
``work_budget``     more than ``MAX_PATHS`` ways through the schema
=================== =====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..errors import Problem
from ..limits import MAX_JSON_DEPTH
from ..values import escape_pointer
from .dialect import DIALECTS, DRAFT_2020_12, Dialect
from .nodes import Node, link, pointer_of_reference
from .patterns import MAX_NATIVE_SIZE, PatternRefused, compile_pattern, portable_pattern

__all__ = ["MAX_PATTERN_STEPS", "MAX_SCHEMA_NODES", "SchemaRefusal"]

MAX_SCHEMA_NODES: Final = 20_000
"""Values in one schema; a 16-operation ``write_file`` has about 500."""

MAX_PATTERN_STEPS: Final = 200_000
"""RE2 instructions of all patterns of one schema together."""

_FORBIDDEN: Final = {
    "$vocabulary": "vocabulary",
    "$async": "async",
    "$dynamicRef": "dynamic_scope",
    "$dynamicAnchor": "dynamic_scope",
}


@dataclass(frozen=True, slots=True)
class SchemaRefusal(Problem):
    """A problem with a schema, and the rule behind it.

    Args:
        rule: Stable name from the table above.
    """

    rule: str = ""


def find_shape_problem(schema: object) -> SchemaRefusal | None:
    """Return why a JSON document is no candidate for a schema: its root, depth or size."""
    if not isinstance(schema, dict | bool):
        return SchemaRefusal("", "must be an object or a boolean", rule="not_json")
    count = 0
    pending: list[tuple[Any, int, str]] = [(schema, 0, "")]
    while pending:
        value, depth, pointer = pending.pop()
        count += 1
        if depth > MAX_JSON_DEPTH:
            return SchemaRefusal(
                pointer, f"is nested deeper than {MAX_JSON_DEPTH} levels", rule="too_deep"
            )
        if count > MAX_SCHEMA_NODES:
            return SchemaRefusal("", f"has more than {MAX_SCHEMA_NODES} values", rule="too_large")
        if isinstance(value, dict):
            pending += [
                (v, depth + 1, f"{pointer}/{escape_pointer(str(k))}") for k, v in value.items()
            ]
        elif isinstance(value, list):
            pending += [(v, depth + 1, f"{pointer}/{i}") for i, v in enumerate(value)]
    return None


def choose_dialect(schema: Any) -> Dialect | SchemaRefusal:
    """Return the dialect that the root ``$schema`` names; draft 2020-12 without one."""
    if not isinstance(schema, dict) or "$schema" not in schema:
        return DRAFT_2020_12
    named = schema["$schema"]
    dialect = DIALECTS.get(named.removesuffix("#")) if isinstance(named, str) else None
    if dialect is not None:
        return dialect
    wanted = " or ".join(repr(uri) for uri in DIALECTS)
    return SchemaRefusal(
        "/$schema", f"{named!r:.200} is not supported; use {wanted}", rule="dialect"
    )


def find_keyword_problems(nodes: dict[str, Node], dialect: Dialect) -> list[SchemaRefusal]:
    """Return one problem per use of a keyword that is refused."""
    found: list[SchemaRefusal] = []
    for node in nodes.values():
        if not isinstance(node.schema, dict):
            continue
        void = dialect.ref_hides_siblings and "$ref" in node.schema
        for keyword, rule in _FORBIDDEN.items():
            if keyword in node.schema:
                found.append(
                    SchemaRefusal(
                        f"{node.pointer}/{keyword}", f"{keyword!r} is not supported", rule=rule
                    )
                )
        if "$id" in node.schema and not void:
            found += _id_problem(node)
        named = node.schema.get("$schema")
        if node.pointer and named is not None and str(named).removesuffix("#") != dialect.uri:
            found.append(
                SchemaRefusal(
                    f"{node.pointer}/$schema",
                    f"{named!r:.200} differs from the document's dialect {dialect.name}",
                    rule="nested_dialect",
                )
            )
    return found


def _id_problem(node: Node) -> list[SchemaRefusal]:
    pointer = f"{node.pointer}/$id"
    if node.pointer:
        return [
            SchemaRefusal(
                pointer, "'$id' is allowed at the root only; use '#/$defs/...'", rule="nested_id"
            )
        ]
    value = node.schema["$id"]
    if "#" in value.removesuffix("#") or value == "#":
        return [SchemaRefusal(pointer, f"{value!r:.200} has a fragment", rule="root_id")]
    return []


def resolve_references(nodes: dict[str, Node], dialect: Dialect) -> list[SchemaRefusal]:
    """Give every ``$ref`` its edge; return a problem for each that leads nowhere we go."""
    found: list[SchemaRefusal] = []
    anchors: dict[str, Node] = {}
    for node in nodes.values() if dialect is DRAFT_2020_12 else ():
        name = node.schema.get("$anchor") if isinstance(node.schema, dict) else None
        if name is None:
            continue
        if name in anchors:
            found.append(
                SchemaRefusal(
                    f"{node.pointer}/$anchor",
                    f"{name!r:.200} is already at {anchors[name].pointer or '(root)'}",
                    rule="duplicate_anchor",
                )
            )
        anchors[name] = node
    for node in nodes.values():
        if not isinstance(node.schema, dict) or "$ref" not in node.schema:
            continue
        reference = node.schema["$ref"]
        pointer = f"{node.pointer}/$ref"
        if not reference.startswith("#"):
            found.append(
                SchemaRefusal(
                    pointer,
                    f"{reference!r:.200} is outside the document; a reference must start with '#'",
                    rule="remote_ref",
                )
            )
            continue
        fragment = pointer_of_reference(reference[1:])
        is_pointer = fragment == "" or fragment.startswith("/")
        target = nodes.get(fragment) if is_pointer else anchors.get(fragment)
        if target is None:
            found.append(
                SchemaRefusal(
                    pointer, f"{reference!r:.200} does not lead to a subschema", rule="ref_target"
                )
            )
        else:
            link(node, target)
    return found


def find_pattern_problems(nodes: dict[str, Node], dialect: Dialect) -> list[SchemaRefusal]:
    """Return a problem per regular expression that cannot be used."""
    found: list[SchemaRefusal] = []
    total = 0
    for node in nodes.values():
        if not isinstance(node.schema, dict):
            continue
        if dialect.ref_hides_siblings and "$ref" in node.schema:
            continue
        places = [("/pattern", node.schema["pattern"])] if "pattern" in node.schema else []
        keys = node.schema.get("patternProperties", {})
        places += [(f"/patternProperties/{escape_pointer(key)}", key) for key in keys]
        for suffix, pattern in places:
            pointer = node.pointer + suffix
            try:
                size = compile_pattern(pattern).programsize
            except PatternRefused as exc:
                found.append(SchemaRefusal(pointer, f"{pattern!r:.200} {exc}", rule="pattern"))
                continue
            total += size
            is_key = suffix != "/pattern"
            if is_key and (portable_pattern(pattern) is None or size > MAX_NATIVE_SIZE):
                found.append(
                    SchemaRefusal(
                        pointer,
                        f"{pattern!r:.200} is too complex for a key; use literals, classes,"
                        " groups, alternatives and small repetitions",
                        rule="key_pattern",
                    )
                )
            if total > MAX_PATTERN_STEPS:
                found.append(
                    SchemaRefusal(
                        pointer,
                        f"the patterns up to here compile to more than {MAX_PATTERN_STEPS} steps",
                        rule="pattern_budget",
                    )
                )
                return found
        if len({portable_pattern(key) for key in keys}) < len(keys) and not found:
            found.append(
                SchemaRefusal(
                    f"{node.pointer}/patternProperties",
                    "has two keys that mean the same pattern",
                    rule="key_pattern",
                )
            )
    return found
