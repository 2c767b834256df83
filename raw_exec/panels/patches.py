"""Patches of panel documents: all of them, or none.

Rules
1. Patches work on copies of the blocks they name; the document itself is never changed, and
   blocks that no patch names are shared between the old document and the new one.
2. An item is looked at when its patch is applied, so a refusal points at the patch. The
   result is then checked whole, since a patch may break what only shows in the whole.
3. ``upsert_items`` changes the fields it gives; ``null`` removes a field. A new item must be
   complete. With ``parent``, an item is put or moved under that item, at its end.
4. What is named and not there is refused: a typing error must not pass for success.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..fields import shown
from .blocks import KEYED_LISTS, KeyedList, check_block, check_item
from .checks import (
    Fields,
    anything,
    check_fields,
    check_list,
    code_points,
    invalid,
    one_of,
    type_name,
)
from .document import HEADER_FIELDS, CheckedDocument, load_document

__all__ = ["MAX_PATCHES", "apply_patches"]

MAX_PATCHES = 100
"""In one update."""
MAX_PATCH_ITEMS = 200
"""In one patch."""

_PLURALS: Final = ("ids", "keys", "paths")
_NAME = code_points(128, least=1, one_line=True)
_PATH = code_points(1024, least=1, one_line=True)


class _Work:
    """A document that is being patched: its header, and blocks by id in their order."""

    def __init__(self, document: CheckedDocument) -> None:
        self.header = {k: v for k, v in document.value.items() if k != "blocks"}
        self.blocks: dict[str, Any] = {block["id"]: block for block in document.blocks}
        self._own: set[str] = set()

    def own(self, block_id: str, pointer: str) -> dict[str, Any]:
        """Return a block's private copy, made when it is first needed."""
        if block_id not in self.blocks:
            invalid(f"there is no block {block_id!r}", f"{pointer}/block")
        if block_id not in self._own:
            self.blocks[block_id] = _loosened(self.blocks[block_id])
            self._own.add(block_id)
        block: dict[str, Any] = self.blocks[block_id]
        return block

    def put(self, block: Mapping[str, Any], before: str | None) -> None:
        """Put a block in its old place, before another one, or at the end."""
        block_id = block["id"]
        self._own.discard(block_id)
        if before is None or before == block_id:
            self.blocks[block_id] = block
            return
        self.blocks.pop(block_id, None)
        out: dict[str, Any] = {}
        for other, value in self.blocks.items():
            if other == before:
                out[block_id] = block
            out[other] = value
        self.blocks = out

    def drop(self, block_id: str) -> None:
        """Take a block out."""
        del self.blocks[block_id]
        self._own.discard(block_id)


def _loosened(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a block whose lists can be changed; items without children are shared."""
    keyed = KEYED_LISTS.get(block["kind"])
    if keyed is None:
        return dict(block)
    return {**block, keyed.field: [_loose(item) for item in block[keyed.field]]}


def _loose(item: Mapping[str, Any]) -> Mapping[str, Any]:
    if "children" not in item:
        return item
    return {**item, "children": [_loose(child) for child in item["children"]]}


def apply_patches(document: CheckedDocument, patches: Any) -> CheckedDocument:
    """Return the document with all patches applied in order.

    Args:
        document: What to patch; it stays as it is.
        patches: JSON data: a list of objects with ``op``.

    Raises:
        PanelError: ``panel_invalid``, with a pointer that begins with ``/patches``, or into
            the patched document if that is what is wrong; ``panel_too_large``.
    """
    work = _Work(document)
    for index, patch in enumerate(check_list(patches, MAX_PATCHES, "/patches", least=1)):
        pointer = f"/patches/{index}"
        if not isinstance(patch, dict):
            invalid(f"a patch must be an object, not {type_name(patch)}", pointer)
        if "op" not in patch:
            invalid("a patch needs 'op'", pointer)
        problem = _OP.problem(patch["op"])
        if problem is not None:
            invalid(problem, f"{pointer}/op")
        fields, required, apply = _OPS[patch["op"]]
        check_fields(patch, fields, required, pointer, f"a {patch['op']} patch")
        apply(work, patch, pointer)
    return load_document({**work.header, "blocks": list(work.blocks.values())}, document)


# ---------------------------------------------------------------- one function per operation


def _set(work: _Work, patch: Mapping[str, Any], _pointer: str) -> None:
    if patch["value"] is None:
        work.header.pop(patch["field"], None)
    else:
        work.header[patch["field"]] = patch["value"]


def _set_block(work: _Work, patch: Mapping[str, Any], pointer: str) -> None:
    block = check_block(patch["block"], f"{pointer}/block")
    before = patch.get("before")
    if before is not None and before not in work.blocks:
        invalid(f"there is no block {before!r}", f"{pointer}/before")
    work.put(block, before)


def _remove_block(work: _Work, patch: Mapping[str, Any], pointer: str) -> None:
    if patch["id"] not in work.blocks:
        invalid(f"there is no block {patch['id']!r}", f"{pointer}/id")
    work.drop(patch["id"])


def _keyed(block: Mapping[str, Any], pointer: str, *, but: str = "") -> KeyedList:
    keyed = KEYED_LISTS.get(block["kind"])
    if keyed is None or block["kind"] == but:
        hint = "; use append_events" if keyed is not None else ""
        invalid(f"a {block['kind']} block has no items to change{hint}", f"{pointer}/block")
    return keyed


def _upsert_items(work: _Work, patch: Mapping[str, Any], pointer: str) -> None:
    block = work.own(patch["block"], pointer)
    keyed = _keyed(block, pointer, but="timeline")
    parent = patch.get("parent")
    if parent is not None and block["kind"] != "checklist":
        invalid("only items of a checklist have a parent", f"{pointer}/parent")
    items = check_list(patch["items"], MAX_PATCH_ITEMS, f"{pointer}/items", least=1)
    homes = _homes(block[keyed.field], keyed.key)
    for index, change in enumerate(items):
        here = f"{pointer}/items/{index}"
        if not isinstance(change, dict):
            invalid(f"an item must be an object, not {type_name(change)}", here)
        key: Any = change.get(keyed.key)
        problem = _PATH.problem(key)
        if problem is not None:
            invalid(problem, f"{here}/{keyed.key}")
        found = homes.get(key)
        home, place = found if found is not None else (None, None)
        merged = {**place, **change} if place is not None else dict(change)
        merged = {name: value for name, value in merged.items() if value is not None}
        item = _loose(check_item(block, merged, here))
        if home is None or place is None:
            home = block[keyed.field]
            home.append(item)
        else:
            home[_index(home, place)] = item
        homes[key] = (home, item)
        if "children" in item or "children" in change:
            homes = _homes(block[keyed.field], keyed.key)
        if parent is not None:
            _move(homes, key, parent, pointer)


_Item = Mapping[str, Any]
_Homes = dict[str, tuple[list[_Item], _Item]]


def _homes(items: list[_Item], key: str) -> _Homes:
    """Return, for every item, the list that holds it and the item."""
    out: _Homes = {}
    for item in items:
        out[item[key]] = (items, item)
        if "children" in item:
            out |= _homes(item["children"], key)
    return out


def _index(items: list[_Item], item: _Item) -> int:
    """Return where an item is: this very one, not one that is equal."""
    return next(index for index, other in enumerate(items) if other is item)


def _move(homes: _Homes, key: str, parent: str, pointer: str) -> None:
    """Move an item to the end of its parent's children, unless it is one of them already."""
    if parent not in homes:
        invalid(f"there is no item {shown(parent)}", f"{pointer}/parent")
    home, item = homes[key]
    if parent == key or parent in _homes(item.get("children", []), "id"):
        invalid("an item can't be under itself", f"{pointer}/parent")
    above, holder = homes[parent]
    if "children" not in holder:
        above[_index(above, holder)] = holder = {**holder, "children": []}
        homes[parent] = (above, holder)
    children: list[_Item] = holder["children"]
    if home is not children:
        del home[_index(home, item)]
        children.append(item)
        homes[key] = (children, item)


def _remove_items(work: _Work, patch: Mapping[str, Any], pointer: str) -> None:
    block = work.own(patch["block"], pointer)
    keyed = _keyed(block, pointer)
    given = [name for name in _PLURALS if name in patch]
    if given != [keyed.plural]:
        invalid(f"items of a {block['kind']} block are removed by {keyed.plural!r}", pointer)
    here = f"{pointer}/{keyed.plural}"
    homes = _homes(block[keyed.field], keyed.key)
    for index, key in enumerate(check_list(patch[keyed.plural], MAX_PATCH_ITEMS, here, least=1)):
        problem = _PATH.problem(key)
        if problem is not None:
            invalid(problem, f"{here}/{index}")
        if key not in homes:
            invalid(f"there is no item {shown(key)}", f"{here}/{index}")
        home, item = homes.pop(key)
        del home[_index(home, item)]
        for below in _homes(item.get("children", []), keyed.key):
            homes.pop(below, None)


def _append_events(work: _Work, patch: Mapping[str, Any], pointer: str) -> None:
    block = work.own(patch["block"], pointer)
    if block["kind"] != "timeline":
        invalid(f"a {block['kind']} block has no events", f"{pointer}/block")
    events = check_list(patch["events"], MAX_PATCH_ITEMS, f"{pointer}/events", least=1)
    checked = [check_item(block, e, f"{pointer}/events/{i}") for i, e in enumerate(events)]
    block["events"].extend(checked)


_Apply = Callable[[_Work, Mapping[str, Any], str], None]


def _op(apply: _Apply, required: str, **fields: Any) -> tuple[Fields, tuple[str, ...], _Apply]:
    return {"op": anything, **fields}, tuple(required.split()), apply


_OPS: Mapping[str, tuple[Fields, tuple[str, ...], _Apply]] = {
    "set": _op(_set, "field value", field=one_of(*HEADER_FIELDS), value=anything),
    "set_block": _op(_set_block, "block", block=anything, before=_NAME),
    "remove_block": _op(_remove_block, "id", id=_NAME),
    "upsert_items": _op(_upsert_items, "block items", block=_NAME, items=anything, parent=_NAME),
    "remove_items": _op(
        _remove_items, "block", block=_NAME, ids=anything, keys=anything, paths=anything
    ),
    "append_events": _op(_append_events, "block events", block=_NAME, events=anything),
}
_OP = one_of(*_OPS)
