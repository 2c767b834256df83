"""From the arguments of a strict schema back to the tool's own: ``null`` becomes absent.

A strict schema makes every property required, and one that was optional nullable. So a
``null`` there says that the property is left out. A ``null`` that the tool itself accepts
stays, since no property is made nullable that was already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..schema import CompiledSchema, compile_schema

__all__ = ["Restoration", "restore"]


@dataclass
class Restoration:
    """What is to be done with a value of one subschema.

    Args:
        properties: By property name.
        absent: Properties whose ``null`` means that they are left out.
        items: For the items of an array.
        branches: One of these applies: the first that the value fits.
        target: For a reference: what it leads to, since it may lead back here.
    """

    properties: dict[str, Restoration] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    items: Restoration | None = None
    branches: tuple[Branch, ...] = ()
    target: Callable[[], Restoration] | None = None


@dataclass
class Branch:
    """One way of an ``anyOf``.

    Args:
        schema: The projected subschema.
        definitions: What its references lead to.
        restoration: For a value that fits it.
    """

    schema: dict[str, Any]
    definitions: Mapping[str, Any]
    restoration: Restoration

    @cached_property
    def compiled(self) -> CompiledSchema:
        """The subschema, compiled when it is first needed."""
        return compile_schema({**self.schema, "$defs": dict(self.definitions)})


def restore(value: Any, plan: Restoration) -> Any:
    """Return a value as the tool's own schema means it; nothing is changed in place."""
    while plan.target is not None:
        plan = plan.target()
    if plan.branches:
        for branch in plan.branches:
            if branch.compiled.is_valid(value):
                return restore(value, branch.restoration)
        return value  # it is wrong, and will be refused with an explanation
    if isinstance(value, dict):
        return {
            name: restore(item, plan.properties[name]) if name in plan.properties else item
            for name, item in value.items()
            if not (item is None and name in plan.absent)
        }
    if isinstance(value, list) and plan.items is not None:
        return [restore(item, plan.items) for item in value]
    return value
