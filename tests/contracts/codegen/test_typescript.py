"""TypeScript bindings at run time, in Node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from contracts.codegen.conftest import TypeScript
from contracts.codegen.locks import AWKWARD_NAMES, FETCH_INPUT, FETCH_OUTPUT, sample

from raw_exec.contracts.codegen import Lock, Prompt, Tool, generate

PRELUDE = """
import * as bindings from "./prompts.js";
const { getPrompt, ToolExecutionError } = bindings;
const brief = getPrompt("@acme/daily-brief");
const warned = [];
console.warn = (text) => warned.push(text);
const other = getPrompt("@acme/other.one");
const thrown = async (fn) => { try { await fn(); return null; } catch (e) { return e.name; } };
const tools = {
  "fetch-page": ({ url }) => ({ text: url }),
  web_search: async ({ query }) => [query],
};
const out = {};
"""
SCRIPT = """
out.defs = brief.toolDefs();
brief.toolDefs()[0].input_schema.type = "spoilt";
out.again = brief.toolDefs()[0].input_schema.type;
out.sync = await brief.dispatchTool("fetch-page", { url: "é", timeout: 3.0 }, tools);
out.async = await brief.dispatchTool("web_search", { query: "q" }, tools);
out.unknown = [];
for (const name of ["nope", "toString", "constructor", "__proto__", ""]) {
  const all = { ...tools, nope: () => 1 };
  out.unknown.push((await brief.dispatchTool(name, {}, all)).code);
}
out.unbound = (await brief.dispatchTool("fetch-page", { url: "u" }, {})).code;
out.inherited = (await other.dispatchTool("constructor", {}, {})).code;
out.bad = await brief.dispatchTool("fetch-page", { url: "", timeout: 61, x: 1 }, {
  ...tools, "fetch-page": () => { throw new Error("called"); },
});
class Gone extends ToolExecutionError {}
out.execution = await brief.dispatchTool("fetch-page", { url: "u" }, {
  ...tools, "fetch-page": async () => { throw new Gone("404"); },
});
out.bug = await thrown(() => brief.dispatchTool("fetch-page", { url: "u" }, {
  ...tools, "fetch-page": () => { throw new TypeError("bug"); },
}));
out.undefined = await other.dispatchTool("now", {}, { now: () => undefined });
out.open = await other.dispatchTool("now", { a: [1] }, { now: (input) => input });
out.plainHas = ["toolDefs" in getPrompt("@acme/plain"), "dispatchTool" in getPrompt("@acme/plain")];
out.missing = await thrown(() => getPrompt("@acme/nope"));
out.warned = warned;
let deep = 1;
for (let i = 0; i < 5000; i++) deep = [deep];
const evil = JSON.parse('{"__proto__": {"polluted": 1}}');
const odd = [NaN, Infinity, "\\ud800", { "\\ud800": 1 }, evil, () => 1, 10n, Symbol("s"), deep,
  [undefined]];
out.odd = [];
for (const a of odd) out.odd.push((await other.dispatchTool("now", { a }, { now: () => 1 })).code);
out.dropped = await other.dispatchTool("now", { a: undefined }, { now: (input) => input });
out.polluted = {}.polluted ?? null;
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, bindings_npm: Path) -> dict[str, Any]:
    """Return what one run of all of it saw."""
    folder = tmp_path_factory.mktemp("ts")
    typescript = TypeScript(folder, bindings_npm)
    (folder / "prompts.ts").write_text(generate(sample(), "typescript"), encoding="utf-8")
    assert typescript.compile() == []
    args = json.dumps({name: [name] for name in AWKWARD_NAMES})
    script = f"""{PRELUDE}{SCRIPT}
out.awkward = await other.dispatchTool("constructor", JSON.parse({json.dumps(args)}),
  {{ constructor: (input) => input }});
console.log(JSON.stringify(out));"""
    found: dict[str, Any] = json.loads(typescript.run(script))
    return found


def test_definitions_are_in_pin_order_and_fresh(seen: dict[str, Any]) -> None:
    """Seed 3: { name, description, input_schema }; the same as in Python."""
    returns = json.dumps(FETCH_OUTPUT, sort_keys=True, separators=(",", ":"))
    assert seen["defs"][0] == {
        "name": "fetch-page",
        "description": f"Fetch.\n\nReturns JSON matching: {returns}",
        "input_schema": FETCH_INPUT,
    }
    assert seen["defs"][1]["name"] == "web_search"
    assert seen["again"] == "object"


def test_sync_and_async_implementations_are_called(seen: dict[str, Any]) -> None:
    """Both, through one method."""
    assert seen["sync"] == {"success": True, "content": '{"text":"é"}'}
    assert seen["async"] == {"success": True, "content": '["q"]'}
    assert seen["undefined"] == {"success": True, "content": "null"}


def test_names_that_are_not_pinned_or_not_bound_are_unknown(seen: dict[str, Any]) -> None:
    """Names that every object inherits included."""
    assert set(seen["unknown"]) == {"unknown-tool"}
    assert (seen["unbound"], seen["inherited"]) == ("unknown-tool", "unknown-tool")


def test_bad_arguments_are_told_by_pointer(seen: dict[str, Any]) -> None:
    """The implementation is not called."""
    assert seen["bad"]["code"] == "input-validation"
    assert "/url: must have at least 1 characters" in seen["bad"]["error"]
    assert "/timeout: must be at most 60" in seen["bad"]["error"]


def test_only_tool_execution_errors_are_told_to_the_model(seen: dict[str, Any]) -> None:
    """Seed 3: anything else is a bug, and passes through."""
    assert seen["execution"] == {"success": False, "error": "404", "code": "execution"}
    assert seen["bug"] == "TypeError"


def test_awkward_names_arrive_as_they_are(seen: dict[str, Any]) -> None:
    """Also those that objects inherit."""
    assert json.loads(seen["awkward"]["content"]) == {name: [name] for name in AWKWARD_NAMES}
    assert json.loads(seen["open"]["content"]) == {"a": [1]}


def test_a_prompt_without_pins_has_no_dispatch(seen: dict[str, Any]) -> None:
    """At run time as in its type; an unknown prompt is an error."""
    assert seen["plainHas"] == [False, False]
    assert seen["missing"] == "RangeError"
    assert len(seen["warned"]) == 2


def test_what_no_json_text_says_is_refused(seen: dict[str, Any]) -> None:
    """Prototype pollution included; undefined properties count as absent, as in JSON."""
    assert set(seen["odd"]) == {"input-validation"}
    assert seen["dropped"]["content"] == "{}"
    assert seen["polluted"] is None


def test_texts_of_a_contract_never_become_code(typescript: TypeScript) -> None:
    """Security: descriptions stand in comments that they can not end."""
    evil = "*/ throw 1; /* \u2028 */ `${throw}` \" '"
    schema = {
        "type": "object",
        "description": evil,
        "properties": {evil: {"description": evil, "enum": [evil]}},
    }
    lock = Lock((Prompt("@acme/p", "1.0.0", (Tool("t", "@acme/t", "1.0.0", schema, evil),)),))
    (typescript.folder / "prompts.ts").write_text(generate(lock, "typescript"), encoding="utf-8")
    assert typescript.compile() == []
    script = f"""import {{ getPrompt }} from "./prompts.js";
const args = JSON.parse({json.dumps(json.dumps({evil: evil}))});
const out = await getPrompt("@acme/p").dispatchTool("t", args, {{ t: (input) => input }});
console.log(out.content);"""
    assert json.loads(typescript.run(script)) == {evil: evil}
