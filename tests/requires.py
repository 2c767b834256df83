"""Skip what the host cannot do, unless CI says that it must be there."""

from __future__ import annotations

import os
import shutil

import pytest


def require(name: str, available: bool, reason: str) -> None:
    """Skip the test, or fail it when ``RAW_EXEC_REQUIRE`` lists ``name``.

    Args:
        name: Short word, for example ``"node"`` or ``"userns"``.
        available: Whether the host has it.
        reason: What is missing, for the report.
    """
    if available:
        return
    wanted = {word.strip() for word in os.environ.get("RAW_EXEC_REQUIRE", "").split(",")}
    if name in wanted:
        pytest.fail(f"RAW_EXEC_REQUIRE lists {name!r}, but {reason}")
    pytest.skip(reason)


def require_node() -> str:
    """Return the path of Node, or skip the test."""
    node = shutil.which("node")
    require("node", node is not None, "there is no node on PATH")
    return str(node)
