"""Warnings about schemas that are legal here and refused, or misread, by model providers.

Never an error: the runtime accepts all of it. Each warning names its rule, so that
``raw tools check`` can show and count them.
"""

from __future__ import annotations

from collections.abc import Iterator

from .compiled import CompiledSchema
from .dialect import DRAFT_07
from .nodes import Node
from .rules import SchemaRefusal

__all__ = ["find_portability_warnings"]

_MAX_NESTING = 5
_BRANCHES = ("oneOf", "anyOf", "allOf", "not", "if")


def find_portability_warnings(
    schema: CompiledSchema, *, base_pointer: str = ""
) -> tuple[SchemaRefusal, ...]:
    """Return what may not work elsewhere, in document order.

    Args:
        schema: A compiled input schema.
        base_pointer: Goes before every pointer.
    """
    found = [*_root_warnings(schema), *_recursion(schema.root)]
    seen: set[int] = set()
    pending = [(schema.root, 0)]
    while pending:
        node, depth = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        found += _node_warnings(node, depth)
        pending += [(edge.target, depth + (not edge.in_place)) for edge in reversed(node.edges)]
    return tuple(SchemaRefusal(base_pointer + w.pointer, w.message, rule=w.rule) for w in found)


def _root_warnings(schema: CompiledSchema) -> Iterator[SchemaRefusal]:
    root = schema.root.schema
    if not isinstance(root, dict) or root.get("type") != "object":
        yield SchemaRefusal("", "root has no 'type': 'object'", rule="root_not_object")
    for keyword in _BRANCHES:
        if isinstance(root, dict) and keyword in root:
            yield SchemaRefusal(
                f"/{keyword}", f"{keyword!r} at the root is refused by some", rule="root_branches"
            )
    if schema.dialect is DRAFT_07:
        yield SchemaRefusal("/$schema", "draft-07 is not read by all", rule="draft_07")


def _recursion(root: Node) -> Iterator[SchemaRefusal]:
    """Warn once per reference that leads back to a subschema it is part of."""
    on_path: set[int] = {id(root)}
    done: set[int] = set()
    stack = [(root, iter(root.edges))]
    while stack:
        node, edges = stack[-1]
        edge = next(edges, None)
        if edge is None:
            stack.pop()
            on_path.discard(id(node))
            done.add(id(node))
        elif id(edge.target) in on_path:
            yield SchemaRefusal(
                f"{node.pointer}/$ref", "a recursive '$ref' is refused by some", rule="recursive"
            )
        elif id(edge.target) not in done:
            on_path.add(id(edge.target))
            stack.append((edge.target, iter(edge.target.edges)))


def _node_warnings(node: Node, depth: int) -> Iterator[SchemaRefusal]:
    schema = node.schema
    if not isinstance(schema, dict):
        if depth and schema is True:
            yield SchemaRefusal(node.pointer, "a boolean schema is refused by some", rule="boolean")
        return
    if "properties" in schema and schema.get("additionalProperties") is not False:
        yield SchemaRefusal(node.pointer, "'additionalProperties' is not false", rule="open_object")
    for name in schema.get("properties", ()):
        if not name.isascii():
            yield SchemaRefusal(
                node.pointer, f"property name {name!r:.80} is not ASCII", rule="property_name"
            )
    if isinstance(schema.get("type"), list):
        yield SchemaRefusal(
            f"{node.pointer}/type", "a list of types is refused by some", rule="type_union"
        )
    if schema.get("type") == "array" and not any(k in schema for k in ("items", "prefixItems")):
        yield SchemaRefusal(node.pointer, "an array has no 'items'", rule="array_items")
    says_nothing = not any(
        k in schema for k in ("type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf")
    )
    if depth and says_nothing:
        yield SchemaRefusal(node.pointer, "has no 'type'", rule="untyped")
    if depth == _MAX_NESTING + 1 and "properties" in schema:
        yield SchemaRefusal(
            node.pointer, f"is nested deeper than {_MAX_NESTING} levels", rule="deep"
        )
