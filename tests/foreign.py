"""Programs that nobody here wrote, from PyPI, each installed into an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from requires import require

__all__ = ["foreign_program"]

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
