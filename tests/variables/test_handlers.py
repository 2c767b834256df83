"""``context.vars`` in handlers of both languages, honest and hostile, and the two tools."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from raw_exec.dispatch import ToolResult
from raw_exec.pool import RequestRefused
from raw_exec.pool.answers import Answers
from raw_exec.pool.channel import Channel, ChannelClosed
from raw_exec.wire import ConnectionState, Request
from requires import require_node
from tests.variables.support import TOKEN, configure, opened, provider, variable
from toolbox import write_tool

LANGUAGES = ["esm", "python", "async python"]
VARIABLES = {
    "open": variable("literal", value={"deep": [1, None, "é"]}),
    "key": variable("literal", "use", value=TOKEN),
    "count": variable("literal", value=3),
    "hidden": variable("literal", value=TOKEN),
}
SELECTED = ["open", "key", "count"]

PYTHON_BODY = """
    v = context.vars
    out = {"list": [row["name"] for row in AWAIT v.list()]}
    got = AWAIT v.read("open")
    out["read"] = [got["name"], got["value"], got["cached"], len(got["observed_at"])]
    out["valid"] = AWAIT v.validate_env_refs({"K": "key"})
    out["env"] = sorted((AWAIT v.resolve_env({"K": "key", "N": "count"})).items())
    out["aliases"] = [AWAIT v.validateEnvRefs({}), AWAIT v.resolveEnv({"N": "count"})]
    for name in ("key", "hidden", "missing"):
        try:
            AWAIT v.read(name)
        except Exception as error:
            out[name] = [type(error).__name__, error.code]
    try:
        AWAIT v.resolve_env({"1": "count"})
    except Exception as error:
        out["refs"] = error.code
    wrong = []
    for bad in (lambda: v.read(1), lambda: v.resolve_env([]), lambda: v.resolve_env({"A": 1})):
        try:
            AWAIT bad()
        except TypeError:
            wrong.append("TypeError")
    out["wrong"] = wrong
    return {"content": [{"type": "json", "value": out}]}
"""
SOURCES = {
    "esm": """
export async function handler(args, context) {
  const v = context.vars;
  const out = { list: (await v.list()).map((row) => row.name) };
  const got = await v.read("open");
  out.read = [got.name, got.value, got.cached, got.observed_at.length];
  out.valid = (await v.validateEnvRefs({ K: "key" })) ?? null;
  out.env = Object.entries(await v.resolveEnv({ K: "key", N: "count" })).sort();
  out.aliases = [null, await v.resolveEnv({ N: "count" })];
  for (const name of ["key", "hidden", "missing"]) {
    try { await v.read(name); } catch (error) { out[name] = [error.name, error.code]; }
  }
  try { await v.resolveEnv({ 1: "count" }); } catch (error) { out.refs = error.code; }
  out.wrong = [];
  for (const bad of [() => v.read(1), () => v.resolveEnv([]), () => v.resolveEnv({ A: 1 })]) {
    try { await bad(); } catch (error) { out.wrong.push(error.name); }
  }
  return { content: [{ type: "json", value: out }] };
}
""",
    "python": f"def handler(args, context):{PYTHON_BODY.replace('AWAIT ', '')}",
    "async python": f"async def handler(args, context):{PYTHON_BODY.replace('AWAIT ', 'await ')}",
}


def with_tool(
    root: Path,
    language: str,
    source: str,
    *,
    variables: dict[str, Any] | None = None,
    providers: dict[str, Any] | None = None,
    **extra: Any,
) -> raw_exec.Config:
    """Write the tool ``t`` and a configuration that selects it and some variables."""
    if language == "esm":
        require_node()
    write_tool(root, "t", source, language="esm" if language == "esm" else "python")
    chosen = VARIABLES if variables is None else variables
    select = [name for name in chosen if name != "hidden"]
    return configure(root, chosen, providers, select=select, tools=["agent/t"], **extra)


async def call(config: raw_exec.Config, root: Path, *, times: int = 1, **options: Any) -> Any:
    """Call the tool ``t`` so often in one runtime; return the last result."""
    (root / "work").mkdir(exist_ok=True)
    with trio.fail_after(40):
        async with raw_exec.open_runtime(config, cwd=root / "work") as runtime:
            for _ in range(times):
                result = await runtime.registry.dispatch("t", {}, **options)
            assert runtime.statistics().calls_in_flight == 0
    return result


def text_of(result: ToolResult) -> str:
    return json.dumps(result.as_dict())


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_handler_gets_what_is_selected_and_no_more(tmp_path: Path, language: str) -> None:
    """Seed 2: list, read, validateEnvRefs, resolveEnv; the same in each language."""
    result = await call(with_tool(tmp_path, language, SOURCES[language]), tmp_path, times=2)
    assert not result.is_error, result
    assert result.usage["worker"] == "warm"
    assert result.content[0]["value"] == {
        "list": SELECTED,
        "read": ["open", {"deep": [1, None, "é"]}, False, 24],
        "valid": None,
        "env": [["K", TOKEN], ["N", "3"]],
        "aliases": [None, {"N": "3"}],
        "key": ["VariableError", "access_denied"],
        "hidden": ["VariableError", "not_selected"],
        "missing": ["VariableError", "not_selected"],
        "refs": "env_refs_invalid",
        "wrong": ["TypeError"] * 3,
    }


LIST = {
    "esm": "export async function handler(a, context) {\n"
    "  return { content: [{ type: 'json', value: await context.vars.list() }] };\n}\n",
    "python": "def handler(a, context):\n"
    "    return {'content': [{'type': 'json', 'value': context.vars.list()}]}\n",
}


@pytest.mark.parametrize("language", LIST)
async def test_without_variables_the_list_is_empty(tmp_path: Path, language: str) -> None:
    """``context.vars`` is there whatever the agent selects."""
    result = await call(with_tool(tmp_path, language, LIST[language], variables={}), tmp_path)
    assert (result.is_error, result.content) == (False, ({"type": "json", "value": []},))


SLOW = {"slow": variable("provider", name="slow"), "fast": variable("literal", value="fast")}
RACES = {
    "esm": """
export async function handler(args, context) {
  const slow = context.vars.read("slow");
  const fast = await Promise.race([slow, context.vars.read("fast")]);
  const stop = new AbortController();
  const third = context.vars.read("slow", { signal: stop.signal });
  stop.abort();
  let aborted = "not";
  try { await third; } catch (error) { aborted = error.name; }
  return { content: [{ type: "json", value: [fast.value, aborted] }] };
}
""",
    "async python": """
import asyncio
async def handler(args, context):
    slow = context.vars.read("slow")
    both = (slow, context.vars.read("fast"))
    done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    third = context.vars.read("slow")
    third.cancel()
    aborted = "not"
    try:
        await third
    except asyncio.CancelledError as error:
        aborted = type(error).__name__
    return {"content": [{"type": "json", "value": [done.pop().result()["value"], aborted]}]}
""",
}


@pytest.mark.parametrize(
    ("language", "aborted"), [("esm", "AbortError"), ("async python", "CancelledError")]
)
async def test_a_slow_answer_holds_up_neither_another_nor_the_result(
    tmp_path: Path, language: str, aborted: str
) -> None:
    """Requests are answered beside each other; what is left at the end is ended and reaped."""
    slow = provider(tmp_path, "slow", "import time; time.sleep(999)", timeout_ms=60_000)
    config = with_tool(
        tmp_path, language, RACES[language], variables=SLOW, providers={"slow": slow}
    )
    result = await call(config, tmp_path, times=2)
    assert result.content == ({"type": "json", "value": ["fast", aborted]},), result


ABORTS = {
    "esm": """
import { writeFileSync } from "node:fs";
export async function handler(args, context) {
  try { await context.vars.read("slow"); } catch (error) { writeFileSync("seen", error.name); }
  return await new Promise(() => setInterval(() => {}, 1000));
}
""",
    "python": """
import time
def handler(args, context):
    try:
        context.vars.read("slow")
    except Exception as error:
        open("seen", "w").write(error.code)
    time.sleep(999)
""",
}


@pytest.mark.parametrize(("language", "seen"), [("esm", "AbortError"), ("python", "aborted")])
async def test_an_abort_wakes_a_handler_that_waits_for_a_variable(
    tmp_path: Path, language: str, seen: str
) -> None:
    """Seed 2: respect context.signal; a waiting handler needs no signal of its own."""
    slow = provider(tmp_path, "slow", "import time; time.sleep(999)", timeout_ms=60_000)
    config = with_tool(
        tmp_path,
        language,
        ABORTS[language],
        variables=SLOW,
        providers={"slow": slow},
        limits={"grace_ms": 2000},
    )
    result = await call(config, tmp_path, timeout_seconds=1.5)
    assert (result.code, result.origin) == ("timeout", "host")
    assert (tmp_path / "work" / "seen").read_text() == seen


# ---------------------------------------------------------------- hostile


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("vars.read", {"name": "count", "tool": "builtin/read_var"}, "request_invalid"),
        ("vars.read", {"name": "hidden", "agent": "b"}, "request_invalid"),
        ("vars.read", {"name": ["count"]}, "not_selected"),
        ("vars.read", {"name": None}, "not_selected"),
        ("vars.read", {}, "request_invalid"),
        ("vars.read", None, "request_invalid"),
        ("vars.read", ["count"], "request_invalid"),
        ("vars.list", {"all": True}, "request_invalid"),
        ("vars.resolve_env", {"refs": {"A": "hidden"}}, "not_selected"),
        ("vars.resolve_env", {"refs": "A"}, "env_refs_invalid"),
        ("vars.get", {"name": "count"}, "unsupported"),
        ("__class__", {}, "unsupported"),
    ],
)
async def test_a_frame_decides_nothing_about_what_it_may_have(
    tmp_path: Path, method: str, params: Any, code: str
) -> None:
    """Contract: authorised by the call's tool and agent, never by what the frame says."""
    async with opened(configure(tmp_path, VARIABLES, select=SELECTED)) as service:
        answer = service.requests_for("agent/t")
        with pytest.raises(RequestRefused) as caught:
            await answer(method, params)
        assert TOKEN not in str(caught.value)
        assert caught.value.code == code
        assert (await answer("vars.read", {"name": "count"}))["value"] == 3


FORGED = """
import { writeSync } from "node:fs";
const text = (s) => Buffer.concat([Buffer.from([0xd9, s.length]), Buffer.from(s)]);
export async function handler(args, context) {
  await context.vars.list();
  const body = Buffer.concat([
    Buffer.from([0x85]), text("t"), text("request"), text("id"), Buffer.from([ID]), text("rid"),
    Buffer.from([77]), text("method"), text("METHOD"), text("params"), Buffer.from([0x80]),
  ]);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  writeSync(4, Buffer.concat([head, body]));
  await context.vars.list();
  return { content: [{ type: "text", text: "done" }] };
}
"""


@pytest.mark.parametrize(
    ("ident", "method", "outcome"),
    [
        ("99", "vars.list", ("worker_crashed", "host")),
        ("0", "vars.list", ("worker_crashed", "host")),
        ("1", "vars.list", ("worker_crashed", "host")),
        ("1", "no.such", ("worker_crashed", "host")),
    ],
)
async def test_a_forged_frame_of_another_call_ends_the_worker(
    tmp_path: Path, ident: str, method: str, outcome: tuple[Any, ...]
) -> None:
    """Its own number is none that it could guess, so no frame that it makes up is right."""
    source = FORGED.replace("ID", ident).replace("METHOD", method)
    result = await call(with_tool(tmp_path, "esm", source), tmp_path)
    assert (result.code, result.origin) == outcome, result


async def test_a_patched_prototype_does_not_reach_another_variable(tmp_path: Path) -> None:
    """The bridge's builtins are captured; and the supervisor would refuse all the same."""
    source = """
Object.prototype.name = "hidden";
Promise.prototype.then = function () { throw new Error("patched"); };
EventTarget.prototype.addEventListener = () => { throw new Error("patched"); };
export async function handler(args, context) {
  const got = await context.vars.read("count", { signal: new AbortController().signal });
  return { content: [{ type: "json", value: [got.name, got.value] }] };
}
"""
    result = await call(with_tool(tmp_path, "esm", source), tmp_path)
    assert result.content == ({"type": "json", "value": ["count", 3]},), result


@pytest.mark.slow
async def test_a_flood_of_requests_ends_the_worker(tmp_path: Path) -> None:
    """The frames of one call are bounded, whatever they ask."""
    source = """
export async function handler(args, context) {
  for (let i = 0; i < 20000; i++) { try { await context.vars.list(); } catch (e) { break; } }
  return { content: [] };
}
"""
    result = await call(with_tool(tmp_path, "esm", source), tmp_path)
    assert (result.code, result.origin) == ("worker_crashed", "host"), result


THROWS = {
    "esm": """
export async function handler(args, context) {
  const env = await context.vars.resolveEnv({ K: "key" });
  console.log("log " + env.K);
  throw new Error("bad key " + env.K);
}
""",
    "python": """
def handler(args, context):
    env = context.vars.resolve_env({"K": "key"})
    print("log " + env["K"])
    raise ValueError("bad key " + env["K"])
""",
}


@pytest.mark.parametrize("language", THROWS)
async def test_a_secret_in_an_error_or_a_log_is_taken_out(tmp_path: Path, language: str) -> None:
    """Corpus R13: errors, logs and the audit record, with all the host says about them."""
    config = with_tool(tmp_path, language, THROWS[language])
    (tmp_path / "work").mkdir()
    audit = tmp_path / "audit.jsonl"
    with trio.fail_after(40):
        async with raw_exec.open_runtime(config, cwd=tmp_path / "work", audit=audit) as runtime:
            result = await runtime.registry.dispatch("t", {})
    assert result.code == "handler_error"
    assert "bad key [redacted key]" in result.text
    assert result.logs["stdout"] == "log [redacted key]\n"
    assert TOKEN not in text_of(result) + audit.read_text()


# ---------------------------------------------------------------- the control pipe


class _AnyReply:
    """A connection with a call under way that encodes a reply as its value."""

    state = ConnectionState.CALLING

    def send_reply(self, **reply: Any) -> bytes:
        value: bytes = reply["value"]
        return value


async def test_a_control_frame_that_was_cut_ends_the_use_of_the_pipe() -> None:
    """Its reader would be lost in the stream: nothing more is written."""
    pipes = [os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) for _ in range(3)]
    (_, requests), (replies, _), (_, control) = pipes
    answers = Answers(_AnyReply(), Channel(requests, replies, control))  # type: ignore[arg-type]

    async def big(_method: str, _params: Any) -> bytes:
        return b"x" * 1_000_000

    async def result() -> str:
        await trio.testing.wait_all_tasks_blocked()
        return "result"

    with trio.fail_after(5):
        event = await answers.serve(Request(1, 1, "m", None), big, result)
        assert (event, answers.cut) == ("result", True)
        with pytest.raises(ChannelClosed):
            await answers.send(b"abort")
    for fd in {fd for pipe in pipes for fd in pipe}:
        os.close(fd)


# ---------------------------------------------------------------- the tools


async def test_the_two_tools_list_and_read(tmp_path: Path) -> None:
    """Contract: list_vars runs nothing and shows no value; read_var gives one."""
    tools = ["builtin/list_vars", "builtin/read_var"]
    config = configure(tmp_path, VARIABLES, select=SELECTED, tools=tools)
    with trio.fail_after(40):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            dispatch = runtime.registry.dispatch
            listed = await dispatch("list_vars", {})
            value = await dispatch("read_var", {"name": "count"})
            denied = [await dispatch("read_var", {"name": n}) for n in ("key", "hidden")]
            wrong = await dispatch("read_var", {"name": "No!"})
    assert listed.content[0]["value"] == {
        "vars": [
            {"name": "open", "description": "a literal", "type": "json", "access": "read"},
            {"name": "key", "description": "a literal", "type": "json", "access": "use"},
            {"name": "count", "description": "a literal", "type": "json", "access": "read"},
        ]
    }
    shown = value.content[0]["value"]
    assert shown | {"observed_at": ""} == {
        "name": "count",
        "value": 3,
        "observed_at": "",
        "cached": False,
    }
    assert [(r.is_error, r.code, r.origin) for r in denied] == [
        (True, "vars_unavailable", "tool")
    ] * 2
    assert (wrong.code, wrong.origin) == ("invalid_arguments", "host")
    assert TOKEN not in "".join(map(text_of, [listed, value, *denied, wrong]))
