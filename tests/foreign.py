"""Programs that nobody here wrote: from PyPI in an environment each, from npm by a lock file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from requires import require, require_node

__all__ = ["foreign_program", "npm_packages"]

_installed: dict[str, Path] = {}


def foreign_program(factory: pytest.TempPathFactory, name: str, requirement: str) -> Path:
    """Return a program, or skip the test where it can't be had.

    Args:
        factory: Where it is installed, once in a run.
        name: Of the program, and its word in ``RAW_EXEC_REQUIRE``. An environment variable of
            the same name in capitals names one that is installed already.
        requirement: What pip installs, with its version.
    """
    named = os.environ.get(name.upper())
    if named:
        return Path(named)
    if requirement not in _installed:
        folder = factory.mktemp(name)
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(folder / "bin" / "pip"), "install", "--quiet", requirement],
        ):
            done = subprocess.run(command, capture_output=True, text=True, timeout=110)
            require(name, done.returncode == 0, f"{requirement}: {done.stderr[-300:]}")
        _installed[requirement] = folder / "bin" / name
    return _installed[requirement]


def npm_packages(folder: Path, *, timeout: float = 110) -> Path:
    """Return a folder with the packages of its lock file, which are installed when missing.

    Args:
        timeout: Of the installation, seconds.
    """
    require_node()
    if not (folder / "node_modules" / ".package-lock.json").exists():
        command = shutil.which("npm")
        require("npm", command is not None, "npm is not installed")
        done = subprocess.run(
            [str(command), "ci", "--ignore-scripts"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        require("npm", done.returncode == 0, f"npm ci failed: {done.stderr[-500:]}")
    return folder
