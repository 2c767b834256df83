"""The acceptance script, unmodified, with this checkout's `raw` on PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from requires import require, require_node


@pytest.mark.slow
@pytest.mark.parametrize("part", ["first", "vars", "hooks"])
def test_the_walkthrough_passes(shared: Path, part: str) -> None:
    """The names a user types: options, JSON keys, exit codes, refusal codes."""
    require_node()
    binaries = Path(sys.executable).parent
    require("raw", (binaries / "raw").exists(), "raw is not installed beside this Python")
    env = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", str(shared / "acceptance" / "walkthrough.sh"), part],
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout) == (0, f"{part}: ok\n"), done.stderr
