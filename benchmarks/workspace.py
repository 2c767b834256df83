"""Writes tools and configurations for a benchmark, and opens runtimes on them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import raw_exec
from raw_exec import Runtime, ToolResult
from raw_exec.pool import WorkerSpec

from .claims import Bench, BenchmarkFailed

__all__ = [
    "ARGUMENTS",
    "DESCRIBED",
    "ECHO",
    "PYTHON_ECHO",
    "ToolSource",
    "Workspace",
    "call_tool",
    "handler_spec",
    "in_turn",
    "open_bench_runtime",
    "same_tools",
    "write_workspace",
]

ARGUMENTS: Mapping[str, Any] = {"text": "Ship the docs\n", "count": 3}
"""What every tool here takes."""
_INPUT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer", "minimum": 0}},
    "required": ["text"],
    "additionalProperties": False,
}
_EFFECTS_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "files": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "operation": {"const": "write"}},
                "required": ["path", "operation"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["files"],
    "additionalProperties": False,
}
_ECHO_MODULE = """\
export async function handler(args, context) {
  return { content: [{ type: "text", text: args.text }] };
}
"""
_DESCRIBED_MODULE = """\
import { resolve } from "node:path";

export function validateArgs(args) {
  if (!args.text.trim()) return "text must not be blank";
  return undefined;
}

export function describeEffects(args, { cwd }) {
  return { files: [{ path: resolve(cwd, "notes.txt"), operation: "write" }] };
}

export async function handler(args, context) {
  return { content: [{ type: "text", text: args.text }] };
}
"""
_PYTHON_MODULE = """\
async def handler(args, context):
    return {"content": [{"type": "text", "text": args["text"]}]}
"""


@dataclass(frozen=True, slots=True)
class ToolSource:
    """What a tool folder holds, apart from its name.

    Args:
        entry: File name of the module.
        module: Its text.
        described: Whether it declares effects, and a rule on them applies.
        own_schema: Whether every tool made from this has a schema that no other has.
    """

    entry: str
    module: str
    described: bool = False
    own_schema: bool = False

    def manifest(self, tool_id: str) -> dict[str, Any]:
        """Return the manifest for a tool ID, which is also its model-visible name."""
        fields: dict[str, Any] = {
            "api_version": 2,
            "id": tool_id,
            "version": "1.0.0",
            "name": tool_id,
            "description": "Return the text that was given.",
            "input_schema": _INPUT_SCHEMA,
            "entry": f"./{self.entry}",
        }
        if self.own_schema:
            text = {"type": "string", "description": f"What {tool_id} returns."}
            properties = {**_INPUT_SCHEMA["properties"], "text": text, f"for_{tool_id}": {}}
            fields["input_schema"] = {**_INPUT_SCHEMA, "properties": properties}
        if self.described:
            fields["condition_sources"] = ["effects"]
            fields["effects_schema"] = _EFFECTS_SCHEMA
        return fields


ECHO = ToolSource("index.mjs", _ECHO_MODULE)
DESCRIBED = ToolSource("index.mjs", _DESCRIBED_MODULE, described=True)
PYTHON_ECHO = ToolSource("index.py", _PYTHON_MODULE)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A configuration file with its tools beside it, and an empty working directory."""

    config: Path
    cwd: Path


def write_workspace(
    bench: Bench,
    name: str,
    tools: Mapping[str, ToolSource],
    *,
    isolation: str = "pooled",
    limits: Mapping[str, int] | None = None,
) -> Workspace:
    """Write tool folders and a configuration that selects them all in order."""
    home = bench.work / name
    cwd = home / "cwd"
    cwd.mkdir(parents=True)
    for tool_id, source in tools.items():
        folder = home / "tools" / tool_id
        folder.mkdir(parents=True)
        (folder / "tool.json").write_text(json.dumps(source.manifest(tool_id)), "utf-8")
        (folder / source.entry).write_text(source.module, "utf-8")
    config: dict[str, Any] = {
        "default_agent": "bench",
        "agents": {
            "bench": {
                "tools": {
                    "use": [f"agent/{tool_id}" for tool_id in tools],
                    "rules": _rules(tools),
                }
            }
        },
        "sandbox": {"profiles": {"workspace": {"isolation": isolation}}},
    }
    if limits:
        config["limits"] = dict(limits)
    path = home / "config.json"
    path.write_text(json.dumps(config), "utf-8")
    path.chmod(0o600)
    return Workspace(path, cwd)


def _rules(tools: Mapping[str, ToolSource]) -> list[dict[str, Any]]:
    when = {"source": "effects", "any": "files[*].path", "regex": r"/protected/|\.ssh/"}
    return [
        {"match": f"agent/{tool_id}", "effect": "ask", "when": when}
        for tool_id, source in tools.items()
        if source.described
    ]


@asynccontextmanager
async def open_bench_runtime(
    bench: Bench, space: Workspace, *, spares: int = 0
) -> AsyncIterator[Runtime]:
    """Open a runtime whose compiled engine is kept for the whole run."""
    config = raw_exec.load_config(space.config)
    async with raw_exec.open_runtime(
        config, cwd=space.cwd, cache_dir=bench.cache, spares=spares
    ) as runtime:
        yield runtime


async def call_tool(
    runtime: Runtime, name: str, arguments: Mapping[str, Any], *, max_output_bytes: int = 8192
) -> ToolResult:
    """Dispatch one call and insist that it worked.

    Raises:
        BenchmarkFailed: The outcome is an error.
    """
    result = await runtime.registry.dispatch(name, arguments, max_output_bytes=max_output_bytes)
    if result.is_error:
        raise BenchmarkFailed(f"{name}: {result.code} at {result.stage}: {result.text:.300}")
    return result


def handler_spec(runtime: Runtime, name: str, cwd: Path) -> WorkerSpec:
    """Return what a handler's workers are started from, so that one can be started early.

    Raises:
        BenchmarkFailed: There is no such tool.
    """
    tool = runtime.loaded.get(name)
    if tool is None:
        raise BenchmarkFailed(f"no tool is named {name!r}")
    return runtime.spec_for(tool, str(cwd.resolve()))


def same_tools(prefix: str, count: int, source: ToolSource) -> dict[str, ToolSource]:
    """Return ``count`` tools that differ in their names only."""
    return {f"{prefix}_{number}": source for number in range(count)}


def in_turn(names: Sequence[str]) -> Iterable[str]:
    """Give each name once, and say so when they run out."""
    yield from names
    raise BenchmarkFailed(f"all {len(names)} tools are used up")
