"""Ask a person up to three questions, through ``context.interactions``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def handler(args: dict[str, Any], context: Any) -> dict[str, Any]:
    """Return one JSON block, ``{"status": "answered", "answers": {...}}``."""
    form = {"id": "form", "kind": "form", "fields": args["questions"]}
    document = {"status": "active", "blocks": [form]}
    if "title" in args:
        document["title"] = args["title"]
    question = {"panel": "questions", "document": document}
    if "timeout_ms" in args:
        question["timeout_ms"] = args["timeout_ms"]
    try:
        answer = context.interactions.request(question)
    except Exception as error:
        code = getattr(error, "code", None)
        if code is None:
            raise
        return {"isError": True, "code": code, "content": [{"type": "text", "text": str(error)}]}
    value = {"status": answer["status"], "answers": answer["answers"]}
    return {"content": [{"type": "json", "value": value}]}
