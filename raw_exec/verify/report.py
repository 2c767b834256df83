"""What came of the cases of one or more tools, as values and as JSON data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import Problem
from ..jsontext import locate
from .effects import Change

__all__ = ["CaseReport", "Finding", "ToolReport", "count_statuses"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a case, or that its author should know.

    Args:
        kind: ``result``, ``code``, ``host``, ``content``, ``files``, ``effects``,
            ``undeclared``, ``folder`` or ``invalid`` for a failure; ``undone``, ``outside``
            or ``grants`` for a warning.
        pointer: Into the case file.
        line: In the case file, from 1, when known.
    """

    kind: str
    message: str
    pointer: str = ""
    line: int | None = None
    column: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "kind": self.kind,
            "message": self.message,
            "pointer": self.pointer,
            "line": self.line,
            "column": self.column,
        }


@dataclass(frozen=True, slots=True)
class CaseReport:
    """What came of one case.

    Args:
        name: Of the case.
        path: The case file.
        status: ``"passed"``, ``"failed"``, or ``"invalid"`` when it was not run.
        changes: What happened to files, in order of path.
        outcome: Short form of the call's outcome; empty when it was not run.
        elapsed_ms: Of the call.
    """

    name: str
    path: str
    status: str
    failures: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    changes: tuple[Change, ...] = ()
    description: str = ""
    outcome: Mapping[str, Any] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    elapsed_ms: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "name": self.name,
            "path": self.path,
            "status": self.status,
            "description": self.description,
            "failures": [item.as_dict() for item in self.failures],
            "warnings": [item.as_dict() for item in self.warnings],
            "changes": [item.as_dict() for item in self.changes if item.visible],
            "outcome": dict(self.outcome),
            "logs": dict(self.logs),
            "elapsed_ms": round(self.elapsed_ms, 3),
        }


@dataclass(slots=True)
class ToolReport:
    """What came of one tool's cases.

    Args:
        target: Identity, or path of the folder.
        folder: The tool's folder.
        problems: Why the tool could not be loaded; its cases were not run.
        warnings: About the tool as a whole.
        cases: In order of name.
    """

    target: str
    folder: str
    version: str | None = None
    problems: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    cases: list[CaseReport] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "target": self.target,
            "folder": self.folder,
            "version": self.version,
            "problems": [item.as_dict() for item in self.problems],
            "warnings": list(self.warnings),
            "cases": [case.as_dict() for case in self.cases],
        }


def count_statuses(tools: Iterable[ToolReport]) -> dict[str, int]:
    """Count cases by status; a tool that could not be loaded is one invalid case."""
    counts = {"passed": 0, "failed": 0, "invalid": 0}
    for tool in tools:
        counts["invalid"] += bool(tool.problems)
        for case in tool.cases:
            counts[case.status] += 1
    return counts


def place(text: str, finding: Finding) -> Finding:
    """Give a finding the line of what it is about."""
    line, column = locate(text, finding.pointer)
    return Finding(finding.kind, finding.message, finding.pointer, line, column)


def from_problems(problems: Iterable[Problem]) -> tuple[Finding, ...]:
    """Turn what a parser found into findings."""
    return tuple(
        Finding("invalid", item.message, item.pointer, item.line, item.column) for item in problems
    )
