"""Attack fixtures: one world for all tests, one open lab a column."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.fixtures import World, open_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Make the corpus' fixture set once."""
    base = tmp_path_factory.mktemp("attacks")
    base.chmod(0o755)
    with open_world(base) as made:
        yield made
