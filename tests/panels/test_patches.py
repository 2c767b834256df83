"""Patches: every operation, and that a refused one changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raw_exec.panels import PanelError
from raw_exec.panels.document import CheckedDocument, load_document
from raw_exec.panels.patches import MAX_PATCHES, apply_patches
from raw_exec.values import thaw


def item(key: str, **fields: Any) -> dict[str, Any]:
    """Return an item."""
    return {"id": key, "label": key, **fields}


def start() -> CheckedDocument:
    """Return a document with a block of each kind that has items."""
    return load_document(
        {
            "title": "T",
            "blocks": [
                {
                    "id": "list",
                    "kind": "checklist",
                    "items": [item("a", note="n", children=[item("a1"), item("a2")]), item("b")],
                },
                {"id": "kv", "kind": "key_value", "items": [{"key": "k", "value": "v"}]},
                {"id": "tab", "kind": "table", "columns": ["c"], "rows": []},
                {"id": "time", "kind": "timeline", "max": 2, "events": []},
                {"id": "files", "kind": "files", "items": [{"path": "p/q"}]},
                {"id": "md", "kind": "markdown", "text": "x"},
            ],
        }
    )


def patched(*patches: Any) -> dict[str, Any]:
    """Return the document with patches applied, and check that the old one is untouched."""
    before = start()
    copy = thaw(before.value)
    after = apply_patches(before, list(patches))
    assert before.value == copy
    assert load_document(thaw(after.value)) == after
    value: dict[str, Any] = after.value
    return value


def block_of(document: dict[str, Any], block_id: str) -> Any:
    """Return a block by id."""
    return next(b for b in document["blocks"] if b["id"] == block_id)


def upsert(block: str, *items: Any, **fields: Any) -> dict[str, Any]:
    """Return an upsert."""
    return {"op": "upsert_items", "block": block, "items": list(items), **fields}


def test_set_writes_a_header_field_and_null_removes_it() -> None:
    """Contract: `set {field, value|null}`."""
    document = patched(
        {"op": "set", "field": "status", "value": "done"},
        {"op": "set", "field": "title", "value": None},
        {"op": "set", "field": "subtitle", "value": None},
    )
    assert {k: v for k, v in document.items() if k != "blocks"} == {"status": "done"}


def test_set_block_replaces_in_place_adds_at_the_end_or_before_another() -> None:
    """Contract: `set_block {block, before?}`."""

    def ids(*patches: Any) -> list[str]:
        return [b["id"] for b in patched(*patches)["blocks"]]

    new = {"id": "new", "kind": "markdown", "text": ""}
    old = {"id": "kv", "kind": "markdown", "text": ""}
    order = ["list", "kv", "tab", "time", "files", "md"]
    assert ids({"op": "set_block", "block": new}) == [*order, "new"]
    assert ids({"op": "set_block", "block": new, "before": "list"}) == ["new", *order]
    assert ids({"op": "set_block", "block": old}) == order
    assert ids({"op": "set_block", "block": old, "before": "kv"}) == order
    moved = ["list", "tab", "time", "files", "kv", "md"]
    assert ids({"op": "set_block", "block": old, "before": "md"}) == moved
    assert block_of(patched({"op": "set_block", "block": old}), "kv") == old


def test_a_block_can_be_removed() -> None:
    """Contract: `remove_block {id}`."""
    assert len(patched({"op": "remove_block", "id": "kv"})["blocks"]) == 5


def test_upsert_changes_the_given_fields_and_null_removes_one() -> None:
    """Ours: a tool that only ticks an item need not repeat its label and children."""
    document = patched(upsert("list", {"id": "a", "status": "done", "note": None}))
    changed = item("a", children=[item("a1"), item("a2")], status="done")
    assert block_of(document, "list")["items"] == [changed, item("b")]


def test_upsert_finds_children_and_adds_at_the_end_or_under_a_parent() -> None:
    """Contract: `upsert_items {block, items, parent?}`."""
    document = patched(
        upsert("list", {"id": "a2", "status": "failed"}, item("c")),
        upsert("list", item("b1"), {"id": "a1"}, parent="b"),
    )
    assert block_of(document, "list")["items"] == [
        item("a", note="n", children=[item("a2", status="failed")]),
        item("b", children=[item("b1"), item("a1")]),
        item("c"),
    ]


def test_one_patch_may_change_an_item_and_then_its_child() -> None:
    """The second finds the child where the first left it."""
    document = patched(
        upsert("list", {"id": "a", "status": "done"}, {"id": "a1", "status": "done"})
    )
    (first, _) = block_of(document, "list")["items"]
    assert [child.get("status") for child in first["children"]] == ["done", None]


@pytest.mark.parametrize("parent", ["a", "a1"])
def test_an_item_can_not_be_put_under_itself(parent: str) -> None:
    """It would vanish from the list with all of its children."""
    with pytest.raises(PanelError) as caught:
        patched(upsert("list", {"id": "a"}, parent=parent))
    assert caught.value.pointer == "/patches/0/parent"


def test_every_kind_has_its_own_key() -> None:
    """Contract: `remove_items {block, ids|keys|paths}`."""
    document = patched(
        upsert("kv", {"key": "k", "value": "new"}, {"key": "l", "value": "w"}),
        upsert("tab", {"id": "r", "cells": {"c": "x"}}, {"id": "s", "cells": {}}),
        upsert("files", {"path": "p/q", "status": "deleted"}, {"path": "z"}),
        {"op": "remove_items", "block": "kv", "keys": ["l"]},
        {"op": "remove_items", "block": "tab", "ids": ["s"]},
        {"op": "remove_items", "block": "files", "paths": ["z"]},
        {"op": "remove_items", "block": "list", "ids": ["a1", "a"]},
    )
    assert block_of(document, "kv")["items"] == [{"key": "k", "value": "new"}]
    assert block_of(document, "tab")["rows"] == [{"id": "r", "cells": {"c": "x"}}]
    assert block_of(document, "files")["items"] == [{"path": "p/q", "status": "deleted"}]
    assert block_of(document, "list")["items"] == [item("b")]


def test_appended_events_push_out_the_oldest() -> None:
    """Contract: `append_events {block, events}`, oldest dropped."""
    events = [{"id": f"e{i}", "at": i, "label": "l"} for i in range(3)]
    document = patched({"op": "append_events", "block": "time", "events": events})
    assert block_of(document, "time")["events"] == events[1:]


def test_blocks_that_no_patch_names_are_shared() -> None:
    """Two hundred updates of one block must not check the other nineteen again."""
    before = start()
    after = apply_patches(before, [upsert("kv", {"key": "k", "value": "2"})])
    same = [a is b for a, b in zip(before.blocks, after.blocks, strict=True)]
    assert same == [True, False, True, True, True, True]


OK = {"op": "set", "field": "title", "value": "changed"}
BAD: dict[str, tuple[Any, str]] = {
    "no list": ({}, "/patches"),
    "none": ([], "/patches"),
    "too many": ([OK] * (MAX_PATCHES + 1), "/patches"),
    "no object": ([OK, 1], "/patches/1"),
    "no operation": ([{}], "/patches/0"),
    "unknown operation": ([OK, {"op": "fly"}], "/patches/1/op"),
    "unknown field": ([{**OK, "x": 1}], "/patches/0/x"),
    "set of blocks": ([{"op": "set", "field": "blocks", "value": []}], "/patches/0/field"),
    "set without a value": ([{"op": "set", "field": "title"}], "/patches/0"),
    "set to a wrong value": ([{"op": "set", "field": "title", "value": 4}], "/title"),
    "set_block of nonsense": ([{"op": "set_block", "block": {"id": "x"}}], "/patches/0/block"),
    "before what is not there": (
        [{"op": "set_block", "block": {"id": "x", "kind": "?"}, "before": "nope"}],
        "/patches/0/before",
    ),
    "remove what is not there": ([OK, {"op": "remove_block", "id": "nope"}], "/patches/1/id"),
    "items of no block": ([upsert("nope", item("x"))], "/patches/0/block"),
    "items of a block without": ([upsert("md", item("x"))], "/patches/0/block"),
    "upsert of events": ([upsert("time", item("x"))], "/patches/0/block"),
    "new item that is not complete": ([OK, upsert("list", {"id": "x"})], "/patches/1/items/0"),
    "item without a key": ([upsert("kv", {"value": "x"})], "/patches/0/items/0/key"),
    "item with a list for a key": ([upsert("list", {"id": []})], "/patches/0/items/0/id"),
    "label that is null": ([upsert("list", {"id": "a", "label": None})], "/patches/0/items/0"),
    "parent that is not there": ([upsert("list", item("x"), parent="no")], "/patches/0/parent"),
    "parent in a table": ([upsert("tab", item("x"), parent="r")], "/patches/0/parent"),
    "too deep": (
        [upsert("list", item("a11"), parent="a1"), upsert("list", item("x"), parent="a11")],
        "/blocks/0/items/0/children/0/children/0/children",
    ),
    "unknown column": (
        [upsert("tab", {"id": "r", "cells": {"d": ""}})],
        "/patches/0/items/0/cells/d",
    ),
    "removed by the wrong key": (
        [{"op": "remove_items", "block": "kv", "ids": ["k"]}],
        "/patches/0",
    ),
    "removed by two keys": (
        [{"op": "remove_items", "block": "kv", "keys": ["k"], "ids": ["k"]}],
        "/patches/0",
    ),
    "removed twice": (
        [{"op": "remove_items", "block": "list", "ids": ["a", "a1"]}],
        "/patches/0/ids/1",
    ),
    "events for a list": (
        [{"op": "append_events", "block": "list", "events": [item("x")]}],
        "/patches/0/block",
    ),
    "event with a time that is text": (
        [{"op": "append_events", "block": "time", "events": [{**item("x"), "at": "now"}]}],
        "/patches/0/events/0/at",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_one_bad_patch_refuses_all_with_a_pointer(name: str) -> None:
    """Contract: all-or-nothing; the result is validated whole."""
    patches, pointer = BAD[name]
    before = start()
    copy = thaw(before.value)
    with pytest.raises(PanelError) as caught:
        apply_patches(before, patches)
    assert (caught.value.code, caught.value.pointer) == ("panel_invalid", pointer)
    assert before.value == copy


def test_a_result_over_64_kib_is_panel_too_large() -> None:
    """Each patch is fine alone."""
    blocks = [
        {"op": "set_block", "block": {"id": f"m{i}", "kind": "markdown", "text": "x" * 16000}}
        for i in range(5)
    ]
    with pytest.raises(PanelError) as caught:
        apply_patches(start(), blocks)
    assert caught.value.code == "panel_too_large"


_KEYS = st.sampled_from(["a", "a1", "a2", "b", "c", "d"])
_OPS = st.one_of(
    st.builds(
        lambda keys, parent: upsert(
            "list", *(item(k) for k in keys), **({"parent": parent} if parent else {})
        ),
        st.lists(_KEYS, min_size=1, max_size=3),
        st.none() | _KEYS,
    ),
    st.builds(
        lambda keys: {"op": "remove_items", "block": "list", "ids": keys},
        st.lists(_KEYS, min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, below: upsert("list", item(key, children=[item(k) for k in below])),
        _KEYS,
        st.lists(_KEYS, max_size=2),
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(_OPS, min_size=1, max_size=5))
def test_any_sequence_of_patches_gives_a_valid_document_or_a_panel_error(patches: Any) -> None:
    """Moving and removing items of a tree has many corners."""
    code = "panel_invalid"
    try:
        patched(*patches)
    except PanelError as exc:
        code = exc.code
    assert code == "panel_invalid"
