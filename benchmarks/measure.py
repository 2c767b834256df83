"""Contestants take turns: one interleaved run per table."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from .report import Section, summarise

__all__ = [
    "Contestant",
    "Round",
    "Unavailable",
    "batched",
    "describe_error",
    "first_error",
    "interleave",
    "interleave_into",
    "timed",
]

Round = Callable[[int], Awaitable[list[float]]]
"""Runs that many calls and returns one sample (seconds, or a rate) per call."""


class Unavailable(Exception):
    """A contestant can't take part on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One row of a table.

    Args:
        name: As shown.
        run: Its calls.
        calls: Calls per round; the table's number when 0.
        rounds: Takes part in this many rounds; in all when 0.
        note: What to know about this row.
        is_peer: Whether it is somebody else's program, whose failure is not ours.
    """

    name: str
    run: Round
    calls: int = 0
    rounds: int = 0
    note: str = ""
    is_peer: bool = False


def timed(call: Callable[[], Awaitable[object]]) -> Round:
    """Make a round out of one call: each is timed on its own, one after another."""

    async def run(calls: int) -> list[float]:
        samples = []
        for _ in range(calls):
            start = time.perf_counter()
            await call()
            samples.append(time.perf_counter() - start)
        return samples

    return run


def batched(work: Callable[[], object], batch: int) -> Round:
    """Time batches of something short, on which the clock would weigh too much.

    A sample is the mean of one batch.
    """

    async def run(calls: int) -> list[float]:
        samples = []
        for _ in range(calls):
            start = time.perf_counter()
            for _ in range(batch):
                work()
            samples.append((time.perf_counter() - start) / batch)
        return samples

    return run


async def interleave(
    contestants: Sequence[Contestant], *, rounds: int, calls: int, warm_up: int
) -> tuple[dict[str, list[list[float]]], dict[str, Exception]]:
    """Run every contestant once per round, each round beginning with the next one.

    One that raises takes no further part, and the others go on.

    Returns:
        Samples by contestant, one list per round; and errors by contestant.
    """
    samples: dict[str, list[list[float]]] = {c.name: [] for c in contestants}
    errors: dict[str, Exception] = {}

    async def run(contestant: Contestant, count: int) -> list[float]:
        if contestant.name in errors:
            return []
        try:
            return await contestant.run(count)
        except Exception as exc:
            errors[contestant.name] = exc
            return []

    if warm_up:
        for contestant in contestants:
            await run(contestant, warm_up)
    for number in range(rounds):
        first = number % len(contestants)
        for contestant in (*contestants[first:], *contestants[:first]):
            taken = samples[contestant.name]
            if not contestant.rounds or len(taken) < contestant.rounds:
                taken.append(await run(contestant, contestant.calls or calls))
    return samples, errors


async def interleave_into(
    section: Section,
    contestants: Sequence[Contestant],
    *,
    rounds: int,
    calls: int,
    warm_up: int = 0,
    scale: float = 1.0,
    higher_is_better: bool = False,
) -> None:
    """Run a table and append one summary per contestant to ``section.rows``.

    A contestant that raised gets no row: its error goes to ``section.unavailable`` if it is
    a peer, else to ``section.broken``.
    """
    samples, errors = await interleave(contestants, rounds=rounds, calls=calls, warm_up=warm_up)
    for contestant in contestants:
        name = contestant.name
        error = errors.get(name)
        if error is None:
            summary = summarise(
                name,
                samples[name],
                scale=scale,
                higher_is_better=higher_is_better,
                note=contestant.note,
            )
            section.rows.append(summary)
        else:
            reasons = section.unavailable if contestant.is_peer else section.broken
            reasons[name] = describe_error(error)


def first_error(exc: BaseException) -> BaseException:
    """Return the first error inside groups; the others mostly follow from it."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc


def describe_error(exc: BaseException) -> str:
    """Say what went wrong, in one line or a few."""
    first = first_error(exc)
    if isinstance(first, Unavailable):
        return str(first)
    return f"{type(first).__name__}: {first!s:.500}"
