"""What a list may look like, and what a call makes of it. Pure.

An item is ``{id, label, status, priority?, note?, subtasks: [...]}``; subtasks have none of
their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

__all__ = ["FINISHED", "MAX_ITEMS", "InvalidTodo", "change"]

MAX_ITEMS = 100
FINISHED = ("done", "skipped")
_PLAIN = ("label", "status", "priority", "note")

Item = dict[str, Any]


class InvalidTodo(ValueError):
    """A rule is broken; the message names the item."""


def change(
    old: Sequence[Item], given: Sequence[Item], *, mode: str, clear: str | None = None
) -> list[Item]:
    """Return the new list; the old one stays as it is.

    Args:
        old: The list so far, complete items.
        given: What the call says: ``mode`` ``"replace"`` makes it the whole list, ``"merge"``
            changes items by id and appends those without one.
        clear: ``"done"`` drops finished items afterwards.

    Raises:
        InvalidTodo: The result would break a rule.
    """
    taken = {item["id"] for item in _all(given) if "id" in item}
    if mode == "merge":
        taken |= {item["id"] for item in _all(old)}
    ids = _free_ids(taken)
    _refuse_repeated(given)
    if mode == "replace":
        new = [_fresh(item, ids) for item in given]
    else:
        new = _merge(old, given, ids, "the list")
    _check(new)
    if clear == "done":
        new = [
            {**item, "subtasks": [sub for sub in item["subtasks"] if sub["status"] not in FINISHED]}
            for item in new
            if item["status"] not in FINISHED
        ]
    return new


def _all(items: Sequence[Item]) -> Iterator[Item]:
    for item in items:
        yield item
        yield from item.get("subtasks", ())


def _free_ids(taken: set[str]) -> Iterator[str]:
    number = 1
    while True:
        if f"t{number}" not in taken:
            yield f"t{number}"
        number += 1


def _refuse_repeated(given: Sequence[Item]) -> None:
    seen: set[str] = set()
    for item in _all(given):
        ident = item.get("id")
        if ident in seen:
            _refuse(item, "is given twice")
        if ident is not None:
            seen.add(ident)


def _fresh(item: Item, ids: Iterator[str]) -> Item:
    new = _leaf(item, ids)
    new["subtasks"] = [_leaf(sub, ids) for sub in item.get("subtasks", ())]
    return new


def _leaf(item: Item, ids: Iterator[str]) -> Item:
    if "label" not in item:
        _refuse(item, "has no label")
    new = {"id": item.get("id") or next(ids), "label": item["label"]}
    new["status"] = item.get("status", "pending")
    for name in ("priority", "note"):
        if item.get(name):
            new[name] = item[name]
    return new


def _merge(
    old: Sequence[Item], given: Sequence[Item], ids: Iterator[str], where: str
) -> list[Item]:
    new = [{**item, "subtasks": list(item.get("subtasks", ()))} for item in old]
    by_id = {item["id"]: item for item in new}
    for item in given:
        if "id" not in item:
            for sub in item.get("subtasks", ()):
                if "id" in sub:
                    _refuse(sub, "is not in the subtasks of a new item")
            new.append(_fresh(item, ids))
            continue
        known = by_id.get(item["id"])
        if known is None:
            _refuse(item, f"is not in {where}")
        for name in _PLAIN:
            if name in item:
                known[name] = item[name]
        if not known.get("note", "x"):
            del known["note"]
        if "subtasks" in item:
            inner = f"the subtasks of {item['id']}"
            merged = _merge(known["subtasks"], item["subtasks"], ids, inner)
            known["subtasks"] = [
                {name: value for name, value in sub.items() if name != "subtasks"} for sub in merged
            ]
    return new


def _check(items: Sequence[Item]) -> None:
    everything = list(_all(items))
    if len(everything) > MAX_ITEMS:
        raise InvalidTodo(f"the list would have {len(everything)} items; at most {MAX_ITEMS}")
    running = [item for item in everything if item["status"] == "in_progress"]
    if len(running) > 1:
        _refuse(running[1], f"can't be in_progress while {running[0]['id']} is")
    for item in items:
        if item["status"] not in FINISHED:
            continue
        for sub in item["subtasks"]:
            if sub["status"] not in FINISHED:
                _refuse(item, f"is {item['status']}, but its subtask {sub['id']} is not finished")


def _refuse(item: Item, problem: str) -> NoReturn:
    name = item.get("id") or "a new item"
    label = f" ({item['label']!r:.80})" if "label" in item else ""
    raise InvalidTodo(f"{name}{label} {problem}")
