"""From a provider's message to the messages that answer it, through the whole executor."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import trio

import raw_exec
import raw_exec.aio
import raw_exec.blocking
from raw_exec.adapters.providers import answer_calls, answer_calls_blocking
from toolbox import write_config, write_tool

SHOW = """
def handler(args, context):
    return {"content": [{"type": "json", "value": {"args": args, "id": context.tool_call_id}}]}
"""
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["text"],
    "additionalProperties": False,
}


def _config(root: Path) -> raw_exec.Config:
    write_tool(root, "show", SHOW, language="python", schema=SCHEMA)
    open_schema = {"type": "object", "anyOf": [{"required": ["x"]}]}
    write_tool(root, "bad", SHOW, language="python", schema=open_schema)
    return raw_exec.load_config(write_config(root, ["show", "bad"]))


def _calls(*calls: tuple[str, str, str]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "tool_calls": [
            {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, name, arguments in calls
        ],
    }


def test_every_call_of_a_message_is_answered_in_order(tmp_path: Path) -> None:
    """Dispatch and back; what can't be run is answered too."""
    message = _calls(
        ("c1", "show", '{"text":"a","count":null}'),
        ("c2", "gone", "{}"),
        ("c3", "show", '{"text":'),
        ("c4", "show", '{"text":5,"count":1}'),
        ("c5", "bad", "{}"),
    )
    with raw_exec.blocking.open_runtime(_config(tmp_path), cwd=tmp_path) as runtime:
        tools = runtime.registry.projected("openai-strict")
        assert [tool.tool_name for tool in tools.withheld] == ["bad"]
        answers = answer_calls_blocking(runtime.registry.dispatch, tools, message)
    assert [answer["tool_call_id"] for answer in answers] == ["c1", "c2", "c3", "c4", "c5"]
    assert json.loads(answers[0]["content"]) == {"args": {"text": "a"}, "id": "c1"}
    codes = [answer["content"].split("\n")[0] for answer in answers[1:]]
    assert codes == [
        "error unknown_tool",
        "error invalid_arguments",
        "error invalid_arguments",
        "error unknown_tool",
    ]


def test_trio_asyncio_and_plain_programs_get_the_same_messages(tmp_path: Path) -> None:
    """One helper serves the native runtime and both facades."""
    config = _config(tmp_path)
    message = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "show", "input": {"text": "a"}}],
    }

    async def native() -> object:
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            tools = runtime.registry.projected("anthropic")
            return await answer_calls(runtime.registry.dispatch, tools, message)

    async def in_asyncio() -> object:
        async with (
            raw_exec.aio.open_runtime(config, cwd=tmp_path) as runtime,
            runtime.open_session() as session,
        ):
            tools = runtime.registry.projected("anthropic")
            return await answer_calls(session.dispatch, tools, message)

    with raw_exec.blocking.open_runtime(config, cwd=tmp_path) as runtime:
        tools = runtime.registry.projected("anthropic")
        plain = answer_calls_blocking(runtime.registry.dispatch, tools, message)
    assert plain == trio.run(native) == asyncio.run(in_asyncio())
    (block,) = plain[0]["content"]
    assert (block["tool_use_id"], block["is_error"]) == ("c1", False)


def test_definitions_of_a_profile_leave_out_what_is_withheld_and_log_it(
    tmp_path: Path, caplog: Any
) -> None:
    """``runtime.registry.definitions(profile)``; without a profile nothing changes."""
    with raw_exec.blocking.open_runtime(_config(tmp_path), cwd=tmp_path) as runtime:
        assert [d["name"] for d in runtime.registry.definitions("anthropic")] == ["show"]
        assert [d["name"] for d in runtime.registry.definitions()] == ["show", "bad"]
    assert "withheld from anthropic: agent/bad: /input_schema/anyOf" in caplog.text
