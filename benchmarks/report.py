"""Statistics, goals, and how they are shown. Pure: no clock, no process, no disk."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Goal",
    "Section",
    "Summary",
    "goal_rows",
    "percentile",
    "ratio_goal",
    "render_goals",
    "render_section",
    "render_table",
    "report_as_json",
    "summarise",
]

FORMAT_VERSION = 1
"""Of the JSON report."""


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` of the values lie, interpolated.

    Args:
        values: At least one, in any order.
        share: 0 to 1; 0.5 is the median.

    Raises:
        ValueError: There are no values, or ``share`` is out of range.
    """
    if not values:
        raise ValueError("no values")
    if not 0 <= share <= 1:
        raise ValueError(f"share must be 0 to 1, got {share!r}")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = math.ceil(place)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(frozen=True, slots=True)
class Summary:
    """What is kept of one contestant's samples, in its table's unit.

    Args:
        name: The contestant.
        count: Samples.
        p50: Median of all samples.
        p90: Of all samples.
        best_round: The best median of a round: the figure of a quiet machine.
        note: What to know about this row.
    """

    name: str
    count: int
    p50: float
    p90: float
    best_round: float
    note: str = ""


def summarise(
    name: str,
    rounds: Iterable[Sequence[float]],
    *,
    scale: float = 1.0,
    higher_is_better: bool = False,
    note: str = "",
) -> Summary:
    """Summarise the samples of one contestant, round by round.

    Args:
        name: The contestant.
        rounds: Samples of each round; empty rounds are left out.
        scale: Multiplies every sample, for example 1000 for seconds to milliseconds.
        higher_is_better: For throughput: the best round is then the highest, and ``p90``
            is the value that 90 % of the samples reach.
        note: What to know about this row.

    Raises:
        ValueError: There are no samples.
    """
    kept = [[value * scale for value in samples] for samples in rounds if samples]
    pooled = [value for samples in kept for value in samples]
    medians = [percentile(samples, 0.5) for samples in kept]
    return Summary(
        name=name,
        count=len(pooled),
        p50=percentile(pooled, 0.5),
        p90=percentile(pooled, 0.1 if higher_is_better else 0.9),
        best_round=max(medians) if higher_is_better else min(medians),
        note=note,
    )


@dataclass(frozen=True, slots=True)
class Goal:
    """One promise and what was measured.

    Args:
        claim: The row of the goals table, in words.
        limit: The number promised.
        measured: The number seen; ``None`` when it could not be measured.
        unit: ``"x"`` for a ratio, else the unit of both numbers.
        at_least: Whether ``limit`` is a floor instead of a ceiling.
        note: How it was measured, or why it was not.
    """

    claim: str
    limit: float
    measured: float | None
    unit: str = "x"
    at_least: bool = False
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the promise was kept; ``None`` when it was not measured."""
        if self.measured is None:
            return None
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    @property
    def promise(self) -> str:
        """The limit in words, for example ``"<= 1.5 x"``."""
        return f"{'>=' if self.at_least else '<='} {_number(self.limit)} {self.unit}"


@dataclass(slots=True)
class Section:
    """One claim's table.

    Args:
        key: Short name, as ``--only`` takes it.
        title: Heading.
        unit: Of all summaries.
        base: The contestant that ratios refer to.
        rows: One per contestant, in order.
        unavailable: Peers that could not take part, with the reason.
        broken: Contestants of ours that failed, with the reason.
        goals: Promises judged from this table.
        notes: What was included and what was not.
        facts: Further numbers for the JSON report.
        failure: Why the section broke off, when it did.
        seconds: How long the section took, set-up included.
    """

    key: str
    title: str
    unit: str
    base: str
    rows: list[Summary] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None
    seconds: float = 0.0

    def row(self, name: str) -> Summary | None:
        """Return a contestant's summary, or ``None`` when it took no part."""
        return next((row for row in self.rows if row.name == name), None)

    def ratio(self, name: str, base: str | None = None) -> float | None:
        """Return the ratio of medians to the base, or ``None`` when one is missing."""
        row, other = self.row(name), self.row(self.base if base is None else base)
        if row is None or other is None or other.p50 == 0:
            return None
        return row.p50 / other.p50

    def difference(self, name: str, base: str) -> float | None:
        """Return the difference of medians, or ``None`` when one is missing."""
        row, other = self.row(name), self.row(base)
        return None if row is None or other is None else row.p50 - other.p50

    def missing(self, *names: str) -> str:
        """Say why the first of these contestants that took no part did not, or ``""``."""
        for name in names:
            if self.row(name) is None:
                known = self.unavailable | self.broken
                return f"{name}: {known.get(name) or self.failure or 'it did not run'}"
        return ""


def ratio_goal(
    section: Section, claim: str, name: str, *, limit: float, base: str | None = None
) -> Goal:
    """Judge the ratio of a contestant's median to the base's."""
    other = section.base if base is None else base
    return Goal(claim, limit, section.ratio(name, other), note=section.missing(name, other))


def _number(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 1:
        return f"{value:.3g}"
    return f"{value:.3f}" if size >= 0.01 else f"{value:.2g}"


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out text cells in columns; the first column is words, the others are numbers."""
    cells = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = []
    for row in cells:
        first = row[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([first, *rest]).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def render_section(section: Section) -> str:
    """Return a section as text for a terminal."""
    lines = [f"{section.title}  [{section.key}, {section.unit}; {section.seconds:.0f} s]"]
    if section.rows:
        rows = []
        for row in section.rows:
            ratio = section.ratio(row.name)
            rows.append(
                (
                    f"{row.name} ({row.note})" if row.note else row.name,
                    str(row.count),
                    _number(row.p50),
                    _number(row.p90),
                    _number(row.best_round),
                    "-" if ratio is None else _number(ratio),
                )
            )
        header = ("contestant", "n", "p50", "p90", "best round", "ratio")
        lines.append(render_table(header, rows))
        if section.base:
            lines.append(f"ratio: of medians, to {section.base!r}")
    lines += [f"not available: {name}: {why}" for name, why in section.unavailable.items()]
    lines += [f"FAILED: {name}: {why}" for name, why in section.broken.items()]
    if section.failure is not None:
        lines.append(f"FAILED: {section.failure}")
    lines += [f"note: {note}" for note in section.notes]
    return "\n".join(lines)


def goal_rows(sections: Iterable[Section]) -> list[dict[str, Any]]:
    """Return every goal as plain data: claim, promise, measured, met, section, note."""
    return [
        {
            "section": section.key,
            "claim": goal.claim,
            "goal": goal.promise,
            "limit": goal.limit,
            "measured": goal.measured,
            "unit": goal.unit,
            "met": goal.met,
            "note": goal.note,
        }
        for section in sections
        for goal in section.goals
    ]


_MET = {True: "yes", False: "NO", None: "not measured"}


def render_goals(sections: Iterable[Section]) -> str:
    """Return the table of goals as text for a terminal."""
    rows = []
    reasons = []
    for section in sections:
        for goal in section.goals:
            measured = "-" if goal.measured is None else f"{_number(goal.measured)} {goal.unit}"
            rows.append((goal.claim, goal.promise, measured, _MET[goal.met]))
            if goal.measured is None and goal.note:
                reasons.append(f"not measured: {goal.claim}: {goal.note}")
    return "\n".join([render_table(("claim", "goal", "measured", "met"), rows), *reasons])


def report_as_json(
    sections: Sequence[Section],
    *,
    host: Mapping[str, Any],
    started: str,
    seconds: float,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the whole report as JSON data."""
    return {
        "format": FORMAT_VERSION,
        "started": started,
        "seconds": round(seconds, 1),
        "options": dict(options),
        "host": dict(host),
        "goals": goal_rows(sections),
        "sections": [_section_as_json(section) for section in sections],
    }


def _section_as_json(section: Section) -> dict[str, Any]:
    return {
        "key": section.key,
        "title": section.title,
        "unit": section.unit,
        "base": section.base,
        "rows": [
            {
                "name": row.name,
                "count": row.count,
                "p50": row.p50,
                "p90": row.p90,
                "best_round": row.best_round,
                "ratio": section.ratio(row.name),
                "note": row.note,
            }
            for row in section.rows
        ],
        "unavailable": dict(section.unavailable),
        "broken": dict(section.broken),
        "notes": list(section.notes),
        "facts": dict(section.facts),
        "failure": section.failure,
        "seconds": round(section.seconds, 1),
    }
