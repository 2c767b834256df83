"""Handlers that import real npm libraries from their own node_modules, sandboxed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from toolbox import footprint, write_config, write_tool


def _closure(npm: Path, name: str) -> list[str]:
    """Return the folders a package needs, itself included, from the lock file."""
    locked = json.loads((npm / "package-lock.json").read_text())["packages"]
    found: list[str] = []
    wanted = [f"node_modules/{name}"]
    while wanted:
        path = wanted.pop()
        if path in found:
            continue
        found.append(path)
        for dependency in locked[path].get("dependencies", {}):
            nested = f"{path}/node_modules/{dependency}"
            wanted.append(nested if nested in locked else f"node_modules/{dependency}")
    return found


def _tool(tmp_path: Path, npm: Path, package: str, source: str, **config: Any) -> raw_exec.Config:
    folder = write_tool(tmp_path, "t", source)
    for path in _closure(npm, package):
        target = folder / path
        if not target.exists():
            shutil.copytree(npm / path, target)
    return raw_exec.load_config(write_config(tmp_path, ["t"], **config))


CASES = {
    "zod": (
        """import { z } from "zod";
        const Note = z.object({ title: z.string().min(1), stars: z.number().int().max(5) });
        export function validateArgs(args) {
          const seen = Note.safeParse(args);
          if (!seen.success) return seen.error.issues.map((i) => i.path.join(".")).join(",");
        }
        export const handler = async (args) =>
          ({ content: [{ type: "json", value: Note.parse(args) }] });""",
        {"title": "a", "stars": 3},
        {"type": "json", "value": {"title": "a", "stars": 3}},
    ),
    "yaml": (
        """import { parse, stringify } from "yaml";
        export const handler = async ({ text }) =>
          ({ content: [{ type: "text", text: stringify({ got: parse(text) }) }] });""",
        {"text": "a: [1, 2]\n"},
        {"type": "text", "text": "got:\n  a:\n    - 1\n    - 2\n"},
    ),
    "marked": (
        """import { marked } from "marked";
        export const handler = async ({ text }) =>
          ({ content: [{ type: "text", text: marked.parse(text) }] });""",
        {"text": "# Hi"},
        {"type": "text", "text": "<h1>Hi</h1>\n"},
    ),
    "semver": (
        """import semver from "semver";
        export const handler = async ({ version, range }) =>
          ({ content: [{ type: "text", text: String(semver.satisfies(version, range)) }] });""",
        {"version": "1.2.3", "range": "^1.0.0"},
        {"type": "text", "text": "true"},
    ),
    "cheerio": (
        """import { load } from "cheerio";
        export const handler = async ({ html }) =>
          ({ content: [{ type: "text", text: load(html)("li.b").text() }] });""",
        {"html": "<ul><li>a</li><li class='b'>beta</li></ul>"},
        {"type": "text", "text": "beta"},
    ),
    "diff": (
        """import { createTwoFilesPatch } from "diff";
        export const handler = async ({ a, b }) =>
          ({ content: [{ type: "text", text: createTwoFilesPatch("a", "b", a, b) }] });""",
        {"a": "x\n", "b": "y\n"},
        {
            "type": "text",
            "text": "=" * 67 + "\n--- a\n+++ b\n@@ -1,1 +1,1 @@\n-x\n+y\n",
        },
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("package", sorted(CASES))
async def test_a_handler_uses_a_real_library(package: str, tmp_path: Path, npm: Path) -> None:
    """The main job on real input: a stranger's tool with a stranger's dependencies."""
    source, arguments, block = CASES[package]
    config = _tool(tmp_path, npm, package, source)
    before = footprint()
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            result = await runtime.registry.dispatch("t", arguments)
    assert result.content == (block,), result
    assert result.enforced["seccomp"] is True
    assert footprint() == before


EXECA = """import { execa } from "execa";
export async function handler({ file, args }) {
  const done = await execa(file, args);
  return { content: [{ type: "text", text: done.stdout }] };
}"""
GRANT = {
    "sandbox": {
        "profiles": {"spawning": {"extends": "workspace", "processes": "allowed"}},
        "tools": {"agent/t": "spawning"},
    }
}


@pytest.mark.slow
async def test_execa_starts_a_process_with_the_grant(tmp_path: Path, npm: Path) -> None:
    """The processes grant lets a handler spawn, and the network stays closed."""
    config = _tool(tmp_path, npm, "execa", EXECA, **GRANT)
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            result = await runtime.registry.dispatch(
                "t", {"file": "echo", "args": ["from a child"]}
            )
    assert (result.text, result.is_error) == ("from a child", False), result
    assert result.enforced["processes"] == "allowed"


@pytest.mark.slow
async def test_execa_starts_nothing_without_the_grant(tmp_path: Path, npm: Path) -> None:
    """The pair of the test above."""
    config = _tool(tmp_path, npm, "execa", EXECA)
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            result = await runtime.registry.dispatch("t", {"file": "echo", "args": ["x"]})
    assert (result.code, result.is_error) == ("handler_error", True), result
