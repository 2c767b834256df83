"""A tree with a view over it, removed at the end with nothing left behind."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from requires import require
from tests.transactions.lab import Lab, has_views
from toolbox import footprint


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """A folder in memory where there is one: tests that make a thousand trees take it."""
    shared = Path("/dev/shm")
    usable = os.access(shared, os.W_OK | os.X_OK) and _keeps_attributes(shared)
    folder = Path(tempfile.mkdtemp(prefix="raw-commit-test-", dir=shared if usable else None))
    yield folder
    shutil.rmtree(folder)


def _keeps_attributes(folder: Path) -> bool:
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        try:
            os.setxattr(file.name, "user.raw", b"x")
        except OSError:
            return False
    return True


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A tree; the test ends by counting descriptors, journals and private folders."""
    require("userns", not has_views(), has_views())
    before = footprint()
    made = Lab(tmp_path)
    yield made
    made.close()
    assert made.leftovers() == []
    assert footprint() == before
