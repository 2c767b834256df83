"""Writes tool folders, configurations and plans for tests, and counts what a runtime may leave."""

from __future__ import annotations

import gc
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import raw_exec
from raw_exec.sandbox import SandboxPlan

ANY_OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": True}
HAS_NODE = shutil.which("node") is not None


def write_tool(
    root: Path,
    name: str,
    source: str,
    *,
    language: str = "esm",
    schema: dict[str, Any] | None = None,
    **fields: Any,
) -> Path:
    """Write ``root/tools/<name>/`` with a manifest and an entry file; return the folder."""
    folder = root / "tools" / name
    folder.mkdir(parents=True, exist_ok=True)
    entry = "index.mjs" if language == "esm" else "index.py"
    manifest = {
        "api_version": 2,
        "id": name,
        "version": "1.0.0",
        "name": name,
        "description": f"{name}, for a test. Example call: {{}}",
        "input_schema": schema or ANY_OBJECT,
        "entry": f"./{entry}",
        **fields,
    }
    (folder / "tool.json").write_text(json.dumps(manifest))
    (folder / entry).write_text(source)
    return folder


def write_config(root: Path, names: Iterable[str], **root_fields: Any) -> Path:
    """Write ``root/config.json`` that selects agent tools; ``rules`` goes to the agent."""
    rules = root_fields.pop("rules", [])
    agent_fields = root_fields.pop("agent", {})
    tools = {"use": [n if "/" in n else f"agent/{n}" for n in names], "rules": rules}
    document = {
        "default_agent": "a",
        "agents": {"a": {"tools": tools, **agent_fields}},
        **root_fields,
    }
    path = root / "config.json"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return path


def js_config(root: Path, body: str, *, before: str = "", **root_fields: Any) -> raw_exec.Config:
    """Write one ESM tool ``t`` whose handler has ``body``; return the loaded configuration."""
    source = f"{before}\nexport async function handler(args, context) {{\n{body}\n}}\n"
    write_tool(root, "t", source)
    return raw_exec.load_config(write_config(root, ["t"], **root_fields))


def py_config(root: Path, body: str, *, before: str = "", **root_fields: Any) -> raw_exec.Config:
    """Write one Python tool ``t`` whose handler has ``body``; return the configuration."""
    lines = "\n".join("    " + line for line in body.splitlines())
    write_tool(root, "t", f"{before}\ndef handler(args, context):\n{lines}\n", language="python")
    return raw_exec.load_config(write_config(root, ["t"], **root_fields))


def text_result(expression: str) -> str:
    """Return a JavaScript statement that answers with one text block."""
    return f"return {{ content: [{{ type: 'text', text: String({expression}) }}] }};"


def plan_of(root: Path, **fields: Any) -> SandboxPlan:
    """Return a baseline plan that reads and writes ``root`` and starts no processes."""
    base: dict[str, Any] = {
        "profile": "test",
        "read": (str(root),),
        "write": (str(root),),
        "network": "none",
        "processes": False,
        "tier": "baseline",
        "isolation": "fresh",
        "effects": "declared",
        "sandbox": True,
        "memory_bytes": 512 * 1024 * 1024,
        "scratch_bytes": 16 * 1024 * 1024,
    }
    return SandboxPlan(**{**base, **fields})


@dataclass(frozen=True)
class Footprint:
    """What a process holds: descriptors, descendants, private directories."""

    fds: int
    children: int
    roots: int


def footprint() -> Footprint:
    """Count what this process holds now."""
    gc.collect()  # an earlier test's garbage may own descriptors
    return Footprint(
        fds=len(os.listdir("/proc/self/fd")),
        children=len(psutil.Process().children(recursive=True)),
        roots=len(list(Path(tempfile.gettempdir()).glob("raw-exec-*"))),
    )
