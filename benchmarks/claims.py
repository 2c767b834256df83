"""What a claim is: one table, the code that fills it, and the goals judged from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from .report import Goal, Section

__all__ = ["Bench", "BenchmarkFailed", "Claim"]


class BenchmarkFailed(Exception):
    """A contestant did something else than what is being timed."""


@dataclass(frozen=True, slots=True)
class Bench:
    """One run.

    Args:
        work: Private folder, removed at the end.
        cache: Where the compiled wasm engine is kept from one run to the next.
        quick: Fewer rounds, for a look.
        rounds: Instead of each table's own number of rounds.
    """

    work: Path
    cache: Path
    quick: bool = False
    rounds: int | None = None

    def round_count(self, full: int, quick: int) -> int:
        """Return how many rounds a table takes."""
        if self.rounds is not None:
            return self.rounds
        return quick if self.quick else full

    def size(self, full: int, quick: int) -> int:
        """Return a size that ``--rounds`` does not change."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Claim:
    """One table.

    Args:
        key: Short name, as ``--only`` takes it.
        title: Heading.
        unit: Of all summaries.
        base: The contestant that ratios refer to; ``""`` for none.
        run: Fills the section.
        judge: Derives the goals from the section, whether or not ``run`` came to its end.
    """

    key: str
    title: str
    unit: str
    base: str
    run: Callable[[Bench, Section], Awaitable[None]]
    judge: Callable[[Section], list[Goal]]
