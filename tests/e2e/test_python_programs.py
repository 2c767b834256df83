"""What a Python handler may start: its own interpreter, with the grant and not without."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import raw_exec
from toolbox import footprint, py_config

SECONDS = 60
START = """\
done = subprocess.run([sys.executable, "-I", "-c", "print(6 * 7)"], capture_output=True, text=True)
return {"content": [{"type": "text", "text": done.stdout + done.stderr}]}"""


def _grant(tier: str, processes: str) -> dict[str, object]:
    profile = {"extends": "workspace", "processes": processes, "tier": tier}
    return {"sandbox": {"profiles": {"p": profile}, "tools": {"agent/t": "p"}}}


@pytest.mark.parametrize("simulate", [(), ("no-userns", "no-cgroup")])
async def test_a_handler_starts_its_own_interpreter_with_the_grant(
    tmp_path: Path, simulate: tuple[str, ...]
) -> None:
    """Wherever Python is installed, and although the supervisor's may be a link to it."""
    before = footprint()
    config = py_config(
        tmp_path, START, before="import subprocess, sys", **_grant("baseline", "allowed")
    )
    with trio.fail_after(SECONDS):
        async with raw_exec.open_runtime(config, cwd=tmp_path, simulate=simulate) as runtime:
            result = await runtime.registry.dispatch("t", {})
    assert (result.text, result.is_error) == ("42\n", False), result
    assert footprint() == before


async def test_a_handler_starts_nothing_without_the_grant(tmp_path: Path) -> None:
    """The pair of the test above."""
    config = py_config(
        tmp_path, START, before="import subprocess, sys", **_grant("baseline", "none")
    )
    with trio.fail_after(SECONDS):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            result = await runtime.registry.dispatch("t", {})
    assert result.is_error
    assert "PermissionError" in result.text
