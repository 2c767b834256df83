"""Run the cases that a tool ships, and check that its declared effects are what it does."""

from __future__ import annotations

from .case import Case, parse_case
from .effects import Change
from .formats import render_github, render_junit
from .report import CaseReport, Finding, ToolReport, count_statuses, from_problems
from .run import ToolCases, find_cases, run_cases

__all__ = [
    "Case",
    "CaseReport",
    "Change",
    "Finding",
    "ToolCases",
    "ToolReport",
    "count_statuses",
    "find_cases",
    "from_problems",
    "parse_case",
    "render_github",
    "render_junit",
    "run_cases",
]
