"""The map of reports is whole: each one has a test that exists, or a reason."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.corpus import by_id
from tests.reported.reports import REPORTS

_REPORT = re.compile(r"(?:([\w.-]+(?:/[\w.-]+)?) )?\(?(?:PR )?#(\d+)")
_TESTS = sorted({test for report in REPORTS.values() for test in report.tests})


def reports_in(text: str) -> set[str]:
    """Return the reports that the tables of a document name in their first column."""
    found = set()
    for line in text.splitlines():
        repository = ""
        if line.startswith("| ") and "#" in line:
            for named, number in _REPORT.findall(line.split("|")[1]):
                repository = named if named not in ("", "PR") else repository
                found.add(f"{repository} #{number}")
    return found


def _cases(function: Any) -> set[str]:
    """Return the ids of a parametrised test that has one parameter."""
    found: set[str] = set()
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            found |= {str(getattr(value, "id", None) or value) for value in mark.args[1]}
    return found


@pytest.mark.parametrize("test", _TESTS)
def test_a_named_test_exists(test: str) -> None:
    """The map would be worth nothing if a test could be renamed away from it."""
    if test.startswith("attacks:"):
        assert test.removeprefix("attacks:") in by_id()
        return
    path, _, name = test.partition("::")
    name, _, case = name.removesuffix("]").partition("[")
    module = importlib.import_module("tests." + path.removesuffix(".py").replace("/", "."))
    function = getattr(module, name)
    assert inspect.getdoc(function)
    assert not case or case in _cases(function)


def test_every_report_has_a_test_or_a_reason() -> None:
    """Nothing is dropped silently."""
    assert [ident for ident, report in REPORTS.items() if not (report.tests or report.reason)] == []


def test_every_test_here_belongs_to_a_report() -> None:
    """A test of this folder that no report asks for belongs elsewhere."""
    folder = Path(__file__).parent
    written = {
        f"reported/{path.name}::{name}"
        for path in folder.glob("test_*.py")
        if path.name != Path(__file__).name
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert written == {test for test in _TESTS if test.startswith("reported/")}


def test_the_map_has_exactly_the_reports_that_were_collected(shared: Path) -> None:
    """Each report of the research is in the map, and the map invents none."""
    text = (shared / "research" / "issues.md").read_text()
    assert reports_in(text) == set(REPORTS)
