"""A whole application around generated bindings, made by the commands that a person types.

Every checker accepts the application, and refuses exactly the lines that end with "bad".
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from contracts.codegen.conftest import TypeScript, bad_lines, run_mypy, run_pyright

from raw_exec.cli.main import cli

TOOL, OTHER, PROMPT = "@acme/word-count", "@acme/now", "@acme/daily-brief"
SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1},
        "unit": {"type": "string", "enum": ["words", "lines"]},
    },
    "required": ["text"],
    "additionalProperties": False,
}
RESULT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}

SANDBOXED = """
import json

import trio

import raw_exec
import raw_exec.blocking
from generated.prompts import AcmeDailyBriefTools, AcmeDailyBriefToolsAsync
from generated.prompts import ToolExecutionError, get_prompt
from raw_exec.contracts.sandboxed import BlockingTools, SandboxedTools

brief = get_prompt("@acme/daily-brief")
names = {"count": "word-count"}


async def main() -> None:
    async with raw_exec.open_runtime(raw_exec.load_config(), cwd=".") as runtime:
        ran = SandboxedTools(runtime.registry, ToolExecutionError, names=names, results="json")
        tools: AcmeDailyBriefToolsAsync = {"count": ran["count"], "now": ran["now"]}
        print(json.dumps(await brief.dispatch_tool_async("count", {"text": "a b"}, tools)))


def plain() -> None:
    with raw_exec.blocking.open_runtime(raw_exec.load_config(), cwd=".") as runtime:
        ran = BlockingTools(runtime.registry, ToolExecutionError, names=names, results="json")
        tools: AcmeDailyBriefTools = {"count": ran["count"], "now": ran["now"]}
        print(json.dumps(brief.dispatch_tool("count", {"text": "a b"}, tools)))


trio.run(main)
plain()
"""
PYTHON = """
import json
import sys

from generated.prompts import AcmeDailyBriefTools, AcmeNowToolInput, AcmeWordCountToolInput
from generated.prompts import AcmeWordCountToolOutput, ToolExecutionError, get_prompt


def count(args: AcmeWordCountToolInput) -> AcmeWordCountToolOutput:
    if args.text == "fail":
        raise ToolExecutionError("no luck")
    return {"count": len(args.text.split("\\n" if args.unit == "lines" else None))}


def now(args: AcmeNowToolInput) -> str:
    return "noon"


tools: AcmeDailyBriefTools = {"count": count, "now": now}
brief = get_prompt("@acme/daily-brief")
if __name__ == "__main__":
    calls = json.load(sys.stdin)
    print(json.dumps([brief.dispatch_tool(name, args, tools) for name, args in calls]))
"""
PYTHON_BAD = """
from app import brief, count, now, tools
from generated.prompts import AcmeDailyBriefTools, AcmeWordCountToolInput


def wrong_shape(args: AcmeWordCountToolInput) -> dict[str, str]:
    return {"count": "many"}


def wrong_arguments(args: AcmeWordCountToolInput) -> dict[str, int]:
    return {"count": len(args.words)}  # bad


omitted: AcmeDailyBriefTools = {"count": count}  # bad
shaped: AcmeDailyBriefTools = {"count": wrong_shape, "now": now}  # bad
swapped: AcmeDailyBriefTools = {"count": now, "now": now}  # bad
brief.dispatch_tool("count", {}, {"now": now})  # bad
brief.dispatch_tool("count", {"anything": 1}, tools)
"""
TYPESCRIPT = """
import { getPrompt, ToolExecutionError } from "./generated/prompts.js";
import type { AcmeDailyBriefTools, AcmeWordCountTool } from "./generated/prompts.js";

export const count: AcmeWordCountTool = async ({ text, unit }) => {
  if (text === "fail") throw new ToolExecutionError("no luck");
  return { count: text.split(unit === "lines" ? "\\n" : /\\s+/).length };
};
export const tools: AcmeDailyBriefTools = { count, now: () => "noon" };
export const brief = getPrompt("@acme/daily-brief");
export async function answer(calls: [string, unknown][]): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (const [name, args] of calls) answers.push(await brief.dispatchTool(name, args, tools));
  return answers;
}
"""
TYPESCRIPT_BAD = """
import { brief, count, tools } from "./app.js";
import type { AcmeDailyBriefTools, AcmeWordCountTool } from "./generated/prompts.js";

export const omitted: AcmeDailyBriefTools = { count }; // bad
const many = () => ({ count: "many" });
export const shaped: AcmeDailyBriefTools = { count: many, now: () => "noon" }; // bad
export const read: AcmeWordCountTool = ({ words }) => ({ count: words }); // bad
await brief.dispatchTool("count", {}, { now: () => "noon" }); // bad
await brief.dispatchTool("count", { anything: 1 }, tools);
"""
RUN_TYPESCRIPT = """
import { readFileSync } from "node:fs";
import { answer } from "./app.js";
console.log(JSON.stringify(await answer(JSON.parse(readFileSync(0, "utf8")))));
"""
CALLS = [
    ["count", {"text": "one two"}],
    ["count", {"text": "a\nb\nc", "unit": "lines"}],
    ["now", {}],
    ["count", {"text": "fail"}],
    ["count", {"text": ""}],
    ["other", {}],
]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with bindings in both languages, from contracts made by the commands."""
    root = tmp_path_factory.mktemp("application")
    db = str(root / "registry.db")
    project = root / "project"
    project.mkdir()
    (root / "in.json").write_text(json.dumps(SCHEMA))
    (root / "out.json").write_text(json.dumps(RESULT))
    (root / "text.json").write_text(json.dumps({"type": "string"}))
    draft, other = f"{TOOL}@draft", f"{OTHER}@draft"
    here, people, kept = ("--project", str(project)), ("--db", db), ("--registry", db)
    schema_of = ("contract", "schema", "set")
    pin = ("prompt", "tools", "add", f"{PROMPT}@draft")
    outputs = ("--output", "generated/prompts.py", "--output", "generated/prompts.ts")
    for args in (
        ("registry", "user", "add", "ann@example.com", *people),
        ("registry", "workspace", "add", "acme", "--owner", "ann@example.com", *people),
        ("contract", "create", TOOL, *kept),
        (*schema_of, draft, "--file", f"{root}/in.json", *kept),
        (*schema_of, draft, "--output", "--file", f"{root}/out.json", *kept),
        ("contract", "version", "publish", TOOL, "1.0.0", *kept),
        ("contract", "create", OTHER, *kept),
        (*schema_of, other, "--output", "--file", f"{root}/text.json", *kept),
        ("contract", "version", "publish", OTHER, "1.0.0", *kept),
        ("prompt", "create", PROMPT, *kept),
        (*pin, f"{TOOL}@^1", "--as", "count", *kept),
        (*pin, f"{OTHER}@^1", *kept),
        ("prompt", "version", "publish", PROMPT, "1.0.0", *kept),
        ("add", f"{PROMPT}@^1", *here, *kept, *outputs),
        ("generate", *here),
    ):
        done = CliRunner().invoke(cli, list(args), prog_name="raw")
        assert done.exit_code == 0, (args, done.output)
    for name, text in (("app", PYTHON), ("bad", PYTHON_BAD), ("sandboxed", SANDBOXED)):
        (project / f"{name}.py").write_text(text, encoding="utf-8")
    return project


def _expect_answers(text: str) -> None:
    two, three, now, failed, empty, unknown = json.loads(text)
    assert two == {"success": True, "content": '{"count":2}'}
    assert three == {"success": True, "content": '{"count":3}'}
    assert now == {"success": True, "content": '"noon"'}
    assert failed == {"success": False, "error": "no luck", "code": "execution"}
    assert (empty["code"], unknown["code"]) == ("input-validation", "unknown-tool")


@pytest.mark.slow
def test_mypy_strict_takes_the_application_and_refuses_the_wrong_one(generated: Path) -> None:
    """Contract: omitting a tool or returning the wrong shape is an error before anything runs."""
    said = run_mypy(generated / "bad.py", "app.py", "sandboxed.py")
    errors = [line.split(":") for line in said if ": error:" in line]
    assert {(file, int(line)) for file, line, *_ in errors} == {
        ("bad.py", line) for line in bad_lines(PYTHON_BAD)
    }, said


@pytest.mark.slow
def test_pyright_takes_the_application_and_refuses_the_wrong_one(
    generated: Path, bindings_npm: Path
) -> None:
    """Contract, the other checker of the language."""
    right = ("generated/prompts.py", "app.py", "sandboxed.py")
    found = run_pyright(generated / "bad.py", bindings_npm, *right)
    places = {(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in found}
    assert places == {("bad.py", line) for line in bad_lines(PYTHON_BAD)}, found


@pytest.mark.slow
def test_tsc_strict_takes_the_application_and_refuses_the_wrong_one(
    generated: Path, typescript: TypeScript
) -> None:
    """Contract: the application compiles, runs, and answers as the one in Python does."""
    folder = typescript.folder
    (folder / "generated").mkdir()
    bindings = (generated / "generated/prompts.ts").read_text("utf-8")
    (folder / "generated/prompts.ts").write_text(bindings, "utf-8")
    (folder / "app.ts").write_text(TYPESCRIPT, "utf-8")
    assert typescript.compile() == []
    _expect_answers(typescript.run(RUN_TYPESCRIPT, stdin=json.dumps(CALLS)))
    (folder / "bad.ts").write_text(TYPESCRIPT_BAD, "utf-8")
    errors = [line for line in typescript.compile() if not line.startswith(" ")]
    places = [re.match(r"bad\.ts\((\d+),", line) for line in errors]
    assert all(places), errors
    assert {int(place[1]) for place in places if place} == bad_lines(TYPESCRIPT_BAD), errors


@pytest.mark.slow
def test_the_application_answers_the_model_in_python(generated: Path) -> None:
    """The other half of the pair: what type-checks also runs."""
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=generated,
        input=json.dumps(CALLS),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    _expect_answers(done.stdout)
