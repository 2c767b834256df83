"""Compare two versions of a contract: what changed where, and whether it breaks anything.

Each change says what it does to the set of values that the schema accepts. Rules:

1. Never optimistic. What is not understood (``$ref``, ``not``, a changed pattern…) counts as
   changing the set in both directions.
2. An argument that is not declared counts as never sent, since bindings drop it; only
   ``additionalProperties: true`` says that it may be. So a new optional argument widens, and
   one that is gone narrows, although JSON Schema alone would see it the other way round.
   Results are seen as JSON Schema does: one more optional property was allowed before.
   Closing an object narrows: a model does send properties that nobody declared.
3. Arguments: narrowing breaks, since what was accepted may be refused. Results: widening
   breaks, since what could not occur may occur.
4. Texts never break, and are shown all the same: the model reads them.

Pointers are into the new schema; for something that is gone, into the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .schema_diff import Effect, Role, diff_schemas, shown

__all__ = [
    "Change",
    "Comparison",
    "ContractFace",
    "Effect",
    "compare_contracts",
    "compare_schemas",
]

_BREAKS: Final[dict[Role, frozenset[Effect]]] = {
    "input": frozenset({"narrows", "both"}),
    "output": frozenset({"widens", "both"}),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two schemas.

    Args:
        pointer: JSON Pointer of the place; ``""`` is the root.
        kind: Keyword, ``property``, ``name`` or ``description``.
        message: What was and what is, in a line.
        effect: What it does to the set of accepted values.
        breaking: Whether somebody who relied on the old one may fail now.
    """

    pointer: str
    kind: str
    message: str
    effect: Effect
    breaking: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences, in document order of the new side."""

    changes: tuple[Change, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether nothing differs, texts included."""
        return not self.changes

    @property
    def breaking(self) -> bool:
        """Whether any change is breaking."""
        return any(change.breaking for change in self.changes)


@dataclass(frozen=True, slots=True)
class ContractFace:
    """What a model and an implementation see of a contract or of a tool folder."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None


def compare_contracts(old: ContractFace, new: ContractFace) -> Comparison:
    """Compare name, model-facing description and both schemas.

    To check a tool folder against a contract, the contract is the old side: without a
    breaking change the folder accepts everything that the contract allows. An output schema
    is compared when both have one; one that is gone breaks, a new one does not.
    """
    changes: list[Change] = []
    if old.name != new.name:
        message = f"was {shown(old.name)}, is {shown(new.name)}"
        changes.append(Change("/name", "name", message, "both", True))
    if old.description != new.description:
        message = f"was {shown(old.description)}, is {shown(new.description)}"
        changes.append(Change("/description", "description", message, "text", False))
    changes += compare_schemas(old.input_schema, new.input_schema, at="/inputSchema").changes
    if old.output_schema is not None or new.output_schema is not None:
        was, now = old.output_schema, new.output_schema
        changes += compare_schemas(
            {} if was is None else was,
            {} if now is None else now,
            role="output",
            at="/outputSchema",
        ).changes
    return Comparison(tuple(changes))


def compare_schemas(
    old: Mapping[str, Any] | bool,
    new: Mapping[str, Any] | bool,
    *,
    role: Role = "input",
    at: str = "",
) -> Comparison:
    """Compare two schemas.

    Args:
        role: Whether they are of arguments or of results; see rule 3.
        at: Goes before every pointer.
    """
    breaks = _BREAKS[role]
    return Comparison(
        tuple(
            Change(pointer, kind, message, effect, effect in breaks)
            for pointer, kind, message, effect in diff_schemas(old, new, role, at)
        )
    )
