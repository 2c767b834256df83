"""The same attacks when raw_exec runs as an ordinary user instead of root."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from requires import require
from tests.attacks.table import ordinary_user_command

SAMPLE = (
    "F01", "F06", "F08", "F13", "F15", "F20", "N01", "N06", "N07", "P01", "P02", "P04", "P11",
    "P12", "P19", "M02.buffer", "M03.bytes", "W00", "W07", "S06", "S17", "K01", "K02", "K03",
    "K04", "K12", "A01",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tier", ["baseline", "namespaces"])
def test_attacks_are_contained_for_an_ordinary_user(tier: str) -> None:
    """Workers of an ordinary user share its uid with everything of that user."""
    require("root", os.geteuid() == 0, "only root can become an ordinary user")
    arguments = [part for start in SAMPLE for part in ("--case", start)]
    found = ordinary_user_command(["--json", "--tier", tier, "--isolation", "pooled", *arguments])
    require("ordinary-user", not isinstance(found, str), str(found))
    assert not isinstance(found, str)
    done = subprocess.run(found.command, env=found.env, capture_output=True, text=True, cwd="/",
                          user=found.uid, group=found.uid, extra_groups=[])  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    missing = [row["missing"] for row in rows if "missing" in row]
    require("userns", not missing, f"an ordinary user has no tier {tier}: {missing}")
    wrong = {row["case"]: row["problems"] for row in rows if row["problems"]}
    assert (wrong, done.stderr) == ({}, "")
    assert len(rows) > len(SAMPLE)
