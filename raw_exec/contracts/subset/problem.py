"""A problem of the subset check, which names its rule."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import Problem

__all__ = ["SubsetProblem"]


@dataclass(frozen=True, slots=True)
class SubsetProblem(Problem):
    """A place of a schema that bindings can not be generated from.

    Args:
        rule: ``"subset"`` for what the seed lists, else the name of a ``Difference``.
    """

    rule: str = "subset"
