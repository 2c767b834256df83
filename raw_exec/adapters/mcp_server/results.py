"""Outcomes of calls as results of ``tools/call``. Pure.

Rules
1. Whatever became of a call is a result, refusals included, so that a model can read it and
   do better; only a tool that does not exist is an error of the protocol.
2. Structured content is sent for one JSON value and no error: an object in the handshake era,
   whose clients refuse anything else, any value since. The value is there as text as well.
3. The code of an outcome is in ``_meta["raw/code"]``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...dispatch import ToolResult
from .eras import Era

__all__ = ["CODE_KEY", "call_result"]

CODE_KEY = "raw/code"


def call_result(result: ToolResult, era: Era) -> dict[str, Any]:
    """Return the result of ``tools/call``, without what the era adds to every result."""
    content: list[dict[str, Any]] = []
    values: list[Any] = []
    for block in result.content:
        if block["type"] == "json":
            values.append(block["value"])
            content.append({"type": "text", "text": _json(block["value"])})
        elif block["type"] == "image":
            content.append({"type": "image", "data": block["data"], "mimeType": block["mimeType"]})
        else:
            content.append({"type": "text", "text": block["text"]})
    if result.is_error and result.origin == "host":
        content += [{"type": "text", "text": f"hint: {hint}"} for hint in result.hints]
    out: dict[str, Any] = {"content": content}
    if result.is_error:
        out["isError"] = True
    elif len(values) == 1 and len(content) == 1 and _may_be_structured(values[0], era):
        out["structuredContent"] = values[0]
    if result.code is not None:
        out["_meta"] = {CODE_KEY: result.code}
    return out


def _may_be_structured(value: Any, era: Era) -> bool:
    return era is Era.STATELESS or isinstance(value, Mapping)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
