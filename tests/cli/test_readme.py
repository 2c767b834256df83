"""The README's first section does what it says, from nothing to a program that runs the tool."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from requires import require_node

ROOT = Path(__file__).parent.parent.parent
SECTION = "## Run a tool somebody else wrote"


def _blocks() -> list[tuple[str, str]]:
    text = (ROOT / "README.md").read_text("utf-8")
    section = text[text.index(SECTION) + len(SECTION) :].partition("\n## ")[0]
    return re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL)


def _commands(block: str) -> list[str]:
    joined = block.replace("\\\n", " ")
    return [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]


def test_the_first_section_can_be_followed_to_its_end(tmp_path: Path) -> None:
    """Every command, the configuration, and the program, as they are printed."""
    require_node()
    home, work = tmp_path / "home", tmp_path / "work"
    for folder in (home, work, tmp_path / "bin"):
        folder.mkdir()
    raw = tmp_path / "bin" / "raw"
    raw.write_text(f'#!/bin/sh\nexec {sys.executable} -m raw_exec "$@"\n')
    raw.chmod(0o755)
    env = {
        "HOME": str(home),
        "PATH": f"{raw.parent}:{Path(require_node()).parent}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=work, env=env, timeout=60
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    printed = ""
    for kind, block in _blocks():
        if kind == "json":
            (home / ".config" / "raw" / "config.json").write_text(block)
        elif kind == "python":
            assert run(sys.executable, "-c", block).startswith("None notes.txt: 1 lines, 2 words")
        else:
            for command in _commands(block):
                printed += run("sh", "-c", command)
    assert '"notes.txt: 1 lines, 2 words"' in printed
