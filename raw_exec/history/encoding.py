"""JSON columns: what is written, what is left out because of its size, what is read back."""

from __future__ import annotations

import json
from typing import Any, Final

from ..jsontext import JsonTextError, parse
from .errors import FAILURES, HistoryError

__all__ = ["MAX_STORED_BYTES", "decode", "encode", "encode_bounded", "encode_content"]

MAX_STORED_BYTES: Final = 1024 * 1024
"""Arguments of a call, and its content, each."""

_MAX_READ_BYTES: Final = 64 * 1024 * 1024


def encode(value: object) -> str:
    """Return compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def encode_bounded(value: object) -> str:
    """Return compact JSON text, or a note on its size when it is over the limit."""
    text = encode(value)
    size = len(text) if text.isascii() else len(text.encode("utf-8"))
    return text if size <= MAX_STORED_BYTES else encode({"omitted_bytes": size})


def encode_content(content: object) -> str:
    """Return the text of result blocks; images keep their type and size only.

    An image has up to 22 MiB of base64, and is what a history needs least.
    """
    if not isinstance(content, list | tuple):
        return encode_bounded(content)
    return encode_bounded([_without_data(block) for block in content])


def _without_data(block: Any) -> Any:
    if isinstance(block, dict) and block.get("type") == "image":
        kept = {key: value for key, value in block.items() if key != "data"}
        return kept | {"omitted_bytes": len(str(block.get("data", "")))}
    return block


def decode(text: str | None, where: str) -> Any:
    """Return the value of a JSON column.

    Raises:
        HistoryError: ``history_corrupt``: somebody else wrote it, or the file is damaged.
    """
    if text is None:
        return None
    try:
        return parse(text, max_bytes=_MAX_READ_BYTES, max_nodes=10_000_000)
    except (JsonTextError, TypeError, AttributeError) as exc:
        message = f"{FAILURES['history_corrupt']} (a stored value is not JSON)"
        raise HistoryError("history_corrupt", message, where=where) from exc
