"""Fixtures that every area may use."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def shared() -> Path:
    """Return the folder of shared data, or skip when the project was cloned alone."""
    from requires import require

    named = os.environ.get("RAW_EXEC_SHARED")
    folder = Path(named) if named else Path(__file__).parent.parent.parent / "shared"
    require("shared", folder.is_dir(), f"no shared data at {folder}")
    return folder


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests away from the user's files; the engine's cache is shared by one run."""
    base = tmp_path_factory.getbasetemp()
    home = base / "home"
    home.mkdir(exist_ok=True)
    private = base / "tmp"
    private.mkdir(exist_ok=True)
    monkeypatch.setenv("TMPDIR", str(private))
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    for name in ("RAW_AGENT", "RAW_EXEC_NODE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
