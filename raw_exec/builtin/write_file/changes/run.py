"""The handler of ``write_file``: one JSON block with a row per operation or section."""

from __future__ import annotations

import json
from typing import Any

from .failures import Aborted
from .operating import run_operations
from .patching import run_patch
from .request import parse_request

__all__ = ["handler"]

Row = dict[str, Any]

_CODES = {"conflict": "write_conflict", "aborted": "aborted", "incomplete": "write_incomplete"}


def handler(args: Any, context: Any) -> dict[str, Any]:
    """Do what the arguments say; see the tool's description.

    ``isError`` is set when nothing was applied, and when a patch stopped on its way.
    """
    try:
        request = parse_request(args, context.cwd)
    except ValueError as exc:
        value = {"status": "conflict", "error": {"code": "invalid_arguments", "message": str(exc)}}
        return _result(value, "invalid_arguments")
    signal = context.signal

    def check_abort() -> None:
        if signal.aborted:
            raise Aborted

    if request.changes:
        status, rows = run_patch(request.changes, check_abort)
    else:
        status, rows = run_operations(request.operations, check_abort)
    counts = {
        word: sum(row["status"] == word for row in rows)
        for word in ("applied", "failed", "skipped")
    }
    partly = status == "incomplete" and counts["applied"] > 0 and not request.changes
    return _result(
        _fit({"status": status, **counts}, rows, context.max_output_bytes),
        None if partly else _CODES.get(status),
    )


def _result(value: dict[str, Any], code: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [{"type": "json", "value": value}]}
    if code is not None:
        result["isError"] = True
        result["code"] = code
    return result


def _fit(head: dict[str, Any], rows: list[Row], max_bytes: int) -> dict[str, Any]:
    """Return the most complete form of the result that fits: never a cut one.

    Rows lose their details, then those that were not a failure go, then all.
    """
    short = [_short(row) for row in rows]
    failed = [row for row in short if row["status"] == "failed"]
    for kept in (rows, short, failed, failed[:1]):
        value = {**head, "rows": kept}
        if len(kept) < len(rows):
            value["rows_omitted"] = len(rows) - len(kept)
        if _encoded_bytes(value) <= max_bytes:
            return value
    return {**head, "rows_omitted": len(rows)}


def _short(row: Row) -> Row:
    kept = {"path": row["path"], "status": row["status"]}
    if "error" in row:
        kept["error"] = row["error"]["code"]
    return kept


def _encoded_bytes(value: Any) -> int:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text) if text.isascii() else len(text.encode("utf-8"))
