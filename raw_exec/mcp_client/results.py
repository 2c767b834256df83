"""What a server returned, as a result of this package's contract.

Text stays text, structured content becomes a JSON block, PNG and JPEG become images. Whatever
else there is becomes a line of text that names it and says that it was left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ..errors import CallRefused
from ..text import escape_text
from ..tools import McpOrigin
from ..values import NotJson, freeze

__all__ = ["PANEL_KEY", "convert_result", "is_large", "left_out"]

PANEL_KEY: Final = "raw/panel"
"""In ``_meta`` of a result: one update of a panel, or a list of them."""

_IMAGE_TYPES: Final = ("image/png", "image/jpeg")
_MAX_NAME_CHARS = 300
_MANY_VALUES = 2000
_MAX_PANEL_UPDATES = 64


def is_large(raw: Any) -> bool:
    """Whether a result has so many values that looking at each holds up others."""
    pending = [raw]
    seen = 0
    while pending:
        node = pending.pop()
        inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        seen += len(inner)
        if seen > _MANY_VALUES:
            return True
        pending += inner
    return False


def convert_result(identity: str, origin: McpOrigin, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{content, isError}`` for the checks that every handler's result goes through.

    Args:
        identity: Of the tool, for messages.
        origin: With the validator of its structured content.
        raw: The result of ``tools/call``, as sent.

    Raises:
        CallRefused: ``invalid_result``: it is not what the protocol or the tool promises.
    """
    try:
        result = freeze(raw)
    except NotJson as exc:
        raise _invalid(identity, exc.problem.pointer, str(exc.problem)) from None
    is_error = result.get("isError", False)
    content = result.get("content", [])
    if not isinstance(content, list) or not isinstance(is_error, bool):
        raise _invalid(identity, "/content", "must be a list, and isError a boolean")
    blocks = [_convert(block) for block in content]
    if result.get("structuredContent") is not None:
        value = result["structuredContent"]
        if not is_error:
            _check_structured(identity, origin, value)
        blocks = [*_without_copy(blocks, value), {"type": "json", "value": value}]
    elif origin.output is not None and not is_error:
        message = "the tool declares outputSchema and returned no structuredContent"
        raise _invalid(identity, "/structuredContent", message)
    blocks += _panel_blocks(result.get("_meta"))
    return {"content": blocks, "isError": is_error}


def _check_structured(identity: str, origin: McpOrigin, value: Any) -> None:
    schema = origin.output
    if schema is None or schema.is_valid(value):
        return
    problems = schema.problems(value)
    if problems:
        pointer = f"/structuredContent{problems[0].pointer}"
        raise _invalid(identity, pointer, schema.explain(value))


def _invalid(identity: str, pointer: str, message: str) -> CallRefused:
    return CallRefused(
        "invalid_result",
        f"result of {identity} is not valid: {pointer or '(root)'}: {message}",
        stage="result",
        detail={"pointer": pointer},
    )


def _convert(block: Any) -> dict[str, Any]:
    if not isinstance(block, dict):
        return left_out("content that is no object")
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if kind == "image":
        mime = block.get("mimeType")
        if mime in _IMAGE_TYPES:
            return {"type": "image", "mimeType": mime, "data": block.get("data")}
        return left_out(f"image of type {mime}", block.get("data"))
    if kind == "audio":
        return left_out(f"audio of type {block.get('mimeType')}", block.get("data"))
    if kind == "resource":
        resource = block.get("resource")
        inner = resource if isinstance(resource, dict) else {}
        what = f"embedded resource {inner.get('uri')} ({inner.get('mimeType') or 'no type'})"
        return left_out(what, inner.get("text") or inner.get("blob"))
    if kind == "resource_link":
        return left_out(f"link to resource {block.get('uri')} ({block.get('name')})")
    return left_out(f"content of type {kind}")


def left_out(what: str, data: Any = None) -> dict[str, Any]:
    """Return the line that stands for content that can't be passed on.

    Args:
        what: Names it; a server's words in it are escaped here.
        data: Its data, of which the size is told.
    """
    size = f", {len(data)} characters" if isinstance(data, str) else ""
    shown = escape_text(what, keep_newlines=False)
    if len(shown) > _MAX_NAME_CHARS:
        shown = f"{shown[: _MAX_NAME_CHARS - 1]}…"
    return {"type": "text", "text": f"[left out: {shown}{size}]"}


def _without_copy(blocks: list[dict[str, Any]], value: Any) -> list[dict[str, Any]]:
    """Leave out a text that is nothing but the same JSON, which servers add for old clients."""
    if len(blocks) != 1 or blocks[0]["type"] != "text":
        return blocks
    try:
        copy = json.loads(blocks[0]["text"])
    except (ValueError, RecursionError):
        return blocks
    # Not "==": to Python, True is 1.
    return [] if _canonical(copy) == _canonical(value) else blocks


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True)


def _panel_blocks(meta: Any) -> list[dict[str, Any]]:
    updates = meta.get(PANEL_KEY) if isinstance(meta, dict) else None
    if updates is None:
        return []
    listed = updates if isinstance(updates, list) else [updates]
    kept = [
        {**update, "type": "panel"} if isinstance(update, dict) else {"type": "panel"}
        for update in listed[:_MAX_PANEL_UPDATES]
    ]
    if len(listed) > len(kept):
        text = f"[left out: {len(listed) - len(kept)} more panel updates; at most {len(kept)}]"
        kept.append({"type": "text", "text": text})
    return kept
