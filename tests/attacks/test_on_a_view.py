"""The same attacks under ``effects: observed``, where each call runs on a copy-on-write view.

A sample; ``python tests/attacks/table.py --effects observed`` runs every case.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from requires import require
from tests.attacks.corpus import by_id
from tests.attacks.fixtures import World
from tests.attacks.lab import TierMissing
from tests.attacks.lab_thread import LabThread, open_lab_thread
from toolbox import HAS_NODE

SAMPLE = (
    "F01.py", "F03.py", "F03.js", "F05.py", "F06.js", "F08.procs", "F10.py", "F19.py", "F20.py",
    "F25.py", "F26.js", "N01.py", "P04.py", "M09.lock", "K02.py", "K04.py",
)  # fmt: skip


@pytest.fixture(scope="module")
def lab(world: World) -> Iterator[LabThread]:
    """One open runtime whose profiles all observe."""
    require("node", HAS_NODE, "no node on PATH")
    with open_lab_thread(world, "namespaces", "fresh", "observed") as thread:
        yield thread


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_an_attack_on_a_view_is_contained(lab: LabThread, name: str) -> None:
    """A view adds mounts and a way back into the real tree; it takes nothing away."""
    case = by_id()[name]
    try:
        verdict = lab.run(case)
        if verdict.problems and all(problem.startswith("U2") for problem in verdict.problems):
            verdict = lab.run(case)  # slow once may be the machine; slow twice is not
    except TierMissing as missing:
        require("userns", False, str(missing))
        raise
    assert verdict.problems == []
