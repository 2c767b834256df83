"""A configuration for facades, one compiled engine for all, and nothing left at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import raw_exec
from toolbox import footprint

from .toolsets import write_facade_config


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one cache for all tests, so that the engine is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def config(tmp_path: Path) -> raw_exec.Config:
    """Return a configuration with the tools ``echo`` and ``wait``."""
    return write_facade_config(tmp_path)


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Compare descriptors, children and private directories with those of the start."""
    before = footprint()
    yield
    assert footprint() == before
