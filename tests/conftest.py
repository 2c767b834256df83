"""Fixtures that every area may use."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from foreign import npm_packages

# Fixtures, found by name: here, so that every folder shares one server.
from postgres import new_postgres_url, postgres_server, postgres_url  # noqa: F401
from raw_exec.errors import WorkerError
from raw_exec.pool import find_node
from requires import require


def _put_node_on_path() -> None:
    """Let tests that start Node themselves find the one that the package would use."""
    if shutil.which("node"):
        return
    try:
        node = find_node().path
    except WorkerError:
        return
    folder = tempfile.mkdtemp(prefix="raw-tests-node-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.symlink(node, os.path.join(folder, "node"))
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if npm.exists():
        script = Path(folder) / "npm"
        script.write_text(f'#!/bin/sh\nexec "{node}" "{npm}" "$@"\n')
        script.chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


_put_node_on_path()


def pytest_collection_finish() -> None:
    """Spare the collector what lives as long as the run: every footprint collects garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def shared() -> Path:
    """Return the folder of shared data, or skip when the project was cloned alone."""
    named = os.environ.get("RAW_EXEC_SHARED")
    folder = Path(named) if named else Path(__file__).parent.parent.parent / "shared"
    require("shared", folder.is_dir(), f"no shared data at {folder}")
    return folder


@pytest.fixture(scope="session")
def npm() -> Path:
    """Return ``tests/npm`` with the packages of its lock file, which are installed when missing."""
    return npm_packages(Path(__file__).parent / "npm")


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
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local" / "state"))
    for name in ("RAW_AGENT", "NO_COLOR", "RAW_EXEC_DEBUG"):
        monkeypatch.delenv(name, raising=False)
