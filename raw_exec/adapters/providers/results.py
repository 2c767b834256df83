"""Writing results as the messages that a model provider takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from ...dispatch import ToolResult
from ...profiles import Profile
from .calls import ProviderCall

__all__ = ["Answered", "result_messages"]

Answered: TypeAlias = "tuple[ProviderCall, ToolResult]"
_Message: TypeAlias = "dict[str, Any]"


def result_messages(profile: Profile, answered: Sequence[Answered]) -> list[dict[str, Any]]:
    """Return what to append to the conversation after the message that had the calls.

    Args:
        profile: Whose messages to write.
        answered: Every call of one message with its result, in order. A provider wants all
            of them at once, refusals included.
    """
    writers: dict[str, Callable[[Sequence[Answered]], list[_Message]]] = {
        "anthropic": _anthropic,
        "openai": _openai,
        "openai-responses": _responses,
        "gemini": _gemini,
        "mcp": _mcp,
    }
    return writers[profile.provider](answered) if answered else []


def _text(result: ToolResult) -> str:
    return "\n".join(_texts(result))


def _texts(result: ToolResult) -> Iterable[str]:
    if result.is_error and result.origin == "host" and result.code is not None:
        yield f"error {result.code}"
    elif result.is_error:
        yield "error"
    for block in result.content:
        if block["type"] == "text":
            yield block["text"]
        elif block["type"] == "json":
            yield _json(block["value"])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _images(result: ToolResult) -> list[tuple[str, str]]:
    return [(b["mimeType"], b["data"]) for b in result.content if b["type"] == "image"]


def _anthropic(answered: Sequence[Answered]) -> list[_Message]:
    return [{"role": "user", "content": [_tool_result(*pair) for pair in answered]}]


def _tool_result(call: ProviderCall, result: ToolResult) -> _Message:
    content: list[_Message] = []
    for block in result.content:
        if block["type"] == "image":
            source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
            content.append({"type": "image", "source": source})
        else:
            text = block["text"] if block["type"] == "text" else _json(block["value"])
            if text:  # an empty text block is refused
                content.append({"type": "text", "text": text})
    return {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": content,
        "is_error": result.is_error,
    }


def _openai(answered: Sequence[Answered]) -> list[_Message]:
    messages: list[_Message] = []
    shown: list[_Message] = []
    for call, result in answered:
        text = _text(result)
        images = _images(result)
        if images:
            note = f"{len(images)} image(s) of {call.name} follow"
            text = f"{text}\n{note}" if text else note
            shown.append({"type": "text", "text": f"images of {call.name} ({call.id}):"})
            shown += [
                {"type": "image_url", "image_url": {"url": _data_url(*image)}} for image in images
            ]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    if shown:  # a tool's message takes text only
        messages.append({"role": "user", "content": shown})
    return messages


def _data_url(mime_type: str, data: str) -> str:
    return f"data:{mime_type};base64,{data}"


def _responses(answered: Sequence[Answered]) -> list[_Message]:
    return [
        {"type": "function_call_output", "call_id": call.id, "output": _output(result)}
        for call, result in answered
    ]


def _output(result: ToolResult) -> str | list[_Message]:
    images = _images(result)
    text = _text(result)
    if not images:
        return text
    parts: list[_Message] = [{"type": "input_text", "text": text}] if text else []
    return parts + [
        {"type": "input_image", "image_url": _data_url(*image), "detail": "auto"}
        for image in images
    ]


def _gemini(answered: Sequence[Answered]) -> list[_Message]:
    return [{"role": "user", "parts": [_function_response(*pair) for pair in answered]}]


def _function_response(call: ProviderCall, result: ToolResult) -> _Message:
    values = [block["value"] for block in result.content if block["type"] == "json"]
    others = [block for block in result.content if block["type"] == "text"]
    output: Any = values[0] if len(values) == 1 and not others else _text(result)
    response: _Message = {
        "name": call.name,
        "response": {"error": _text(result)} if result.is_error else {"output": output},
    }
    if call.id:
        response["id"] = call.id
    images = _images(result)
    if images:
        response["parts"] = [
            {"inlineData": {"mimeType": mime_type, "data": data}} for mime_type, data in images
        ]
    return {"functionResponse": response}


def _mcp(answered: Sequence[Answered]) -> list[_Message]:
    return [_call_tool_result(result) for _, result in answered]


def _call_tool_result(result: ToolResult) -> _Message:
    content: list[_Message] = []
    values = []
    for block in result.content:
        if block["type"] == "json":
            values.append(block["value"])
            content.append({"type": "text", "text": _json(block["value"])})
        elif block["type"] == "image":
            content.append({**block})
        else:
            content.append({"type": "text", "text": block["text"]})
    out: _Message = {"content": content, "isError": result.is_error}
    if not result.is_error and len(values) == 1 and isinstance(values[0], dict):
        out["structuredContent"] = values[0]
    return out
