"""Documentation that repeats the code is generated, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from raw_exec.dispatch.outcome import CODES

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A moved page must take its links along."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_outcome_code_is_documented() -> None:
    """docs/errors.md is written from the table that the code uses."""
    page = (ROOT / "docs" / "errors.md").read_text()
    assert [code for code in CODES if f"| `{code}` |" not in page] == []


def test_every_host_code_that_the_source_raises_is_in_the_table() -> None:
    """A code that is not listed could not be looked up."""
    found = set()
    for path in (ROOT / "raw_exec" / "dispatch").glob("*.py"):
        found |= set(re.findall(r'(?:CallRefused|_failed)\(\s*"([a-z_]+)"', path.read_text()))
    assert found
    assert found <= set(CODES)
