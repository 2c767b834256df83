"""Functions that call the file tools in this process, in the test's own folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raw_exec.builtin.read_file.reading.run import handler as read_handler

from .calls import Context, call_write, value_of


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Return a function that calls ``write_file`` in ``tmp_path``."""
    return lambda args, **context: call_write(args, tmp_path, **context)


@pytest.fixture
def patch(tmp_path: Path) -> Callable[..., tuple[Any, list[tuple[str, str]]]]:
    """Return a function that applies sections; it returns the status and (status, code) rows."""

    def apply(body: str, **context: Any) -> tuple[Any, list[tuple[str, str]]]:
        text = f"*** Begin Patch\n{body}*** End Patch\n"
        value = value_of(call_write({"patch": text}, tmp_path, **context))
        rows = [(row["status"], row.get("error", {}).get("code", "")) for row in value["rows"]]
        return value["status"], rows

    return apply


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that calls ``read_file`` in ``tmp_path`` and returns its rows."""

    def call(*files: dict[str, Any], **context: Any) -> Any:
        result = read_handler({"files": list(files)}, Context(str(tmp_path), **context))
        return value_of(result)["files"]

    return call
