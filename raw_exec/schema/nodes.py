"""A schema as a graph: one node per subschema, one edge per way to get to another.

Everything that reasons about a schema (references, budgets, paths) works on
this graph, so keyword tables and pointer handling exist once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from ..values import escape_pointer
from .dialect import Dialect, Shape

__all__ = ["Edge", "Node", "children", "link", "pointer_of_reference"]

_IN_PLACE = frozenset({Shape.ONE, Shape.LIST, Shape.MAP, Shape.DEPENDENCIES})


@dataclass(slots=True)
class Edge:
    """One step from a subschema to another.

    Args:
        keyword: The keyword that makes the step, ``"$ref"`` included.
        key: Property name, pattern, or index under the keyword, when it has one.
        target: Where the step leads.
        in_place: Whether the target applies to the very same value.
    """

    keyword: str
    key: str | int | None
    target: Node
    in_place: bool


@dataclass(slots=True)
class Node:
    """One subschema.

    Args:
        pointer: JSON Pointer within the schema document.
        schema: The subschema; ours to change, no caller shares it.
        edges: Steps from here, in document order.
    """

    pointer: str
    schema: Any
    edges: list[Edge] = field(default_factory=list)


def children(schema: Any, dialect: Dialect) -> Iterator[tuple[str, str | int | None, Any, Shape]]:
    """Yield ``(keyword, key, subschema, shape)`` of each direct subschema.

    Keywords that a draft-07 ``$ref`` makes void are left out, definitions are not.
    """
    if not isinstance(schema, dict):
        return
    hidden = dialect.ref_hides_siblings and "$ref" in schema
    for keyword, value in schema.items():
        shape = dialect.keywords.get(keyword)
        if shape is None or shape is Shape.ASSERTION:
            continue
        if hidden and shape is not Shape.DEFINITIONS:
            continue
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield keyword, index, item, shape
        elif isinstance(value, dict) and shape in (
            Shape.MAP, Shape.CHILD_MAP, Shape.DEFINITIONS, Shape.DEPENDENCIES,
        ):  # fmt: skip
            for name, item in value.items():
                if shape is not Shape.DEPENDENCIES or not isinstance(item, list):
                    yield keyword, name, item, shape
        else:
            yield keyword, None, value, shape


def collect(root: Any, dialect: Dialect) -> dict[str, Node]:
    """Return every subschema of a document by its pointer, joined by edges (no ``$ref`` yet)."""
    nodes = {"": Node("", root)}
    pending = [nodes[""]]
    while pending:
        node = pending.pop()
        for keyword, key, schema, shape in children(node.schema, dialect):
            pointer = f"{node.pointer}/{escape_pointer(keyword)}"
            if key is not None:
                pointer += f"/{escape_pointer(str(key))}"
            child = nodes[pointer] = Node(pointer, schema)
            pending.append(child)
            if shape is not Shape.DEFINITIONS:
                node.edges.append(Edge(keyword, key, child, shape in _IN_PLACE))
    return nodes


def link(node: Node, target: Node) -> None:
    """Add the ``$ref`` edge of ``node``."""
    node.edges.append(Edge("$ref", None, target, in_place=True))


def pointer_of_reference(fragment: str) -> str:
    """Return the JSON Pointer in a URI fragment, percent-decoded."""
    return unquote(fragment, errors="replace")
