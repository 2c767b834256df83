"""Every test of this folder ends by counting what is left."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from requires import require
from toolbox import footprint


@pytest.fixture(autouse=True)
def _sdk() -> None:
    require("mcp", importlib.util.find_spec("mcp") is not None, "the mcp SDK is not installed")
    # Its import opens descriptors that stay open; they are not a test's.
    import raw_exec.mcp_client.connection  # noqa: F401


@pytest.fixture(autouse=True)
def _leaves_nothing(_sdk: None) -> Iterator[None]:
    before = footprint()
    yield
    assert footprint() == before
