"""The block catalogue: what each kind may hold (``raw.panel/2``).

A block is checked whole and returned frozen. A kind that this version does not know keeps
only the common fields, so that its ``fallback`` can be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..values import FrozenDict, FrozenList, freeze
from .checks import (
    Fields,
    anything,
    boolean,
    check_fields,
    check_list,
    check_unique,
    code_points,
    identifier,
    integer,
    invalid,
    number,
    one_of,
    type_name,
    utf8_bytes,
)
from .forms import check_form

__all__ = [
    "DEFAULT_EVENTS",
    "ITEM_STATUSES",
    "KEYED_LISTS",
    "MAX_EVENTS",
    "KeyedList",
    "check_block",
    "check_item",
    "column_names",
    "find_item",
    "item_label",
    "walk_items",
]

MAX_ITEMS = 200
"""Of a checklist with all children, of a table, of files."""
MAX_STEPS = 30
MAX_PAIRS = 50
MAX_COLUMNS = 8
MAX_EVENTS = 200
DEFAULT_EVENTS = 100
MAX_DEPTH = 3
MAX_TEXT_BYTES = 16 * 1024
ITEM_STATUSES: Final = ("pending", "in_progress", "done", "skipped", "blocked", "failed")

Block: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KeyedList:
    """Where the items of a block are, and how a patch names them.

    Args:
        field: The field that holds the items.
        key: The field of an item that tells it from the others.
        plural: What ``remove_items`` calls a list of keys.
    """

    field: str
    key: str
    plural: str


KEYED_LISTS: Mapping[str, KeyedList] = {
    "checklist": KeyedList("items", "id", "ids"),
    "steps": KeyedList("items", "id", "ids"),
    "key_value": KeyedList("items", "key", "keys"),
    "table": KeyedList("rows", "id", "ids"),
    "timeline": KeyedList("events", "id", "ids"),
    "files": KeyedList("items", "path", "paths"),
}


_KEY = code_points(128, least=1, one_line=True)
_LABEL = code_points(200, least=1)
_PATH = code_points(1024, least=1, one_line=True)
_LINE = integer(1)
_TIME = integer(0)
_STATUS = one_of(*ITEM_STATUSES)

_COMMON: Fields = {
    "id": identifier,
    "kind": code_points(32, least=1, one_line=True),
    "title": code_points(80),
    "fallback": code_points(2000),
}
_REF: Fields = {"path": _PATH, "line": _LINE}
_ITEM: Fields = {
    "id": _KEY,
    "label": _LABEL,
    "status": _STATUS,
    "priority": one_of("low", "medium", "high"),
    "note": code_points(500),
    "ref": anything,
    "children": anything,
}
_STEP: Fields = {
    "id": _KEY,
    "label": _LABEL,
    "status": _STATUS,
    "detail": code_points(200),
    "started_at": _TIME,
    "ended_at": _TIME,
}
_PAIR: Fields = {
    "key": code_points(60, least=1, one_line=True),
    "value": code_points(500),
    "ref": anything,
}
_COLUMN: Fields = {
    "id": code_points(60, least=1, one_line=True),
    "label": code_points(60, least=1),
}
_ROW: Fields = {"id": _KEY, "status": _STATUS, "cells": anything}
_CELL = code_points(300)
_EVENT: Fields = {
    "id": _KEY,
    "at": _TIME,
    "level": one_of("info", "success", "warning", "error"),
    "label": _LABEL,
    "detail": code_points(1000),
}
_FILE: Fields = {
    "path": _PATH,
    "status": one_of("added", "modified", "deleted", "referenced"),
    "line": _LINE,
    "label": code_points(200),
}


# ---------------------------------------------------------------- items


def _check_ref(value: Any, pointer: str) -> FrozenDict:
    check_fields(value, _REF, ("path",), pointer, "a ref")
    return FrozenDict(value)


def _with_ref(item: dict[str, Any], pointer: str) -> FrozenDict:
    if "ref" in item:
        return FrozenDict({**item, "ref": _check_ref(item["ref"], f"{pointer}/ref")})
    return FrozenDict(item)


def _check_entry(_block: Block, item: Any, pointer: str) -> FrozenDict:
    """Check an item of a checklist with its children."""
    return _entry(item, pointer, 1)


def _entry(item: Any, pointer: str, depth: int) -> FrozenDict:
    check_fields(item, _ITEM, ("id", "label"), pointer, "an item")
    if "children" not in item:
        return _with_ref(item, pointer)
    here = f"{pointer}/children"
    children = check_list(item["children"], MAX_ITEMS, here)
    if children and depth >= MAX_DEPTH:
        invalid(f"items are nested more than {MAX_DEPTH} deep", here)
    checked = FrozenList(
        [_entry(child, f"{here}/{i}", depth + 1) for i, child in enumerate(children)]
    )
    return _with_ref({**item, "children": checked}, pointer)


def _check_step(_block: Block, item: Any, pointer: str) -> FrozenDict:
    check_fields(item, _STEP, ("id", "label"), pointer, "a step")
    return FrozenDict(item)


def _check_pair(_block: Block, item: Any, pointer: str) -> FrozenDict:
    check_fields(item, _PAIR, ("key", "value"), pointer, "an entry")
    return _with_ref(item, pointer)


def _check_row(block: Block, item: Any, pointer: str) -> FrozenDict:
    check_fields(item, _ROW, ("id", "cells"), pointer, "a row")
    cells = item["cells"]
    fields = dict.fromkeys(column_names(block), _CELL)
    check_fields(cells, fields, (), f"{pointer}/cells", "the row")
    return FrozenDict({**item, "cells": FrozenDict(cells)})


def _check_event(_block: Block, item: Any, pointer: str) -> FrozenDict:
    check_fields(item, _EVENT, ("id", "at", "label"), pointer, "an event")
    return FrozenDict(item)


def _check_file(_block: Block, item: Any, pointer: str) -> FrozenDict:
    check_fields(item, _FILE, ("path",), pointer, "a file")
    return FrozenDict(item)


_CHECK_ITEM: Mapping[str, Callable[[Block, Any, str], FrozenDict]] = {
    "checklist": _check_entry,
    "steps": _check_step,
    "key_value": _check_pair,
    "table": _check_row,
    "timeline": _check_event,
    "files": _check_file,
}


def check_item(block: Block, item: Any, pointer: str) -> FrozenDict:
    """Check one item of a block whose kind has items.

    Raises:
        PanelError: ``panel_invalid``.
    """
    return _CHECK_ITEM[block["kind"]](block, item, pointer)


# ---------------------------------------------------------------- whole blocks


def _finish_items(block: Block, pointer: str, most: int) -> dict[str, Any]:
    """Check the items of any kind but timelines, which drop some first."""
    kind = block["kind"]
    keyed = KEYED_LISTS[kind]
    here = f"{pointer}/{keyed.field}"
    items = check_list(block[keyed.field], most, here)
    check = _CHECK_ITEM[kind]
    checked = FrozenList([check(block, item, f"{here}/{i}") for i, item in enumerate(items)])
    if kind != "checklist":
        check_unique([item[keyed.key] for item in checked], here, keyed.key)
    return {keyed.field: checked}


def _finish_checklist(block: Block, pointer: str) -> dict[str, Any]:
    found = _finish_items(block, pointer, MAX_ITEMS)
    seen: set[str] = set()
    count = 0
    for item in walk_items(found["items"]):
        count += 1
        if item["id"] in seen:
            invalid(f"id {item['id']!r} is not unique in the checklist", f"{pointer}/items")
        seen.add(item["id"])
    if count > MAX_ITEMS:
        message = f"has {count} items with all children; the limit is {MAX_ITEMS}"
        invalid(message, f"{pointer}/items")
    return found


def _finish_table(block: Block, pointer: str) -> dict[str, Any]:
    here = f"{pointer}/columns"
    columns = check_list(block["columns"], MAX_COLUMNS, here, least=1)
    checked: list[Any] = []
    for index, column in enumerate(columns):
        if isinstance(column, str):
            problem = _COLUMN["id"].problem(column)
            if problem is not None:
                invalid(problem, f"{here}/{index}")
            checked.append(column)
        else:
            check_fields(column, _COLUMN, ("id",), f"{here}/{index}", "a column")
            checked.append(FrozenDict(column))
    names = column_names({"columns": checked})
    if len(set(names)) != len(names):
        invalid("two columns have the same id", here)
    return {"columns": FrozenList(checked)} | _finish_items(block, pointer, MAX_ITEMS)


def _finish_timeline(block: Block, pointer: str) -> dict[str, Any]:
    here = f"{pointer}/events"
    events = block["events"]
    if not isinstance(events, list):
        invalid(f"must be a list, not {type_name(events)}", here)
    first = max(0, len(events) - int(block.get("max", DEFAULT_EVENTS)))
    checked = FrozenList(
        [_check_event(block, event, f"{here}/{i}") for i, event in enumerate(events[first:], first)]
    )
    check_unique([event["id"] for event in checked], here, "id")
    return {"events": checked}


def _finish_progress(block: Block, pointer: str) -> dict[str, Any]:
    if block.get("indeterminate"):
        for key in ("value", "max"):
            if key in block:
                invalid("an indeterminate progress has none", f"{pointer}/{key}")
        return {}
    for key in ("value", "max"):
        if key not in block:
            invalid(f"a progress needs {key!r}, or indeterminate: true", pointer)
    if block["value"] > block["max"]:
        invalid("is over max", f"{pointer}/value")
    return {}


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of block.

    Args:
        fields: Its own fields; the common ones come on top.
        required: Those it must have.
        finish: Looks into what a table of fields can't express; returns what it froze.
    """

    fields: Fields
    required: tuple[str, ...]
    finish: Callable[[Block, str], dict[str, Any]] | None = None

    def check(self, block: Any, pointer: str, what: str) -> FrozenDict:
        check_fields(block, self.fields, ("id", *self.required), pointer, what)
        if self.finish is None:
            return FrozenDict(block)
        return FrozenDict({**block, **self.finish(block, pointer)})


def _kind(
    fields: Fields,
    required: Sequence[str],
    finish: Callable[[Block, str], dict[str, Any]] | None = None,
) -> _Kind:
    return _Kind({**_COMMON, **fields}, tuple(required), finish)


_LIST: Fields = {"items": anything}
_TEXT = utf8_bytes(MAX_TEXT_BYTES)

_KINDS: Mapping[str, _Kind] = {
    "checklist": _kind(_LIST, ["items"], _finish_checklist),
    "steps": _kind(_LIST, ["items"], lambda b, p: _finish_items(b, p, MAX_STEPS)),
    "progress": _kind(
        {
            "label": code_points(200),
            "value": number(0),
            "max": number(0),
            "indeterminate": boolean,
        },
        [],
        _finish_progress,
    ),
    "key_value": _kind(_LIST, ["items"], lambda b, p: _finish_items(b, p, MAX_PAIRS)),
    "table": _kind({"columns": anything, "rows": anything}, ["columns", "rows"], _finish_table),
    "markdown": _kind({"text": _TEXT}, ["text"]),
    "timeline": _kind(
        {"max": integer(1, MAX_EVENTS), "events": anything}, ["events"], _finish_timeline
    ),
    "files": _kind(_LIST, ["items"], lambda b, p: _finish_items(b, p, MAX_ITEMS)),
    "mermaid": _kind({"source": _TEXT}, ["source"]),
}


def check_block(block: Any, pointer: str) -> FrozenDict:
    """Check one block and freeze it.

    Args:
        block: As the tool gave it.
        pointer: JSON Pointer of the block in its document.

    Raises:
        PanelError: ``panel_invalid`` at the first value that is wrong.
    """
    if not isinstance(block, dict):
        invalid(f"a block must be an object, not {type_name(block)}", pointer)
    if "kind" not in block:
        invalid("a block needs 'kind'", pointer)
    problem = _COMMON["kind"].problem(block["kind"])
    if problem is not None:
        invalid(problem, f"{pointer}/kind")
    name = block["kind"]
    if name == "form":
        frozen: FrozenDict = freeze(check_form(block, pointer).as_dict())
        return frozen
    known = _KINDS.get(name)
    if known is not None:
        return known.check(block, pointer, f"a {name} block")
    common = {key: block[key] for key in _COMMON if key in block}
    check_fields(common, _COMMON, ("id",), pointer, "a block")
    return FrozenDict(common)


# ---------------------------------------------------------------- reading checked blocks


def walk_items(items: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the items of a checked checklist with their children, in the order shown."""
    for item in items:
        yield item
        if "children" in item:
            yield from walk_items(item["children"])


def column_names(block: Block) -> list[str]:
    """Return the ids of a table's columns."""
    return [c if isinstance(c, str) else c["id"] for c in block["columns"]]


def find_item(block: Block, key: str) -> Mapping[str, Any] | None:
    """Return the item of a checked block with this key, or ``None``."""
    keyed = KEYED_LISTS.get(block["kind"])
    if keyed is None:
        return None
    items = block[keyed.field]
    found = walk_items(items) if block["kind"] == "checklist" else iter(items)
    return next((item for item in found if item[keyed.key] == key), None)


def item_label(block: Block, item: Mapping[str, Any]) -> str:
    """Return what an item is called: its label, key or path, or a row's first cell."""
    if block["kind"] == "table":
        return str(item["cells"].get(column_names(block)[0], item["id"]))
    return str(item.get("label") or item[KEYED_LISTS[block["kind"]].key])
