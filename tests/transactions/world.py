"""A runtime with tools that run code on a copy-on-write view, as this or as another user."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import raw_exec
from raw_exec.dispatch import ToolResult
from toolbox import write_config, write_tool

__all__ = ["EFFECTS", "World", "open_world", "tree"]

SOURCE = """
import errno, json, os, shutil, stat, sys

def describe_effects(args, context):
    return {"files": args["effects"]}

def attempt(f, *a, **k):
    try:
        f(*a, **k)
    except OSError as exc:
        return errno.errorcode.get(exc.errno, str(exc.errno))
    return "ok"

def handler(args, context):
    space = {"os": os, "sys": sys, "shutil": shutil, "stat": stat, "attempt": attempt,
             "said": None, "result": None}
    exec(args["code"], space)
    text = json.dumps(space["said"])
    return space["result"] or {"content": [{"type": "text", "text": text}]}
"""
EFFECTS = {
    "type": "object",
    "properties": {"files": {"type": "array"}},
    "required": ["files"],
    "additionalProperties": False,
}
PROFILES: dict[str, dict[str, Any]] = {
    "declared": {},
    "observed": {"effects": "observed"},
    "always": {"effects": "observed", "commit": "always"},
    "enforced": {"effects": "enforced"},
}


class World:
    """A workspace and the calls on it.

    Args:
        base: Folder of this world; ``ws`` in it is the working directory.
        runtime: Where the calls go.
    """

    def __init__(self, base: Path, runtime: raw_exec.Runtime) -> None:
        self.base = base
        self.ws = base / "ws"
        self.runtime = runtime

    def fill(self, **files: str) -> None:
        """Write files into the workspace; ``__`` in a name is a slash."""
        for name, text in files.items():
            path = self.ws / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    async def run(
        self, profile: str, code: str, effects: list[Any] | None = None, **options: Any
    ) -> ToolResult:
        """Run code under a profile; ``effects`` are what the tool describes, none by default."""
        name = profile if effects is None else f"{profile}_telling"
        return await self.runtime.registry.dispatch(
            name, {"code": code, "effects": effects or []}, **options
        )

    def writes(self, *names: str, operation: str = "write") -> list[dict[str, str]]:
        return [{"path": str(self.ws / name), "operation": operation} for name in names]

    def changes(self, result: ToolResult) -> dict[str, tuple[str, str]]:
        """Action and kind of each change, by its path in the workspace."""
        prefix = f"{self.ws}/"
        return {
            change["path"].removeprefix(prefix): (change["action"], change["kind"])
            for change in result.changes
        }


def tree(top: Path) -> dict[str, Any]:
    """Everything in a folder: mode and content or target, by relative path."""
    out: dict[str, Any] = {}
    for path in sorted(top.rglob("*")):
        status = path.lstat()
        what: Any = None
        if stat.S_ISLNK(status.st_mode):
            what = os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            what = path.read_bytes()
        out[str(path.relative_to(top))] = (oct(status.st_mode), what)
    return out


@asynccontextmanager
async def open_world(
    base: Path,
    *,
    rules: list[dict[str, Any]] | None = None,
    also: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[World]:
    """Open a runtime with a tool for each profile, with ``ws`` below ``base`` to work in.

    Args:
        base: An empty folder.
        rules: Of the agent.
        also: Added to each profile that has a view.
        limits: Of the configuration.
        options: For ``open_runtime``.
    """
    (base / "ws").mkdir()
    (base / "gate").mkdir()
    gate = str(base / "gate")
    chosen = {"read": ["$CWD", gate], "write": ["$CWD"]}
    table = {name: {**chosen, **own, **((own and also) or {})} for name, own in PROFILES.items()}
    seen = {**chosen, "effects": "observed", "processes": "allowed", **(also or {})}
    names = []
    for name in table:
        write_tool(base, name, SOURCE, language="python")
        write_tool(base, f"{name}_telling", SOURCE, language="python", effects_schema=EFFECTS)
        names += [name, f"{name}_telling"]
    path = write_config(
        base,
        [*names, "builtin/bash", "builtin/process"],
        rules=rules or [],
        sandbox={
            "profiles": {**table, "seen": seen},
            "tools": {
                **{f"agent/{name}": name.partition("_")[0] for name in names},
                "builtin/bash": "seen",
                "builtin/process": "seen",
            },
        },
        limits=limits or {},
    )  # fmt: skip
    config = raw_exec.load_config(path)
    async with raw_exec.open_runtime(config, cwd=base / "ws", **options) as runtime:
        yield World(base, runtime)
