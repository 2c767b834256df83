"""The reference engine's budget: every keyword, error and pattern search takes from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from .patterns import compile_pattern

__all__ = ["MAX_REFERENCE_STEPS", "OutOfSteps", "charge", "metered", "metered_search"]

MAX_REFERENCE_STEPS: Final = 20_000
"""Keyword evaluations of one run, 3 to 10 microseconds each; 16 bad operations take 4,000."""

_UNITS_PER_STEP: Final = 2_000
"""RE2 instructions times bytes; about 5 nanoseconds each at worst."""

_left: ContextVar[list[int]] = ContextVar("_left")


class OutOfSteps(Exception):
    """The reference engine used up its budget."""


@contextmanager
def metered() -> Iterator[None]:
    """Give the code inside a fresh budget."""
    token = _left.set([MAX_REFERENCE_STEPS])
    try:
        yield
    finally:
        _left.reset(token)


def charge(steps: int) -> None:
    """Take steps from the budget.

    Raises:
        OutOfSteps: The budget is used up.
    """
    left = _left.get()
    left[0] -= steps
    if left[0] < 0:
        raise OutOfSteps


def metered_search(pattern: str, text: str) -> bool:
    """Return whether ``pattern`` matches in ``text``, after paying for the search."""
    compiled = compile_pattern(pattern)
    data = text.encode("utf-8", "surrogatepass")
    charge(compiled.programsize * len(data) // _UNITS_PER_STEP)
    return compiled.search(data) is not None
