"""Bounds on the work that a schema can cause, at load and per value.

Both engines walk every way through a schema, so a few lines that double at each
level (``allOf`` of one reference twice, forty times) would never finish. Time
cannot be the guard: the fast engine does not stop when told. So the ways are
counted instead.

* At load, ``measure_schema`` walks every way from the root once, stopping where
  a reference returns to a subschema already on its way. More than ``MAX_PATHS``
  is refused.
* Per value, ``find_excess`` costs nothing for a schema whose work is in proportion
  to the value (``fanout.is_linear``); for any other it counts the evaluations that
  this very value would cause, each (subschema, value) pair once, and refuses beyond
  ``MAX_EVALUATIONS``.

The fast engine remembers the verdict of a recursive reference per value
(measured), so such a reference is counted once per value and not once per way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from .fanout import MAX_FANOUT, is_linear, repeats, weight_of
from .nodes import Edge, Node
from .rules import SchemaRefusal

__all__ = [
    "MAX_CHAIN",
    "MAX_EVALUATIONS",
    "MAX_PATHS",
    "Cost",
    "find_excess",
    "measure_plain",
    "measure_schema",
]

MAX_PATHS: Final = 20_000
"""Ways through one schema. About 20 ms to count."""

MAX_CHAIN: Final = 64
"""Subschemas one inside the other that apply to one value; bounds the engines' stacks."""

MAX_EVALUATIONS: Final = 4_000_000
"""Evaluations for one value; the fast engine does 3 to 20 per microsecond."""

_MAX_STEPS: Final = 200_000
"""Steps of counting before a value counts as too large; about 1 microsecond each."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a schema can cost.

    Args:
        paths: Ways through it, each weighted by what it checks.
        recursive: ``id`` of each edge that closes a cycle.
        is_linear: Whether the work is in proportion to the value.
    """

    paths: int
    recursive: frozenset[int]
    is_linear: bool


def measure_schema(root: Node) -> Cost | SchemaRefusal:
    """Count the ways through a schema; refuse cycles without progress and excess.

    The walk is a depth-first search with an explicit stack, so that its own depth
    is bounded by ``MAX_PATHS`` and not by the interpreter's stack.
    """
    paths = weight_of(root.schema)
    recursive: set[int] = set()
    on_path = {id(root): 0}
    stack: list[tuple[Node, Iterator[Edge], int, int]] = [
        (root, iter(root.edges), 0, repeats(root.schema))
    ]
    while stack:
        node, edges, chain, factor = stack[-1]
        edge = next(edges, None)
        if edge is None:
            stack.pop()
            del on_path[id(node)]
            continue
        target = edge.target
        where = f"{node.pointer}/{edge.keyword}"
        if id(target) in on_path:
            if edge.in_place and chain >= len(stack) - 1 - on_path[id(target)]:
                return SchemaRefusal(
                    where,
                    f"leads back to {target.pointer or '(root)'} without consuming any input",
                    rule="ref_cycle",
                )
            recursive.add(id(edge))
            paths += 1
            continue
        chain = chain + 1 if edge.in_place else 0
        if chain > MAX_CHAIN:
            return SchemaRefusal(
                where,
                f"is more than {MAX_CHAIN} subschemas deep for one and the same value",
                rule="chain_depth",
            )
        paths += weight_of(target.schema) * (factor if edge.in_place else 1)
        if paths > MAX_PATHS:
            return SchemaRefusal(
                where,
                f"there are more than {MAX_PATHS} ways through the schema up to here; let"
                " alternatives share fewer references",
                rule="work_budget",
            )
        on_path[id(target)] = len(stack)
        stack.append(
            (
                target,
                iter(target.edges),
                chain,
                repeats(target.schema) * (factor if edge.in_place else 1),
            )
        )
    return Cost(paths, frozenset(recursive), is_linear(root))


_ONE_EACH: Final = frozenset(("properties", "additionalProperties", "items", "prefixItems"))
"""Keywords that lead every member of a value to at most one subschema."""


def measure_plain(nodes: Iterable[Node]) -> Cost | None:
    """Measure a schema without references and alternatives, as most are, in one pass.

    Returns:
        What ``measure_schema`` would; ``None`` when that has to look.
    """
    paths = widest = 0
    for node in nodes:
        for edge in node.edges:
            if edge.in_place or edge.keyword not in _ONE_EACH:
                return None
        weight = weight_of(node.schema)
        paths += weight
        widest = max(widest, weight)
    if paths > MAX_PATHS or widest > MAX_FANOUT:
        return None
    return Cost(paths, frozenset(), is_linear=True)


def count_values(value: Any, stop: int) -> int:
    """Count the members of all containers in a JSON value, giving up beyond ``stop``."""
    count = 1
    pending = [value]
    for item in pending:
        # Grows while it is read: breadth first, no pop, measured at a third of the time.
        if isinstance(item, dict):
            members = item.values()
        elif isinstance(item, list):
            members = item  # type: ignore[assignment]
        else:
            continue
        count += len(item)
        if count > stop:
            break
        pending.extend(members)
    return count


def find_excess(root: Node, cost: Cost, value: Any) -> str | None:
    """Return why checking ``value`` would take too long, or None to go ahead."""
    if cost.is_linear:
        return None
    ways = cost.paths * (len(cost.recursive) + 1)
    most = MAX_EVALUATIONS // ways
    if count_values(value, most) <= most:
        return None
    try:
        return _Counter(cost).run(root, value)
    except RecursionError:
        return "is nested too deeply for a schema with so many alternatives"


class _Counter:
    """Counts evaluations of one value. Every (subschema, value) pair is worked out once."""

    def __init__(self, cost: Cost) -> None:
        self.recursive = cost.recursive
        self.steps = 0
        self.known: dict[tuple[int, int], int] = {}
        self.weights: dict[int, int] = {}
        self.pending: list[tuple[Node, Any]] = []
        self.seen: set[tuple[int, int]] = set()

    def run(self, root: Node, value: Any) -> str | None:
        self.pending.append((root, value))
        total = 0
        while self.pending:
            total += self._count(*self.pending.pop())
            if total > MAX_EVALUATIONS:
                return f"would take more than {MAX_EVALUATIONS} evaluations of the schema"
            if self.steps > _MAX_STEPS:
                return "is too large for a schema with so many alternatives"
        return None

    def _count(self, node: Node, value: Any) -> int:
        # `id` identifies a value: the document outlives the count, and equal small scalars
        # may share an entry, since a scalar has no members to tell them apart.
        key = (id(node), id(value))
        known = self.known.get(key)
        if known is not None:
            return known
        total = self.weights.get(id(node), 0)
        if not total:
            total = self.weights[id(node)] = weight_of(node.schema)
        factor = repeats(node.schema)
        for edge in node.edges:
            for item in (value,) if edge.in_place else _members(edge, value):
                self.steps += 1
                if self.steps > _MAX_STEPS or total > MAX_EVALUATIONS:
                    return total  # `run` refuses, so the rest does not matter
                if id(edge) in self.recursive:
                    total += 1
                    again = (id(edge.target), id(item))
                    if again not in self.seen:
                        self.seen.add(again)
                        self.pending.append((edge.target, item))
                else:
                    total += self._count(edge.target, item) * (factor if edge.in_place else 1)
        self.known[key] = total
        return total


def _members(edge: Edge, value: Any) -> Iterator[Any]:
    """Yield the values that a child edge can apply to; more than it does is fine, less is not."""
    keyword = edge.keyword
    if isinstance(value, dict):
        if keyword == "properties":
            if edge.key in value:
                yield value[edge.key]
        elif keyword == "propertyNames":
            yield from value
        elif keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties"):
            yield from value.values()
    elif isinstance(value, list):
        if keyword in ("prefixItems", "items") and isinstance(edge.key, int):
            yield from value[edge.key : edge.key + 1]
        elif keyword in ("items", "additionalItems", "contains", "unevaluatedItems"):
            yield from value
