"""Every case of the corpus is contained: its own expectation and the universal oracle.

By default every fourth case runs once, in one column of the matrix, in turn;
``RAW_EXEC_ATTACKS=each`` runs every case once. ``RAW_EXEC_ATTACKS=all`` runs the whole matrix;
so does ``make attacks``, as a table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from requires import require
from tests.attacks.corpus import CASES, EXCLUDED, by_id
from tests.attacks.fixtures import World
from tests.attacks.gaps import GAPS
from tests.attacks.lab import TierMissing
from tests.attacks.lab_thread import LabThread, open_lab_thread
from tests.attacks.model import ISOLATIONS, TIERS, Case
from toolbox import HAS_NODE

COLUMNS = [(tier, isolation) for tier in TIERS for isolation in ISOLATIONS]


def _cells() -> list[tuple[tuple[str, str], Case]]:
    """Which case runs in which column."""
    wanted = os.environ.get("RAW_EXEC_ATTACKS", "sample")
    everything = wanted == "all"
    cells = []
    for index, case in enumerate(CASES):
        if wanted == "sample" and index % 4:
            continue
        columns = [c for c in COLUMNS if c[0] in case.tiers]
        if case.once:
            columns = columns[:1]
        elif not everything:
            columns = [columns[(index // 4) % len(columns)]]
        cells += [(column, case) for column in columns]
    return sorted(cells, key=lambda cell: COLUMNS.index(cell[0]))


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest, world: World) -> Iterator[LabThread]:
    """One open runtime for a column."""
    require("node", HAS_NODE, "no node on PATH")
    with open_lab_thread(world, *request.param) as thread:
        yield thread


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lab", "case"),
    [pytest.param(c, case, id=f"{c[0]}-{c[1]}-{case.id}") for c, case in _cells()],
    indirect=["lab"],
)
def test_attack_is_contained(lab: LabThread, case: Case) -> None:
    """Corpus §1 to §10; a known gap has to be seen open, or the table is stale."""
    require(lab_name(lab), lab.missing is None, str(lab.missing))
    try:
        verdict = lab.run(case)
        if verdict.problems and all(problem.startswith("U2") for problem in verdict.problems):
            verdict = lab.run(case)  # slow once may be the machine; slow twice is not
    except TierMissing as missing:
        require(lab_name(lab), False, str(missing))
        raise
    assert verdict.problems == []


def lab_name(lab: LabThread) -> str:
    """Return the word for ``RAW_EXEC_REQUIRE``."""
    return {"baseline": "landlock", "namespaces": "userns"}.get(lab._tier, lab._tier)


def test_every_corpus_id_has_a_case_or_a_reason(shared: Path) -> None:
    """Nothing of the corpus is dropped silently."""
    text = (shared / "attacks" / "corpus.md").read_text()
    wanted = set(re.findall(r"^\| ([A-Z]\d\d) \|", text, re.MULTILINE))
    covered = {case.corpus_id for case in CASES}
    assert wanted - covered - set(EXCLUDED) == set()
    assert set(EXCLUDED) - wanted == set()


def test_case_ids_are_unique_and_gaps_have_names() -> None:
    """The table and the tool folders are keyed by id; SECURITY.md by gap name."""
    assert len(by_id()) == len({case.tool for case in CASES}) == len(CASES)
    assert {gap.name for case in CASES for gap in case.gaps} <= set(GAPS)
