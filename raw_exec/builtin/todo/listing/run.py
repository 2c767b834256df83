"""The handler of ``todo``: read the panel, change the list, write the panel."""

from __future__ import annotations

from typing import Any

from .rules import FINISHED, InvalidTodo, change

__all__ = ["handler"]

_PANEL = "todo"
_ATTEMPTS = 8
"""Calls that run at the same time change one list; each tries again on what another left."""
_MAX_SUMMARY_BYTES = 2048


def handler(args: dict[str, Any], context: Any) -> dict[str, Any]:
    """Change the list and return it; see the tool's description."""
    for attempt in range(_ATTEMPTS):
        try:
            return _attempt(args, context)
        except InvalidTodo as error:
            return _failed("invalid_todo", str(error))
        except Exception as error:
            code = getattr(error, "code", None)
            if code is None:
                raise
            if code != "panel_revision_conflict" or attempt == _ATTEMPTS - 1:
                return _failed(code, str(error))
    raise AssertionError("an attempt returns or raises")


def _attempt(args: dict[str, Any], context: Any) -> dict[str, Any]:
    found = context.panels.get(_PANEL)
    document = {} if found is None else found["document"]
    old = [_from_panel(item) for block in document.get("blocks", ()) for item in block["items"]]
    items = change(old, args["todos"], mode=args["mode"], clear=args.get("clear"))
    title = args.get("title") or document.get("title")
    new = _document(items, title)
    if found is None:
        context.panels.update(_PANEL, {"op": "replace", "document": new})
    else:
        patches = [
            {"op": "set", "field": name, "value": new.get(name)}
            for name in ("title", "status", "context_summary")
        ]
        patches.append({"op": "set_block", "block": new["blocks"][0]})
        body = {"op": "patch", "patches": patches, "base_revision": found["revision"]}
        context.panels.update(_PANEL, body)
    value = {"todos": items, "finished": _finished(items), "total": _total(items)}
    if title:
        value["title"] = title
    return {"content": [{"type": "json", "value": value}]}


def _failed(code: str, message: str) -> dict[str, Any]:
    return {"isError": True, "code": code, "content": [{"type": "text", "text": message}]}


def _document(items: list[dict[str, Any]], title: str | None) -> dict[str, Any]:
    finished, total = _finished(items), _total(items)
    status = "idle" if not total else "done" if finished == total else "active"
    document: dict[str, Any] = {
        "status": status,
        "context_summary": _summary(items),
        "blocks": [{"id": "list", "kind": "checklist", "items": [_to_panel(i) for i in items]}],
    }
    if title:
        document["title"] = title
    return document


def _to_panel(item: dict[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in item.items() if name != "subtasks"}
    if item.get("subtasks"):
        shown["children"] = [_to_panel(sub) for sub in item["subtasks"]]
    return shown


def _from_panel(item: dict[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in item.items() if name != "children"}
    known["subtasks"] = [dict(child) for child in item.get("children", ())]
    return known


def _lines(items: list[dict[str, Any]]) -> list[str]:
    out = []
    for item in items:
        out.append(f"{item['id']} [{item['status']}] {item['label']}")
        out += [f"  {s['id']} [{s['status']}] {s['label']}" for s in item["subtasks"]]
    return out


def _summary(items: list[dict[str, Any]]) -> str:
    """Return what the model is reminded of after a compaction, whole lines of it."""
    lines = _lines(items)
    text = "\n".join(lines)
    while len(text.encode()) > _MAX_SUMMARY_BYTES - 32:
        lines.pop()
        text = "\n".join(lines)
    left = len(_lines(items)) - len(lines)
    return f"{text}\n({left} more)" if left else text or "the list is empty"


def _finished(items: list[dict[str, Any]]) -> int:
    return sum(
        (item["status"] in FINISHED) + sum(sub["status"] in FINISHED for sub in item["subtasks"])
        for item in items
    )


def _total(items: list[dict[str, Any]]) -> int:
    return sum(1 + len(item["subtasks"]) for item in items)
