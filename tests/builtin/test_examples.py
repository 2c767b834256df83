"""The tools in examples/tools are there to be copied: renamed, they check and run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import trio

import raw_exec
from raw_exec.cli.checking import check_tool, find_targets, load_target
from requires import require
from toolbox import HAS_NODE, write_config

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "tools"


def fork(name: str, root: Path) -> None:
    """Copy an example as ``mine``: folder, ``id`` and ``name`` renamed together."""
    folder = shutil.copytree(EXAMPLES / name, root / "tools" / "mine")
    manifest = json.loads((folder / "tool.json").read_text())
    manifest |= {"id": "mine", "name": "mine"}
    (folder / "tool.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("name", ["append_notes", "line_count"])
async def test_a_renamed_copy_passes_the_check(tmp_path: Path, name: str) -> None:
    """Seed 2: fork examples/tools into a user root; rename folder, manifest and name."""
    require("node", HAS_NODE or name == "line_count", "no node on PATH")
    fork(name, tmp_path)
    config = raw_exec.load_config(write_config(tmp_path, ["mine"]))
    (target,) = find_targets(config, ["mine"])
    report, tool = load_target(config, target)
    assert tool is not None
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            await check_tool(runtime, tool, report)
    assert (report.problems, report.warnings) == ([], [])
    assert "handler" in (report.exports or ())
    assert "validateArgs" in (report.exports or ())


async def test_the_python_example_counts_and_explains(tmp_path: Path) -> None:
    """What its description promises, through a sandboxed worker."""
    fork("line_count", tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    (work / "f").write_text("one two\nthree")
    config = raw_exec.load_config(write_config(tmp_path, ["mine"]))
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=work) as runtime:
            call = runtime.registry.dispatch
            counted = await call("mine", {"path": "f"})
            refused = await call("mine", {"path": "f/"})
            missing = await call("mine", {"path": "g"})
    counts = {"path": "f", "lines": 2, "words": 3, "bytes": 13}
    assert [block["value"] for block in counted.content] == [counts]
    assert (refused.code, refused.stage) == ("invalid_arguments", "validate_args")
    assert '{"path":"README.md"}' in refused.text
    assert (missing.code, missing.text) == ("unreadable", "g: No such file or directory")
