"""Configurations with variables, real provider programs, and a launcher to run them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import raw_exec
from raw_exec.pool import Launcher, open_launcher
from raw_exec.private_root import open_private_root
from raw_exec.variables import VariableService, open_variables

PYTHON = os.path.realpath(sys.executable)
TOKEN = "tok-5f2c-never-to-be-seen"
"""What providers print and nobody but them may ever show."""


def provider(root: Path, name: str, source: str, **fields: Any) -> dict[str, Any]:
    """Write a Python provider; return its entry of ``var_providers``."""
    (root / f"{name}.py").write_text(source)
    return {"command": PYTHON, "args": ["-I", "-S", f"{name}.py"], **fields}


def variable(kind: str, access: str = "read", **fields: Any) -> dict[str, Any]:
    """Return an entry of ``vars``; what is not of the variable goes to its source."""
    outer = {key: fields.pop(key) for key in ("type", "cache_ttl_ms") if key in fields}
    return {
        "description": f"a {kind}",
        "access": access,
        **outer,
        "source": {"kind": kind, **fields},
    }


def configure(
    root: Path,
    variables: dict[str, Any],
    providers: dict[str, Any] | None = None,
    *,
    select: list[str] | None = None,
    tools: list[str] | None = None,
    **extra: Any,
) -> raw_exec.Config:
    """Write and load a configuration whose agent selects the variables."""
    chosen = list(variables) if select is None else select
    document = {
        "vars": variables,
        "var_providers": providers or {},
        "default_agent": "a",
        "agents": {"a": {"vars": chosen, "tools": {"use": tools or []}}},
        **extra,
    }
    path = root / "raw.json"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return raw_exec.load_config(path)


@asynccontextmanager
async def launched(simulate: tuple[str, ...] = ()) -> AsyncIterator[Launcher]:
    """Open a launcher in a private directory."""
    with open_private_root() as root:
        async with open_launcher(scratch_parent=root, simulate=simulate) as launcher:
            yield launcher


@asynccontextmanager
async def opened(config: raw_exec.Config, **options: Any) -> AsyncIterator[VariableService]:
    """Open the variables of a configuration, with a launcher that starts when needed."""
    async with launched() as launcher, open_variables(config, launcher, **options) as service:
        yield service
