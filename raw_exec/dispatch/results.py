"""The result contract: shape check of what a handler returned, images, output caps.

Everything here reads data that a hostile worker may have written.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..values import escape_pointer

__all__ = ["CheckedResult", "InvalidResult", "cap_content", "check_result"]

MAX_BLOCKS = 1024
MAX_IMAGE_BYTES = 16 * 1024 * 1024
MAX_CODE_CHARS = 128
_RESULT_FIELDS = frozenset(("content", "isError", "code"))
_IMAGE_TYPES = ("image/png", "image/jpeg")
_LONG_CHARS = 4096
_MAX_COUNTED_NODES = 512
_SHORT_ESCAPES = (b'"', b"\\", b"\n", b"\r", b"\t", b"\b", b"\f")
_LONG_ESCAPES = tuple(
    char for char in (bytes([code]) for code in range(32)) if char not in _SHORT_ESCAPES
)
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class InvalidResult(ValueError):
    """A handler's return value is outside the contract.

    Args:
        pointer: JSON Pointer into the returned value.
        message: What is wrong there.
    """

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer or '(root)'}: {message}")
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class CheckedResult:
    """A result of the right shape.

    Args:
        content: ``text``, ``json`` and ``image`` blocks, in order.
        panels: ``panel`` blocks, taken out before anyone else sees the result.
        is_error: ``isError`` of the handler.
        code: ``code`` of the handler.
    """

    content: tuple[dict[str, Any], ...]
    panels: tuple[dict[str, Any], ...]
    is_error: bool
    code: str | None


def check_result(value: Any) -> CheckedResult:
    """Check a return value against ``{content: [...], isError?, code?}`` (seed 2).

    Raises:
        InvalidResult: With the pointer of the first problem.
    """
    if not isinstance(value, dict):
        raise InvalidResult("", f"must be an object with 'content', got {_kind(value)}")
    for key in value:
        if key not in _RESULT_FIELDS:
            raise InvalidResult(
                f"/{escape_pointer(key)}", "unknown field; valid are content, isError, code"
            )
    if "content" not in value:
        raise InvalidResult("", "lacks 'content'")
    is_error = value.get("isError", False)
    if not isinstance(is_error, bool):
        raise InvalidResult("/isError", f"must be a boolean, got {_kind(is_error)}")
    code = value.get("code")
    if code is not None and (not isinstance(code, str) or not 0 < len(code) <= MAX_CODE_CHARS):
        raise InvalidResult("/code", f"must be a string of 1 to {MAX_CODE_CHARS} characters")
    blocks = value["content"]
    if not isinstance(blocks, list):
        raise InvalidResult("/content", f"must be an array, got {_kind(blocks)}")
    if len(blocks) > MAX_BLOCKS:
        raise InvalidResult("/content", f"has {len(blocks)} blocks; at most {MAX_BLOCKS}")
    content, panels = [], []
    for index, block in enumerate(blocks):
        pointer = f"/content/{index}"
        if not isinstance(block, dict):
            raise InvalidResult(pointer, f"must be an object, got {_kind(block)}")
        if block.get("type") == "panel":
            panels.append(block)
        else:
            content.append(_check_block(block, pointer))
    return CheckedResult(tuple(content), tuple(panels), is_error, code)


def _check_block(block: dict[str, Any], pointer: str) -> dict[str, Any]:
    kind = block.get("type")
    if kind == "text":
        _only(block, pointer, ("type", "text"))
        if not isinstance(block.get("text"), str):
            raise InvalidResult(f"{pointer}/text", "must be a string")
    elif kind == "json":
        _only(block, pointer, ("type", "value"))
        if "value" not in block:
            raise InvalidResult(pointer, "lacks 'value'")
    elif kind == "image":
        _only(block, pointer, ("type", "mimeType", "data"))
        _check_image(block, pointer)
    else:
        raise InvalidResult(
            f"{pointer}/type", f"must be 'text', 'json', 'image' or 'panel', got {kind!r:.60}"
        )
    return block


def _only(block: dict[str, Any], pointer: str, fields: tuple[str, ...]) -> None:
    for key in block:
        if key not in fields:
            raise InvalidResult(
                f"{pointer}/{escape_pointer(key)}", f"unknown field; valid are {', '.join(fields)}"
            )


def _check_image(block: dict[str, Any], pointer: str) -> None:
    mime, data = block.get("mimeType"), block.get("data")
    if mime not in _IMAGE_TYPES:
        raise InvalidResult(f"{pointer}/mimeType", f"must be one of {', '.join(_IMAGE_TYPES)}")
    if not isinstance(data, str):
        raise InvalidResult(f"{pointer}/data", "must be a base64 string")
    if len(data) > (MAX_IMAGE_BYTES + 2) * 4 // 3 + 4:
        raise InvalidResult(f"{pointer}/data", f"is over {MAX_IMAGE_BYTES} bytes decoded")
    try:
        raw = base64.b64decode(data.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise InvalidResult(f"{pointer}/data", "is not base64") from None
    if len(raw) > MAX_IMAGE_BYTES:
        raise InvalidResult(f"{pointer}/data", f"is over {MAX_IMAGE_BYTES} bytes decoded")
    problem = _png_problem(raw) if mime == "image/png" else _jpeg_problem(raw)
    if problem is not None:
        raise InvalidResult(f"{pointer}/data", f"is not a {mime}: {problem}")


def _png_problem(raw: bytes) -> str | None:
    """Walk the chunks of a PNG; the pixel data itself is not decoded."""
    if not raw.startswith(_PNG_SIGNATURE):
        return "signature missing"
    at, first, seen_data = len(_PNG_SIGNATURE), True, False
    while at + 12 <= len(raw):
        length = int.from_bytes(raw[at : at + 4], "big")
        kind = raw[at + 4 : at + 8]
        end = at + 12 + length
        if end > len(raw):
            return f"chunk at byte {at} runs past the end"
        body = raw[at + 8 : at + 8 + length]
        if binascii.crc32(kind + body) != int.from_bytes(raw[end - 4 : end], "big"):
            return f"checksum of the chunk at byte {at} is wrong"
        if first:
            if kind != b"IHDR" or length != 13:
                return "first chunk is not IHDR"
            if not (int.from_bytes(body[:4], "big") and int.from_bytes(body[4:8], "big")):
                return "width or height is 0"
            first = False
        seen_data = seen_data or kind == b"IDAT"
        if kind == b"IEND":
            if not seen_data:
                return "no image data"
            return None if end == len(raw) else f"{len(raw) - end} bytes after the end"
        at = end
    return "end chunk missing"


def _jpeg_problem(raw: bytes) -> str | None:
    """Walk the segments of a JPEG up to its scan; the scan itself is not decoded."""
    if not raw.startswith(b"\xff\xd8"):
        return "start marker missing"
    if not raw.endswith(b"\xff\xd9"):
        return "end marker missing"
    at, seen_frame = 2, False
    while at + 4 <= len(raw):
        if raw[at] != 0xFF:
            return f"marker expected at byte {at}"
        marker = raw[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        length = int.from_bytes(raw[at + 2 : at + 4], "big")
        if length < 2 or at + 2 + length > len(raw):
            return f"segment at byte {at} runs past the end"
        if marker in range(0xC0, 0xD0) and marker not in (0xC4, 0xC8, 0xCC):
            seen_frame = True
        if marker == 0xDA:
            return None if seen_frame else "scan without a frame header"
        at += 2 + length
    return "no scan"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names = {dict: "an object", list: "an array", str: "a string", int: "a number"}
    return names.get(type(value), "a number")


def cap_content(
    content: tuple[dict[str, Any], ...], max_bytes: int
) -> tuple[tuple[dict[str, Any], ...], int]:
    """Cut text and JSON blocks to a shared budget of ``max_bytes`` encoded bytes.

    A cut never splits a UTF-8 character and says how much is missing. A JSON value that
    does not fit becomes a labelled text preview, never broken JSON. Images have a limit of
    their own and do not count.

    Returns:
        The blocks, and how many bytes were left out.
    """
    left, missing, omitted = max_bytes, 0, 0
    out: list[dict[str, Any]] = []
    for block in content:
        if block["type"] == "image":
            out.append(block)
            continue
        is_text = block["type"] == "text"
        counted = None if is_text else _counted_bytes(block["value"])
        if counted is not None and counted <= left:
            left -= counted
            out.append(block)
            continue
        text = block["text"] if is_text else _compact(block["value"])
        size = len(text) if text.isascii() else len(text.encode("utf-8"))
        if size <= left:
            left -= size
            out.append(block)
        elif left <= 0:
            omitted += 1
            missing += size
        else:
            kept = text.encode("utf-8")[:left].decode("utf-8", "ignore")
            shown = len(kept.encode("utf-8"))
            if is_text:
                mark = f"\n… [truncated: {shown} of {size} bytes shown]"
                out.append({"type": "text", "text": kept + mark})
            else:
                label = f"[preview of a JSON value: first {shown} of {size} bytes, not valid JSON]"
                out.append({"type": "text", "text": f"{label}\n{kept}"})
            missing += size - shown
            left = 0
    if omitted:
        mark = f"… [omitted: {omitted} more blocks; the output limit is {max_bytes} bytes]"
        out.append({"type": "text", "text": mark})
    return tuple(out), missing


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _counted_bytes(value: Any) -> int | None:
    """Return the encoded size of a value that is mostly long text; ``None`` for any other.

    Counting takes a tenth of the time of encoding such a value only to see its length.
    """
    long_bytes = 0
    looked_at = 0

    def without_long(node: Any) -> Any:
        nonlocal long_bytes, looked_at
        looked_at += 1
        if looked_at > _MAX_COUNTED_NODES:
            raise _NotWorthCounting
        if isinstance(node, str) and len(node) >= _LONG_CHARS:
            long_bytes += _escaped_bytes(node)
            return ""
        if isinstance(node, Mapping):
            return {key: without_long(inner) for key, inner in node.items()}
        if isinstance(node, (list, tuple)):
            return [without_long(inner) for inner in node]
        return node

    try:
        rest = without_long(value)
    except (_NotWorthCounting, RecursionError):
        return None
    if not long_bytes:
        return None
    text = _compact(rest)
    return long_bytes + (len(text) if text.isascii() else len(text.encode("utf-8")))


class _NotWorthCounting(Exception):
    """Many small values: encoding them is quicker."""


def _escaped_bytes(text: str) -> int:
    """Return the size of a text inside JSON, without its quotes."""
    data = text.encode("utf-8")
    # "in" is far quicker than "count", and than one pass in Python's other functions, where
    # there is nothing to count.
    size = len(data)
    size += sum(data.count(char) for char in _SHORT_ESCAPES if char in data)
    return size + 5 * sum(data.count(char) for char in _LONG_ESCAPES if char in data)
