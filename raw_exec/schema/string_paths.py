"""Does a predicate's path lead to a string in a schema?

A path is property names joined by dots, with ``[*]`` after a name per array step:
``files[*].path``. Names that contain ``.``, ``[`` or ``]`` cannot be written.

Security: a rule that can never match would be a rule that silently allows. So the
answer is yes only if some branch of the schema declares a string there, and no branch
that declares the place lets it be anything but a string or null. The answer says
nothing about branches that leave the place undeclared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import re2

from .compiled import CompiledSchema
from .nodes import Node
from .patterns import search

__all__ = ["PathProblem", "parse_path", "resolve_string_path"]

_STEP: Final = re2.compile(r"([^.\[\]]+)((?:\[\*\])*)")
_MAX_PATH_CHARACTERS: Final = 1024
_SAME_VALUE: Final = (
    "$ref", "allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas", "dependencies",
)  # fmt: skip
_ITEM: Final = ("items", "prefixItems", "additionalItems", "unevaluatedItems")
_TEXT: Final = frozenset({"string", "null"})


@dataclass(frozen=True, slots=True)
class PathProblem:
    """Why a path does not lead to a string.

    Args:
        kind: ``"unknown"`` (syntax included) or ``"not_string"``.
        message: Which part of the path, and what is there.
    """

    kind: Literal["unknown", "not_string"]
    message: str

    def __str__(self) -> str:
        return self.message


def parse_path(path: str) -> tuple[str | None, ...] | None:
    """Return the steps of a path, None for each ``[*]``; None if it is malformed."""
    if not path or len(path) > _MAX_PATH_CHARACTERS:
        return None
    steps: list[str | None] = []
    for part in path.split("."):
        match = _STEP.fullmatch(part)
        if match is None:
            return None
        steps.append(match.group(1))
        steps += [None] * (len(match.group(2)) // 3)
    return tuple(steps)


def resolve_string_path(schema: CompiledSchema, path: str) -> PathProblem | None:
    """Return None if ``path`` leads to a string field of ``schema``, else why not.

    Looks through local references, ``properties``, ``patternProperties``, a schema
    under ``additionalProperties``, items, and the branches of ``allOf``, ``anyOf``,
    ``oneOf``, ``then`` and ``else``.

    Args:
        schema: The schema of the arguments or of the effects.
        path: For example ``"files[*].path"``.
    """
    steps = parse_path(path)
    if steps is None:
        return PathProblem(
            "unknown", f"{path!r:.200} is not a path; write names joined by '.', '[*]' per array"
        )
    here = _closure([schema.root])
    shown = ""
    for step in steps:
        found = list(_items(here) if step is None else _members(here, step))
        shown += "[*]" if step is None else f".{step}" if shown else step
        if not found:
            what = "is not an array" if step is None else "is not declared"
            return PathProblem("unknown", f"{shown!r:.200} {what} in the schema")
        here = _closure(found)
    return _judge(here, shown)


def _closure(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes and every branch that applies to the same value."""
    out: dict[int, Node] = {}
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if id(node) not in out:
            out[id(node)] = node
            pending += [e.target for e in node.edges if e.keyword in _SAME_VALUE]
    return list(out.values())


def _members(nodes: list[Node], name: str) -> Iterator[Node]:
    for node in nodes:
        declared = [
            edge.target
            for edge in node.edges
            if (edge.keyword == "properties" and edge.key == name)
            or (edge.keyword == "patternProperties" and search(str(edge.key), name))
        ]
        yield from declared or _declaring(node, ("additionalProperties", "unevaluatedProperties"))


def _items(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield from _declaring(node, _ITEM)


def _declaring(node: Node, keywords: tuple[str, ...]) -> Iterator[Node]:
    """Yield targets that are real schemas: ``true`` and ``false`` declare nothing."""
    for edge in node.edges:
        if edge.keyword in keywords and isinstance(edge.target.schema, dict):
            yield edge.target


def _judge(nodes: list[Node], shown: str) -> PathProblem | None:
    text = False
    for node in nodes:
        kinds = _kinds(node.schema)
        if kinds is None:
            continue
        if not kinds <= _TEXT:
            other = " or ".join(sorted(kinds - _TEXT))
            return PathProblem("not_string", f"{shown!r:.200} can be {other} in the schema")
        text = text or "string" in kinds
    if text:
        return None
    return PathProblem("not_string", f"{shown!r:.200} has no 'type': 'string' in the schema")


def _kinds(schema: Any) -> frozenset[str] | None:
    """Return the types that a subschema's own keywords leave; None if it says nothing."""
    if not isinstance(schema, dict):
        return None
    kinds: frozenset[str] | None = None
    if "type" in schema:
        named = schema["type"]
        kinds = frozenset([named] if isinstance(named, str) else named)
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices is not None:
        of_choices = frozenset(_type_name(choice) for choice in choices)
        kinds = of_choices if kinds is None else kinds & of_choices
    return kinds


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"
