"""From nothing to bindings that type-check and run a sandboxed tool, with what a user types."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from requires import require

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
from generated.prompts import AcmeDailyBriefToolsAsync, ToolExecutionError, get_prompt
from raw_exec.contracts.sandboxed import SandboxedTools

CALLS: list[tuple[str, object]] = [
    ("count", {"text": "one two"}),
    ("count", {"text": "a\\nb\\nc", "unit": "lines"}),
    ("count", {"text": ""}),
    ("count", {"text": "fail"}),
    ("count", {"text": "escape"}),
    ("other", {}),
]


async def main() -> None:
    brief = get_prompt("@acme/daily-brief")
    config = raw_exec.load_config()
    async with raw_exec.open_runtime(config, cwd=".") as runtime:
        sandboxed = SandboxedTools(
            runtime.registry, ToolExecutionError, names={"count": "word-count"}, results="json"
        )
        tools: AcmeDailyBriefToolsAsync = {"count": sandboxed["count"]}
        answers = [await brief.dispatch_tool_async(name, args, tools) for name, args in CALLS]
    print(json.dumps({"defs": brief.tool_defs(), "answers": answers}))


trio.run(main)
"""
BAD_APP = """
from generated.prompts import AcmeDailyBriefToolsAsync

tools: AcmeDailyBriefToolsAsync = {}
"""


@pytest.mark.slow
def test_a_person_gets_from_nothing_to_checked_bindings_that_run_a_sandboxed_tool(
    home, raw
) -> None:
    """Issue 6: done when the commands of the README's second section do this."""

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
    said = json.loads(done.stdout)
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


@pytest.mark.slow
def test_the_application_type_checks_and_one_that_omits_a_tool_does_not(home, raw) -> None:
    """Contract: omitting a tool is an error before anything runs."""
    require("mypy", importlib.util.find_spec("mypy") is not None, "mypy is not installed")
    work: Path = home.work
    pin = "@acme/word-count@draft"
    for args in (
        ("registry", "user", "add", "ann@example.com"),
        ("registry", "workspace", "add", "acme", "--owner", "ann@example.com"),
        ("contract", "create", "@acme/word-count"),
        ("prompt", "create", "@acme/daily-brief"),
        ("prompt", "tools", "add", "@acme/daily-brief@draft", pin, "--as", "count"),
        ("add", "@acme/daily-brief@draft", "--output", "generated/prompts.py"),
        ("generate",),
    ):
        done = raw(*args)
        assert done.returncode == 0, (args, done.stderr)
    (work / "app.py").write_text(APP)
    (work / "bad_app.py").write_text(BAD_APP)

    def check(name: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--config-file=", name],
            cwd=work,
            env=home.env | {"MYPY_CACHE_DIR": str(work / ".mypy")},
            capture_output=True,
            text=True,
            timeout=110,
        )
        return done.returncode, done.stdout

    assert check("app.py") == (0, "Success: no issues found in 1 source file\n")
    status, said = check("bad_app.py")
    assert (status, 'Missing key "count"' in said) == (1, True)
