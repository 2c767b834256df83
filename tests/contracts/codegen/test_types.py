"""Type checkers accept generated code and right uses of it, and refuse exactly the wrong ones.

A line that has to be refused ends with the word "bad".
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from contracts.codegen.conftest import TypeScript, bad_lines, run_mypy, run_pyright
from contracts.codegen.locks import sample
from contracts.codegen.test_vectors import random_lock

from raw_exec.contracts.codegen import Lock, generate

PYTHON = """
from collections.abc import Awaitable
from prompts import AcmeDailyBriefTools, AcmeFetchPageToolInput, AcmeFetchPageToolOutput
from prompts import ToolExecutionError, VendorWebSearchToolV1_2_0Input, get_prompt

brief = get_prompt("@acme/daily-brief")
url: str = AcmeFetchPageToolInput(url="u").url
timeout: int | None = AcmeFetchPageToolInput(url="u").timeout


def fetch(args: AcmeFetchPageToolInput) -> AcmeFetchPageToolOutput:
    if not args.url:
        raise ToolExecutionError("no")
    return {"text": args.url, "status": 200}


def search(args: VendorWebSearchToolV1_2_0Input) -> list[str]:
    order: str | None = args.sort
    if args.sort == "rank":
        return [args.query, order or ""]
    return []


async def fetch_async(args: AcmeFetchPageToolInput) -> AcmeFetchPageToolOutput:
    return {"text": args.url}


def no_text(args: AcmeFetchPageToolInput) -> dict[str, int]:
    return {"status": 1}


tools: AcmeDailyBriefTools = {"fetch-page": fetch, "web_search": search}
out = brief.dispatch_tool("fetch-page", {"url": "u"}, tools)
if out["success"] is True:
    content: str = out["content"]
    out["code"]  # bad
else:
    code: str = out["code"]
    out["content"]  # bad
brief.dispatch_tool(
    "fetch-page",
    {},
    {"fetch-page": lambda args: {"text": args.url}, "web_search": lambda args: [args.query]},
)


async def main() -> None:
    await brief.dispatch_tool_async("x", {}, {"fetch-page": fetch_async, "web_search": search})
    await brief.dispatch_tool_async("x", {}, {"fetch-page": fetch})  # bad


missing: AcmeDailyBriefTools = {"fetch-page": fetch}  # bad
wrong: AcmeDailyBriefTools = {"fetch-page": no_text, "web_search": search}  # bad
more: AcmeDailyBriefTools = {"fetch-page": fetch, "web_search": search, "x": fetch}  # bad
late: AcmeDailyBriefTools = {"fetch-page": fetch_async, "web_search": search}  # bad
shape: AcmeFetchPageToolOutput = {"text": 1}  # bad
AcmeFetchPageToolInput(url="u").nope  # bad
get_prompt("@acme/nope")  # bad
get_prompt("@acme/plain").dispatch_tool("x", {}, {})  # bad
get_prompt("@acme/plain").tool_defs()  # bad
"""
TYPESCRIPT = """
import { getPrompt, ToolExecutionError } from "./prompts.js";
import type { AcmeDailyBriefTools, AcmeFetchPageTool, ToolDef } from "./prompts.js";
import { AcmeFetchPageToolInputSchema } from "./prompts.js";

const brief = getPrompt("@acme/daily-brief");
export const defs: ToolDef[] = brief.toolDefs();
const fetchPage: AcmeFetchPageTool = async ({ url, timeout }) => {
  const seconds: number | undefined = timeout;
  if (seconds === 0) throw new ToolExecutionError("no");
  return { text: url, status: 200 };
};
const search = ({ query, sort }: { query: string; sort?: "date" | "rank" | undefined }) =>
  [query, sort ?? "date"];
export const tools: AcmeDailyBriefTools = { "fetch-page": fetchPage, web_search: search };
const out = await brief.dispatchTool("fetch-page", { url: "u" }, {
  "fetch-page": async ({ url }) => ({ text: url }),
  web_search: ({ query }) => [query],
});
if (out.success) {
  out.content.trim();
  out.code; // bad
} else {
  out.content; // bad
}
export const parsed: { url: string } = AcmeFetchPageToolInputSchema.parse({});
await brief.dispatchTool("x", {}, { "fetch-page": fetchPage }); // bad
export const missing: AcmeDailyBriefTools = { "fetch-page": fetchPage }; // bad
const noText = () => ({ status: 1 });
export const wrong: AcmeDailyBriefTools = { "fetch-page": noText, web_search: search }; // bad
export const more: AcmeDailyBriefTools = { ...tools, x: 1 }; // bad
export const shape: AcmeFetchPageTool = () => ({ text: 1 }); // bad
export const arg: AcmeFetchPageTool = ({ nope }) => ({ text: "" }); // bad
getPrompt("@acme/nope"); // bad
getPrompt("@acme/plain").dispatchTool("x", {}, {}); // bad
getPrompt("@acme/plain").toolDefs(); // bad
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Return a folder with Python bindings and a program that uses them."""
    (tmp_path / "prompts.py").write_text(generate(sample(), "python"), encoding="utf-8")
    (tmp_path / "use.py").write_text(PYTHON, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_mypy_strict_refuses_exactly_the_wrong_uses(python: Path) -> None:
    """Omitting a tool or returning the wrong shape is a compile error."""
    # What is imported is checked as well, so an error in the bindings would be another place.
    errors = [line.split(":") for line in run_mypy(python / "use.py") if ": error:" in line]
    places = {(file, int(line)) for file, line, *_ in errors}
    assert places == {("use.py", line) for line in bad_lines(PYTHON)}, errors


@pytest.mark.slow
def test_pyright_refuses_exactly_the_wrong_uses(python: Path, bindings_npm: Path) -> None:
    """The other checker of the language."""
    found = run_pyright(python / "use.py", bindings_npm, "prompts.py")
    places = {
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1)
        for one in found
        if one["severity"] == "error" or Path(one["file"]).name != "use.py"
    }
    assert places == {("use.py", line) for line in bad_lines(PYTHON)}, found


@pytest.mark.slow
def test_tsc_strict_refuses_exactly_the_wrong_uses(typescript: TypeScript) -> None:
    """With every stricter option of the compiler as well."""
    (typescript.folder / "prompts.ts").write_text(generate(sample(), "typescript"), "utf-8")
    (typescript.folder / "use.ts").write_text(TYPESCRIPT, encoding="utf-8")
    errors = typescript.compile()
    places = [re.match(r"use\.ts\((\d+),", line) for line in errors if not line.startswith(" ")]
    assert all(places), errors
    assert {int(place[1]) for place in places if place} == bad_lines(TYPESCRIPT), errors


@pytest.mark.slow
def test_bindings_of_random_contracts_pass_every_checker(
    tmp_path: Path, bindings_npm: Path
) -> None:
    """Not only of those that somebody thought of; schemas are used for results as well."""
    lock = random_lock(seed=3, schemas=40, results=True)
    (tmp_path / "prompts.py").write_text(generate(lock, "python"), encoding="utf-8")
    assert run_mypy(tmp_path / "prompts.py") == []
    assert run_pyright(tmp_path / "prompts.py", bindings_npm) == []


@pytest.mark.slow
def test_empty_projects_pass_every_checker(
    tmp_path: Path, bindings_npm: Path, typescript: TypeScript
) -> None:
    """A project that has just been started."""
    (tmp_path / "prompts.py").write_text(generate(Lock(()), "python"), encoding="utf-8")
    assert run_mypy(tmp_path / "prompts.py") == []
    assert run_pyright(tmp_path / "prompts.py", bindings_npm) == []
    (typescript.folder / "prompts.ts").write_text(generate(Lock(()), "typescript"), "utf-8")
    assert typescript.compile() == []
