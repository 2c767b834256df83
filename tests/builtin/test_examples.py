"""The folders in ``examples/tools`` are there to be copied under another name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from requires import require_node

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(
    folder for folder in (ROOT / "examples" / "tools").iterdir() if folder.name != "hostile"
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda folder: folder.name)
def test_a_renamed_copy_passes_check(example: Path, tmp_path: Path) -> None:
    """A person forks an example by copying it and writing another id."""
    manifest = json.loads((example / "tool.json").read_text())
    if manifest["entry"].endswith("mjs"):
        require_node()
    config = tmp_path / "raw"
    folder = config / "tools" / "mine"
    shutil.copytree(example, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tool.json").write_text(json.dumps({**manifest, "id": "mine", "name": "mine"}))
    agent = {"tools": {"use": ["local/mine"]}}
    (config / "config.json").write_text(
        json.dumps({"default_agent": "main", "agents": {"main": agent}})
    )
    done = subprocess.run(
        [sys.executable, "-m", "raw_exec", "tools", "check", "local/mine"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "local/mine" in done.stdout


def test_examples_are_in_both_languages() -> None:
    """One to fork for each."""
    entries = {json.loads((e / "tool.json").read_text())["entry"] for e in EXAMPLES}
    assert entries == {"./index.mjs", "./index.py"}


def test_the_copy_of_list_vars_is_the_built_in_tool() -> None:
    """A fork starts from what is shipped, not from what was shipped once."""
    ours, copy = ROOT / "raw_exec/builtin/list_vars", ROOT / "examples/tools/list_vars"
    files = {p.relative_to(ours) for p in ours.rglob("*") if p.suffix in (".py", ".json")}
    assert files == {p.relative_to(copy) for p in copy.rglob("*") if p.suffix in (".py", ".json")}
    for file in files:
        assert (ours / file).read_bytes() == (copy / file).read_bytes(), file
