"""Hooks are found on ``PATH``; the Python of these tests must be the first there."""

from __future__ import annotations

import os

import pytest

from tests.hooks.support import PYTHON


@pytest.fixture(autouse=True)
def _python_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.path.dirname(PYTHON)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
