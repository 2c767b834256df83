"""From nothing to bindings that type-check and run a sandboxed tool, with what a user types."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1, "description": "What to count."},
        "unit": {"type": "string", "enum": ["words", "lines"]},
    },
    "required": ["text"],
    "additionalProperties": False,
}
RESULT = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
}
HANDLER = """
def handler(args, context):
    if args["text"] == "fail":
        content = [{"type": "text", "text": "no luck"}]
        return {"isError": True, "code": "no_luck", "content": content}
    if args["text"] == "escape":
        open("/etc/hostile", "w")
    pieces = args["text"].split("\\n" if args.get("unit") == "lines" else None)
    return {"content": [{"type": "json", "value": {"count": len(pieces)}}]}
"""
APP = """
import json

import trio

import raw_exec
import raw_exec.blocking
from generated.prompts import AcmeDailyBriefTools, AcmeDailyBriefToolsAsync
from generated.prompts import ToolExecutionError, get_prompt
from raw_exec.contracts.sandboxed import BlockingTools, SandboxedTools

CALLS: list[tuple[str, object]] = [
    ("count", {"text": "one two"}),
    ("count", {"text": "a\\nb\\nc", "unit": "lines"}),
    ("count", {"text": ""}),
    ("count", {"text": "fail"}),
    ("count", {"text": "escape"}),
    ("other", {}),
]


brief = get_prompt("@acme/daily-brief")


async def main() -> None:
    config = raw_exec.load_config()
    async with raw_exec.open_runtime(config, cwd=".") as runtime:
        sandboxed = SandboxedTools(
            runtime.registry, ToolExecutionError, names={"count": "word-count"}, results="json"
        )
        tools: AcmeDailyBriefToolsAsync = {"count": sandboxed["count"]}
        answers = [await brief.dispatch_tool_async(name, args, tools) for name, args in CALLS]
    print(json.dumps({"defs": brief.tool_defs(), "answers": answers}))


def plain() -> None:
    with raw_exec.blocking.open_runtime(raw_exec.load_config(), cwd=".") as runtime:
        sandboxed = BlockingTools(
            runtime.registry, ToolExecutionError, names={"count": "word-count"}, results="json"
        )
        tools: AcmeDailyBriefTools = {"count": sandboxed["count"]}
        print(json.dumps([brief.dispatch_tool(name, args, tools) for name, args in CALLS]))


trio.run(main)
plain()
"""


@pytest.mark.slow
def test_a_person_gets_from_nothing_to_checked_bindings_that_run_a_sandboxed_tool(
    home, raw
) -> None:
    """Done when the commands of the README's second section do this."""

    def run(*args: str) -> str:
        done = raw(*args)
        assert done.returncode == 0, (args, done.stderr)
        return str(done.stdout)

    work: Path = home.work
    (work / "in.json").write_text(json.dumps(SCHEMA))
    (work / "out.json").write_text(json.dumps(RESULT))
    tool, prompt = "@acme/word-count", "@acme/daily-brief"
    run("registry", "user", "add", "ann@example.com")
    run("registry", "workspace", "add", "acme", "--owner", "ann@example.com")
    run("contract", "create", tool)
    run("contract", "schema", "set", f"{tool}@draft", "--file", "in.json")
    run("contract", "schema", "set", f"{tool}@draft", "--output", "--file", "out.json")
    run("contract", "version", "set-description", f"{tool}@draft", "--content", "Count words.")
    run("contract", "version", "publish", tool, "1.0.0")
    run("prompt", "create", prompt)
    run("prompt", "tools", "add", f"{prompt}@draft", f"{tool}@^1.0.0", "--as", "count")
    run("prompt", "version", "publish", prompt, "1.0.0")
    run("add", f"{prompt}@^1.0.0", "--output", "generated/prompts.py")
    run("generate")

    folder = home.tools / "word-count"
    run("contract", "export", f"{tool}@1.0.0", "--to", str(folder), "--lang", "python")
    (folder / "index.py").write_text(HANDLER)
    assert run("contract", "check", str(folder), f"{tool}@1.0.0").startswith("exact: ")
    home.configure(
        ["local/word-count"], [{"match": "local/*", "effect": "allow"}], limits={"call_ms": 20000}
    )

    (work / "app.py").write_text(APP)
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=work,
        env=home.env,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    said, again = map(json.loads, done.stdout.splitlines())
    assert again == said["answers"]
    assert [one["name"] for one in said["defs"]] == ["count"]
    assert said["defs"][0]["input_schema"] == SCHEMA
    two, three, empty, failed, escaped, unknown = said["answers"]
    assert (two, three) == (
        {"success": True, "content": '{"count":2}'},
        {"success": True, "content": '{"count":3}'},
    )
    assert (empty["code"], unknown["code"]) == ("input-validation", "unknown-tool")
    assert failed == {"success": False, "error": "no luck", "code": "execution"}
    assert escaped["code"] == "execution"
    assert "/etc/hostile" in escaped["error"]
    assert not Path("/etc/hostile").exists()
