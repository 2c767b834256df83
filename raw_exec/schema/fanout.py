"""How many subschemas can look at one and the same value?

For nearly every schema the answer is small at every place of every value, and then the
work is in proportion to the value and needs no further guard. The places are explored
like the states of an automaton: a state is the collection of subschemas that apply to a
value, and a property name or an item leads to the next state. Recursive schemas come
back to a state already seen, unless they multiply, and then the numbers soon exceed the
limit.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from .nodes import Edge, Node
from .patterns import MAX_NATIVE_SIZE, compile_pattern

__all__ = ["MAX_FANOUT", "is_linear", "repeats", "weight_of"]

MAX_FANOUT: Final = 64
"""Subschemas per value; 16 alternatives with a discriminator have about 20."""

_MAX_STATES: Final = 2_000
_ANY_PROPERTY: Final = ("patternProperties", "additionalProperties", "unevaluatedProperties")
_UNEVALUATED: Final = ("unevaluatedItems", "unevaluatedProperties")

_State = Counter[int]


def weight_of(schema: Any) -> int:
    """Return what one visit costs beyond a constant: values compared with, names looked up."""
    if not isinstance(schema, dict):
        return 1
    # The fast engine looks scalars up in a table, but compares containers one by one.
    containers = sum(isinstance(choice, dict | list) for choice in schema.get("enum") or ())
    names = len(schema.get("required") or ()) // 16
    keys = schema.get("patternProperties") or ()
    patterns = [*keys, schema["pattern"]] if "pattern" in schema else keys
    return 1 + containers + names + len(keys) + sum(map(_pattern_weight, patterns))


def _pattern_weight(pattern: str) -> int:
    """A large pattern has a budget of its own; see ``engines.SearchBudget``."""
    size: int = compile_pattern(pattern).programsize
    return min(size, MAX_NATIVE_SIZE) // 32


def repeats(schema: Any) -> int:
    """Return how often what is beside ``unevaluated*`` is evaluated (measured: 2.7 times)."""
    return 3 if isinstance(schema, dict) and any(k in schema for k in _UNEVALUATED) else 1


def is_linear(root: Node) -> bool:
    """Return whether at most ``MAX_FANOUT`` subschemas apply to any one value."""
    known: dict[int, Node] = {}
    seen: set[frozenset[tuple[int, int]]] = set()
    pending: list[_State] = [_state([(root, 1)], known)]
    while pending:
        state = pending.pop()
        key = frozenset(state.items())
        if key in seen:
            continue
        seen.add(key)
        if len(seen) > _MAX_STATES:
            return False
        edges = _expand(state, known)
        if edges is None:
            return False
        pending += [_state(targets, known) for targets in _next(edges)]
    return True


def _state(targets: list[tuple[Node, int]], known: dict[int, Node]) -> _State:
    state: _State = Counter()
    for node, count in targets:
        known[id(node)] = node
        state[id(node)] += count
    return state


def _expand(state: _State, known: dict[int, Node]) -> list[tuple[Edge, int]] | None:
    """Return the edges to members, with how often each is taken; None above the limit."""
    total = 0
    out: list[tuple[Edge, int]] = []
    pending = [(known[identity], count) for identity, count in state.items()]
    while pending:
        node, count = pending.pop()
        total += count * weight_of(node.schema)
        if total > MAX_FANOUT:
            return None
        again = count * repeats(node.schema)
        for edge in node.edges:
            if edge.in_place:
                pending.append((edge.target, again))
            else:
                out.append((edge, count))
    return out


def _next(edges: list[tuple[Edge, int]]) -> list[list[tuple[Node, int]]]:
    """Group edges by the member they lead to; one that fits any member is in every group."""
    any_property = [(e.target, n) for e, n in edges if e.keyword in _ANY_PROPERTY]
    names = [(e.target, n) for e, n in edges if e.keyword == "propertyNames"]
    properties: dict[Any, list[tuple[Node, int]]] = {}
    positions: dict[int, list[tuple[Node, int]]] = {}
    any_item: list[tuple[Node, int]] = []
    for edge, count in edges:
        if edge.keyword == "properties":
            properties.setdefault(edge.key, []).append((edge.target, count))
        elif isinstance(edge.key, int):
            positions.setdefault(edge.key, []).append((edge.target, count))
        elif edge.keyword not in _ANY_PROPERTY and edge.keyword != "propertyNames":
            any_item.append((edge.target, count))
    groups = [any_property, names, any_item]
    groups += [group + any_property for group in properties.values()]
    groups += [group + any_item for group in positions.values()]
    return [group for group in groups if group]
