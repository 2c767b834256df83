"""The handler of ``process``: one JSON block, inside the budget."""

from __future__ import annotations

import json
from typing import Any

from .request import MAX_PAGE_BYTES, parse_request

__all__ = ["handler"]

_PAGE_OVERHEAD_BYTES = 360
"""A page of output without its text, at its longest."""
_MIN_TEXT_BYTES = 64


def handler(args: Any, context: Any) -> dict[str, Any]:
    """Do what the arguments ask; see the tool's description."""
    try:
        action, fields = parse_request(args)
    except ValueError as exc:
        return _failed("invalid_arguments", "invalid_arguments", str(exc))
    try:
        return _ACTIONS[action](fields, context)
    except Exception as exc:
        code = getattr(exc, "code", None)
        if code is None:
            raise
        known = code if code in ("vars_unavailable", "aborted") else "process_unavailable"
        return _failed(known, code, str(exc))


def _start(fields: dict[str, Any], context: Any) -> dict[str, Any]:
    fields["env_refs"] = dict(fields["env_refs"] or {})
    return _value({"job": context.ask("process.start", fields)})


def _list(_fields: dict[str, Any], context: Any) -> dict[str, Any]:
    """List as many jobs as the budget holds; the supervisor puts the important ones first."""
    jobs = context.ask("process.list", {})
    left = context.max_output_bytes - _encoded_bytes({"jobs": [], "omitted": len(jobs)})
    shown = []
    for job in jobs:
        left -= _encoded_bytes(job) + 1
        if left < 0:
            break
        shown.append(job)
    value: dict[str, Any] = {"jobs": shown}
    if len(shown) < len(jobs):
        value["omitted"] = len(jobs) - len(shown)
    return _value(value)


def _status(fields: dict[str, Any], context: Any) -> dict[str, Any]:
    return _value({"job": context.ask("process.status", fields)})


def _output(fields: dict[str, Any], context: Any) -> dict[str, Any]:
    room = context.max_output_bytes - _PAGE_OVERHEAD_BYTES
    if room < _MIN_TEXT_BYTES:
        needed = _PAGE_OVERHEAD_BYTES + _MIN_TEXT_BYTES
        return _failed(
            "output_budget_too_small",
            "output_budget_too_small",
            f"a page needs an output budget of {needed} bytes, "
            f"and it is {context.max_output_bytes}",
        )
    params = {
        "id": fields["id"],
        "cursor": fields["cursor"] or 0,
        "max_bytes": fields["max_bytes"] or MAX_PAGE_BYTES,
        "max_encoded_bytes": room,
    }
    page = context.ask("process.output", params)
    if page.pop("is_utf8") is False:
        page["not_utf8"] = True
    return _value(page)


def _stop(fields: dict[str, Any], context: Any) -> dict[str, Any]:
    return _value({"job": context.ask("process.stop", fields)})


_ACTIONS = {
    "start": _start,
    "list": _list,
    "status": _status,
    "output": _output,
    "stop": _stop,
}


def _value(value: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "json", "value": value}]}


def _failed(code: str, kind: str, message: str) -> dict[str, Any]:
    """Return an error: ``code`` for the host, ``kind`` says it more exactly."""
    error = {"error": {"code": kind, "message": message}}
    return {"isError": True, "code": code, **_value(error)}


def _encoded_bytes(value: Any) -> int:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8"))
