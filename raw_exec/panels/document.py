"""Panel documents: the check of the whole, its size, and what is derived from its blocks.

A document is kept as it was written, without derived values: a tool that reads its panel,
changes an item and replaces the panel would otherwise write down an old count of its items.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..values import FrozenDict, FrozenList
from .blocks import check_block, walk_items
from .checks import (
    Fields,
    anything,
    check_fields,
    check_list,
    code_points,
    integer,
    invalid,
    one_of,
    utf8_bytes,
)
from .errors import PanelError

__all__ = [
    "HEADER_FIELDS",
    "MAX_BLOCKS",
    "MAX_DOCUMENT_BYTES",
    "CheckedDocument",
    "Derived",
    "check_document",
    "derive",
    "display_document",
    "load_document",
]

MAX_DOCUMENT_BYTES = 64 * 1024
"""As compact JSON in UTF-8."""
MAX_BLOCKS = 20
MAX_SUMMARY_CHARS = 120
DOCUMENT_STATUSES: Final = ("idle", "active", "done", "failed")
DEFAULT_STATUS: Final = "active"
_COMPLETED = ("done", "skipped")


_HEADER: Fields = {
    "title": code_points(80),
    "subtitle": code_points(120),
    "status": one_of(*DOCUMENT_STATUSES),
    "progress": anything,
    "summary": code_points(MAX_SUMMARY_CHARS),
    "context_summary": utf8_bytes(2048),
    "blocks": anything,
}
_PROGRESS: Fields = {"done": integer(0), "total": integer(0)}
HEADER_FIELDS: Final = tuple(name for name in _HEADER if name != "blocks")

_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """A document that passed every check. Only ``load_document`` makes one.

    Args:
        value: The document, frozen.
        sizes: Bytes of each block, so that a patch need not count unchanged blocks again.
        size: Bytes of the whole.
    """

    value: FrozenDict
    sizes: tuple[int, ...]
    size: int

    @property
    def blocks(self) -> FrozenList:
        """The blocks, in order."""
        blocks: FrozenList = self.value["blocks"]
        return blocks


def check_document(raw: object) -> FrozenDict:
    """Check a panel document and return it frozen, as written.

    Unknown kinds of blocks keep only ``id``, ``kind``, ``title`` and ``fallback``; timelines
    keep their last ``max`` events; ``blocks`` is added where it is missing.

    Raises:
        PanelError: ``panel_invalid`` with the pointer of the first value that is wrong, or
            ``panel_too_large``.
    """
    return load_document(raw).value


def load_document(raw: Any, previous: CheckedDocument | None = None) -> CheckedDocument:
    """Check a panel document.

    Args:
        raw: JSON data.
        previous: An earlier document; blocks of it that ``raw`` shares (the very same
            objects, which are frozen) are not checked again.

    Raises:
        PanelError: ``panel_invalid`` or ``panel_too_large``.
    """
    check_fields(raw, _HEADER, (), "", "a document")
    header = {key: raw[key] for key in raw if key != "blocks"}
    if "progress" in header:
        header["progress"] = _check_progress(header["progress"])
    given = check_list(raw.get("blocks", FrozenList()), MAX_BLOCKS, "/blocks")
    known = {}
    if previous is not None:
        known = {id(b): n for b, n in zip(previous.blocks, previous.sizes, strict=True)}
    size = _encoded_bytes({**header, "blocks": []}) + max(0, len(given) - 1)
    blocks, sizes = [], []
    seen: set[str] = set()
    for index, item in enumerate(given):
        pointer = f"/blocks/{index}"
        block_size = known.get(id(item))
        if block_size is None:
            block = check_block(item, pointer)
            block_size = _encoded_bytes(block)
        else:
            block = item
        if block["id"] in seen:
            invalid(f"block id {block['id']!r} is not unique", f"{pointer}/id")
        seen.add(block["id"])
        blocks.append(block)
        sizes.append(block_size)
        size += block_size
        if size > MAX_DOCUMENT_BYTES:
            break
    if size > MAX_DOCUMENT_BYTES:
        raise PanelError(
            "panel_too_large",
            f"the document has {size} bytes or more; the limit is {MAX_DOCUMENT_BYTES}",
        )
    value = FrozenDict({**header, "blocks": FrozenList(blocks)})
    return CheckedDocument(value, tuple(sizes), size)


def _check_progress(value: Any) -> FrozenDict:
    check_fields(value, _PROGRESS, ("done", "total"), "/progress", "the progress")
    if value["done"] > value["total"]:
        invalid("is over total", "/progress/done")
    return FrozenDict(value)


def _encoded_bytes(value: object) -> int:
    text = _encode(value)
    return len(text) if text.isascii() else len(text.encode("utf-8"))


# ---------------------------------------------------------------- derived values


@dataclass(frozen=True, slots=True)
class Derived:
    """What a document says about itself, directly or by its blocks.

    Args:
        status: ``idle``, ``active``, ``done`` or ``failed``.
        done: Completed items, ``None`` when nothing is counted.
        total: All items, ``None`` when nothing is counted.
        summary: One short text, or ``None``.
    """

    status: str
    done: int | None = None
    total: int | None = None
    summary: str | None = None


def derive(document: Mapping[str, Any]) -> Derived:
    """Return status, progress and summary of a checked document.

    What is written counts. Otherwise items of all checklists are counted, done and skipped
    ones as completed; where there are none, those of all steps.
    """
    status = document.get("status", DEFAULT_STATUS)
    items = _counted_items(document)
    done = total = None
    if "progress" in document:
        done, total = int(document["progress"]["done"]), int(document["progress"]["total"])
    elif items:
        done, total = sum(item.get("status") in _COMPLETED for item in items), len(items)
    summary = document.get("summary")
    if summary is None and total:
        summary = f"{done}/{total} done"
        now = next((i["label"] for i in items if i.get("status") == "in_progress"), None)
        if now is not None:
            summary += f", now: {now}"
        if len(summary) > MAX_SUMMARY_CHARS:
            summary = summary[: MAX_SUMMARY_CHARS - 1] + "…"
    return Derived(status, done, total, summary)


def _counted_items(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    for kind in ("checklist", "steps"):
        found = [
            item
            for block in document["blocks"]
            if block["kind"] == kind
            for item in walk_items(block["items"])
        ]
        if found:
            return found
    return []


def display_document(document: FrozenDict) -> FrozenDict:
    """Return a checked document with the derived values filled in, for clients."""
    derived = derive(document)
    out = {**document, "status": derived.status}
    if derived.total is not None:
        out["progress"] = FrozenDict({"done": derived.done, "total": derived.total})
    if derived.summary is not None:
        out["summary"] = derived.summary
    return FrozenDict(out)
