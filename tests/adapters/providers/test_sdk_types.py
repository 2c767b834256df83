"""What is sent and read, checked with the providers' own SDKs. They are offline here."""

from __future__ import annotations

import gc
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import raw_exec
from raw_exec.adapters.providers import (
    PROFILES,
    ProviderCall,
    profile_named,
    project_tools,
    read_calls,
    result_messages,
)
from raw_exec.dispatch import ToolResult
from raw_exec.tools import load_registry
from requires import require
from toolbox import write_config, write_tool

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
    },
    "required": ["text"],
    "additionalProperties": False,
    "$defs": {"tag": {"enum": ["a", "b"]}},
}
PIXEL = "iVBORw0KGgo="


def _sdk(name: str) -> Any:
    """Import a provider's SDK, or skip."""
    known = name in sys.modules
    try:
        module = importlib.import_module(name)
    except ImportError:
        require(name.partition(".")[0], False, f"the SDK {name} is not installed")
        raise
    if not known:
        gc.collect()
        gc.freeze()  # it is large and stays; see tests/conftest.py
    return module


def _result(
    *content: dict[str, Any], is_error: bool = False, code: str | None = None
) -> ToolResult:
    return ToolResult(tuple(content), is_error, code, "handler", {}, {}, 1.0)


@pytest.fixture
def tools(tmp_path: Path) -> Any:
    """Return the tools of a configuration with one that has every kind of argument."""
    write_tool(tmp_path, "mark", "", language="python", schema=SCHEMA)
    write_tool(tmp_path, "none", "", language="python")
    return load_registry(raw_exec.load_config(write_config(tmp_path, ["mark"]))).tools


def _answered(call_id: str = "c1") -> list[tuple[ProviderCall, ToolResult]]:
    return [
        (
            ProviderCall(call_id, "mark", {}),
            _result(
                {"type": "text", "text": "done"},
                {"type": "json", "value": {"n": 1}},
                {"type": "image", "mimeType": "image/png", "data": PIXEL},
            ),
        ),
        (
            ProviderCall("c2", "mark", {}),
            _result({"type": "text", "text": "no"}, is_error=True, code="tool_denied"),
        ),
    ]


def _validate(kind: Any, value: Any) -> None:
    from pydantic import TypeAdapter

    TypeAdapter(kind).validate_python(value, strict=False)


def test_anthropic_takes_the_definitions_and_the_results(tools: Any) -> None:
    """Checked against ``anthropic.types``."""
    types = _sdk("anthropic.types")
    profile = profile_named("anthropic")
    for definition in project_tools(tools, profile).definitions:
        _validate(types.ToolParam, definition)
    (message,) = result_messages(profile, _answered())
    _validate(types.MessageParam, message)
    for block in message["content"]:
        _validate(types.ToolResultBlockParam, block)
    assert message["content"][0]["content"][1] == {"type": "text", "text": '{"n":1}'}
    assert [block["is_error"] for block in message["content"]] == [False, True]


def test_anthropic_objects_and_json_are_read_alike() -> None:
    """A ``Message`` of the SDK, its JSON, its content, or one block."""
    types = _sdk("anthropic.types")
    block = {"type": "tool_use", "id": "c1", "name": "mark", "input": {"text": "a", "tags": None}}
    message = types.Message.model_validate(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "x",
            "content": [{"type": "text", "text": "I will."}, block],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )
    wanted = (ProviderCall("c1", "mark", {"text": "a", "tags": None}),)
    profile = profile_named("anthropic")
    for form in (message, message.content, message.content[1], message.model_dump(), block):
        assert read_calls(profile, form) == wanted
    assert read_calls(profile, {"role": "assistant", "content": "only text"}) == ()


@pytest.mark.parametrize("name", ["openai", "openai-strict"])
def test_openai_takes_the_definitions_and_the_results(tools: Any, name: str) -> None:
    """Checked against ``openai.types.chat``."""
    chat = _sdk("openai.types.chat")
    profile = profile_named(name)
    (definition,) = project_tools(tools, profile).definitions
    _validate(chat.ChatCompletionFunctionToolParam, definition)
    assert definition["function"].get("strict", False) == (name == "openai-strict")
    *results, images = result_messages(profile, _answered())
    for message in results:
        _validate(chat.ChatCompletionToolMessageParam, message)
    _validate(chat.ChatCompletionUserMessageParam, images)
    assert results[1]["content"] == "error tool_denied\nno"


def test_the_sdk_of_openai_would_make_the_same_strict_schema(tools: Any) -> None:
    """Its own converter leaves a strict schema as it is."""
    lib = _sdk("openai.lib._pydantic")
    (definition,) = project_tools(tools, profile_named("openai-strict")).definitions
    schema = definition["function"]["parameters"]
    again = lib._ensure_strict_json_schema(json.loads(json.dumps(schema)), path=(), root=schema)
    assert again == schema


def test_openai_calls_are_read_and_bad_arguments_are_said() -> None:
    """A model may send half a JSON text."""
    chat = _sdk("openai.types.chat")
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "mark", "arguments": '{"text":"a"}'}},
        {"id": "c2", "type": "function", "function": {"name": "mark", "arguments": '{"text":'}},
        {"id": "c3", "type": "function", "function": {"name": "mark", "arguments": ""}},
    ]
    message = chat.ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "tool_calls": calls}
    )
    profile = profile_named("openai")
    for form in (message, message.model_dump(), calls):
        first, second, third = read_calls(profile, form)
        assert (first.arguments, third.arguments) == ({"text": "a"}, {})
        assert (second.id, second.problem is not None) == ("c2", True)
    assert read_calls(profile, {"role": "assistant", "content": "text"}) == ()


@pytest.mark.parametrize("name", ["openai-responses", "openai-responses-strict"])
def test_openai_responses_take_the_definitions_and_the_results(tools: Any, name: str) -> None:
    """The other form of the same provider."""
    responses = _sdk("openai.types.responses")
    item_types = _sdk("openai.types.responses.response_input_item_param")
    profile = profile_named(name)
    (definition,) = project_tools(tools, profile).definitions
    _validate(responses.FunctionToolParam, definition)
    for item in result_messages(profile, _answered()):
        _validate(item_types.FunctionCallOutput, item)
    call = responses.ResponseFunctionToolCall.model_validate(
        {"type": "function_call", "call_id": "c1", "name": "mark", "arguments": '{"text":"a"}'}
    )
    assert read_calls(profile, [call]) == (ProviderCall("c1", "mark", {"text": "a"}),)


def test_gemini_takes_the_definitions_and_the_results(tools: Any) -> None:
    """Checked against ``google.genai.types``."""
    types = _sdk("google.genai.types")
    profile = profile_named("gemini")
    (definition,) = project_tools(tools, profile).definitions
    tool = types.Tool.model_validate(definition)
    (function,) = tool.function_declarations
    types.JSONSchema.model_validate(function.parameters_json_schema)
    (message,) = result_messages(profile, _answered())
    content = types.Content.model_validate(message)
    assert [part.function_response.name for part in content.parts] == ["mark", "mark"]
    part = {"functionCall": {"id": "c1", "name": "mark", "args": {"text": "a"}}}
    call = types.Content.model_validate({"role": "model", "parts": [{"text": "x"}, part]})
    wanted = (ProviderCall("c1", "mark", {"text": "a"}),)
    assert read_calls(profile, call) == wanted
    assert read_calls(profile, part) == wanted


def test_mcp_takes_the_definitions_and_the_results(tools: Any) -> None:
    """Checked against ``mcp_types``; structured content only beside success."""
    types = _sdk("mcp_types")
    profile = profile_named("mcp")
    for definition in project_tools(tools, profile).definitions:
        types.Tool.model_validate(definition)
    good, bad = result_messages(profile, _answered())
    for message in (good, bad):
        types.CallToolResult.model_validate(message)
    assert (good["structuredContent"], "structuredContent" in bad) == ({"n": 1}, False)
    params = {"name": "mark", "arguments": {"text": "a"}}
    assert read_calls(profile, params) == (ProviderCall("", "mark", {"text": "a"}),)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_anything_else_is_no_message(name: str) -> None:
    """A mistake of the host program is an error with a code, not a traceback of ours."""
    for message in (5, {"role": "user"} if name == "mcp" else 5.5, None):
        with pytest.raises(raw_exec.ConfigError) as caught:
            read_calls(profile_named(name), message)
        assert caught.value.code == "message_invalid"
