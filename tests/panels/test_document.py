"""Documents: every kind of block at and over its limits, sizes, derived values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raw_exec.panels import PanelError, check_document, derive, display_document
from raw_exec.panels.document import MAX_DOCUMENT_BYTES, load_document
from raw_exec.values import FrozenDict, FrozenList


def block(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a block."""
    return {"id": "b", "kind": kind, **fields}


def of(*blocks: dict[str, Any], **header: Any) -> dict[str, Any]:
    """Return a document."""
    return {**header, "blocks": list(blocks)}


def item(key: str = "a", **fields: Any) -> dict[str, Any]:
    """Return an item of a checklist or of steps."""
    return {"id": key, "label": "x", **fields}


def many(count: int, make: Callable[[str], Any]) -> list[Any]:
    """Return that many items with different keys."""
    return [make(f"k{i}") for i in range(count)]


FORM = block("form", fields=[{"id": "q", "label": "Why?", "kind": "text"}])
TABLE: dict[str, Any] = block("table", columns=["a", {"id": "b", "label": "B"}], rows=[])
DEEP = item("a", children=[item("b", children=[item("c", children=[])])])

GOOD = {
    "nothing": {},
    "header": of(
        title="t" * 80,
        subtitle="s" * 120,
        status="done",
        progress={"done": 1, "total": 1},
        summary="m" * 120,
        context_summary="c" * 2048,
    ),
    "twenty blocks": of(*({**block("markdown", text="x"), "id": f"b{i}"} for i in range(20))),
    "checklist": of(
        block(
            "checklist",
            title="T",
            items=[
                item(
                    status="blocked",
                    priority="high",
                    note="n" * 500,
                    ref={"path": "a.py", "line": 3},
                )
            ],
        )
    ),
    "checklist of 200": of(block("checklist", items=many(200, item))),
    "checklist three deep": of(block("checklist", items=[DEEP])),
    "steps": of(
        block(
            "steps", items=many(30, lambda k: item(k, detail="d" * 200, started_at=0, ended_at=9))
        )
    ),
    "progress": of(block("progress", label="x", value=1.5, max=3)),
    "progress of unknown length": of(block("progress", indeterminate=True)),
    "key_value": of(block("key_value", items=many(50, lambda k: {"key": k, "value": "v" * 500}))),
    "table": of(
        {**TABLE, "rows": many(200, lambda k: {"id": k, "cells": {"a": "", "b": "é" * 9}})}
    ),
    "markdown": of(block("markdown", text="x" * 16384)),
    "timeline": of(
        block(
            "timeline",
            max=200,
            events=many(200, lambda k: {"id": k, "at": 1, "label": "l", "level": "error"}),
        )
    ),
    "files": of(
        block("files", items=many(200, lambda k: {"path": k, "status": "added", "line": 1}))
    ),
    "mermaid": of(block("mermaid", source="graph TD", fallback="a diagram")),
    "newline and tab": of(block("markdown", text="a\n\tb"), title="two\nlines"),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_the_contract_allows_is_kept_as_written_and_frozen(name: str) -> None:
    """Contract: the block catalogue, at its limits."""
    document = check_document(GOOD[name])
    assert document == {**GOOD[name], "blocks": GOOD[name].get("blocks", [])}
    assert check_document(document) == document
    stack: list[Any] = [document]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            assert type(value) is FrozenDict
            stack.extend(value.values())
        elif isinstance(value, list):
            assert type(value) is FrozenList
            stack.extend(value)


def test_a_form_block_is_normalised_by_the_form_check() -> None:
    """What a form leaves out has a meaning, which is written down."""
    (checked,) = check_document(of(FORM))["blocks"]
    assert checked["fields"][0]["required"] is True
    assert type(checked["fields"][0]) is FrozenDict


B = "/blocks/0"
BAD: dict[str, tuple[Any, str]] = {
    "no object": ([], ""),
    "unknown header field": (of(colour="red"), "/colour"),
    "title of 81": (of(title="t" * 81), "/title"),
    "title that is null": (of(title=None), "/title"),
    "subtitle of 121": (of(subtitle="s" * 121), "/subtitle"),
    "unknown status": (of(status="doing"), "/status"),
    "progress over total": (of(progress={"done": 2, "total": 1}), "/progress/done"),
    "progress with a boolean": (of(progress={"done": True, "total": 1}), "/progress/done"),
    "summary of 121": (of(summary="m" * 121), "/summary"),
    "context_summary of 2049 bytes": (of(context_summary="é" * 1025), "/context_summary"),
    "21 blocks": (of(*[block("markdown", text="")] * 21), "/blocks"),
    "blocks no list": ({"blocks": {}}, "/blocks"),
    "the same block id twice": (of(FORM, FORM), "/blocks/1/id"),
    "block no object": (of("x"), B),  # type: ignore[arg-type]
    "block without a kind": (of({"id": "b"}), B),
    "block without an id": (of({"kind": "markdown", "text": ""}), B),
    "block with a bad id": (of({**FORM, "id": "a b"}), f"{B}/id"),
    "unknown block field": (of(block("markdown", text="", size=3)), f"{B}/size"),
    "block title of 81": (of(block("markdown", text="", title="t" * 81)), f"{B}/title"),
    "unknown kind without an id": (of({"kind": "hologram"}), B),
    "unknown kind with a bad fallback": (of(block("hologram", fallback=1)), f"{B}/fallback"),
    "201 items": (of(block("checklist", items=many(201, item))), f"{B}/items"),
    "201 items with children": (
        of(block("checklist", items=[item("x", children=many(200, item))])),
        f"{B}/items",
    ),
    "four deep": (
        of(block("checklist", items=[item("z", children=[{**DEEP}])])),
        f"{B}/items/0/children/0/children/0/children",
    ),
    "the same item id in a child": (
        of(block("checklist", items=[item("a", children=[item("a")])])),
        f"{B}/items",
    ),
    "item without a label": (of(block("checklist", items=[{"id": "a"}])), f"{B}/items/0"),
    "label of 201": (of(block("checklist", items=[item(label="x" * 201)])), f"{B}/items/0/label"),
    "note of 501": (of(block("checklist", items=[item(note="x" * 501)])), f"{B}/items/0/note"),
    "unknown item status": (
        of(block("checklist", items=[item(status="ok")])),
        f"{B}/items/0/status",
    ),
    "ref without a path": (
        of(block("checklist", items=[item(ref={"line": 1})])),
        f"{B}/items/0/ref",
    ),
    "line 0": (
        of(block("checklist", items=[item(ref={"path": "p", "line": 0})])),
        f"{B}/items/0/ref/line",
    ),
    "31 steps": (of(block("steps", items=many(31, item))), f"{B}/items"),
    "steps with children": (of(block("steps", items=[DEEP])), f"{B}/items/0/children"),
    "the same step twice": (of(block("steps", items=[item(), item()])), f"{B}/items/1/id"),
    "progress over max": (of(block("progress", value=2, max=1)), f"{B}/value"),
    "progress without max": (of(block("progress", value=2)), B),
    "progress that is infinite": (of(block("progress", value=0, max=float("inf"))), f"{B}/max"),
    "progress of both kinds": (
        of(block("progress", value=1, max=2, indeterminate=True)),
        f"{B}/value",
    ),
    "51 pairs": (
        of(block("key_value", items=many(51, lambda k: {"key": k, "value": ""}))),
        f"{B}/items",
    ),
    "no columns": (of({**TABLE, "columns": []}), f"{B}/columns"),
    "9 columns": (of({**TABLE, "columns": list("abcdefghi")}), f"{B}/columns"),
    "the same column twice": (of({**TABLE, "columns": ["a", {"id": "a"}]}), f"{B}/columns"),
    "cell of no column": (
        of({**TABLE, "rows": [{"id": "r", "cells": {"z/": ""}}]}),
        f"{B}/rows/0/cells/z~1",
    ),
    "cell of 301": (
        of({**TABLE, "rows": [{"id": "r", "cells": {"a": "x" * 301}}]}),
        f"{B}/rows/0/cells/a",
    ),
    "cell that is a number": (
        of({**TABLE, "rows": [{"id": "r", "cells": {"a": 1}}]}),
        f"{B}/rows/0/cells/a",
    ),
    "201 rows": (of({**TABLE, "rows": many(201, lambda k: {"id": k, "cells": {}})}), f"{B}/rows"),
    "markdown over 16 KiB": (of(block("markdown", text="é" * 8193)), f"{B}/text"),
    "timeline max 201": (of(block("timeline", max=201, events=[])), f"{B}/max"),
    "event without a time": (
        of(block("timeline", events=[{"id": "e", "label": "l"}])),
        f"{B}/events/0",
    ),
    "the same file twice": (
        of(block("files", items=[{"path": "a"}, {"path": "a"}])),
        f"{B}/items/1/path",
    ),
    "mermaid over 16 KiB": (of(block("mermaid", source="x" * 16385)), f"{B}/source"),
    "form without fields": (of(block("form", fields=[])), f"{B}/fields"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_over_a_limit_is_panel_invalid_at_its_pointer(name: str) -> None:
    """Contract: the block catalogue, just over its limits."""
    raw, pointer = BAD[name]
    with pytest.raises(PanelError) as caught:
        check_document(raw)
    assert (caught.value.code, caught.value.pointer) == ("panel_invalid", pointer)


@pytest.mark.parametrize("char", ["\x00", "\x1b", "\r", "\x07", "\x7f", "\x9b", "\ud800"])
@pytest.mark.parametrize("where", ["title", "label", "text", "cell"])
def test_control_characters_are_refused_wherever_text_is(char: str, where: str) -> None:
    """Fault: terminal escapes. Contract: all but newline and tab are refused."""
    text = f"ok{char}"
    raw = {
        "title": of(title=text),
        "label": of(block("checklist", items=[item(label=text)])),
        "text": of(block("markdown", text=text)),
        "cell": of({**TABLE, "rows": [{"id": "r", "cells": {"a": text}}]}),
    }[where]
    with pytest.raises(PanelError) as caught:
        check_document(raw)
    assert caught.value.code == "panel_invalid"
    assert "ok" not in caught.value.message


def test_an_unknown_kind_keeps_only_the_common_fields() -> None:
    """Contract: a newer tool shows its fallback on an older host."""
    raw = block("hologram", title="T", fallback="f", depth=3, data={"x": [1]})
    assert check_document(of(raw))["blocks"] == [block("hologram", title="T", fallback="f")]


def test_a_timeline_drops_its_oldest_events() -> None:
    """Contract: `max`, 100 by default; what is dropped is not even looked at."""
    events: list[Any] = [7, *many(120, lambda k: {"id": k, "at": 1, "label": k})]
    (default,) = check_document(of(block("timeline", events=events)))["blocks"]
    assert [e["id"] for e in default["events"]] == [f"k{i}" for i in range(20, 120)]
    (two,) = check_document(of(block("timeline", max=2, events=events)))["blocks"]
    assert [e["id"] for e in two["events"]] == ["k118", "k119"]


def sized(size: int) -> dict[str, Any]:
    """Return a document of exactly this many bytes of compact JSON."""
    blocks = [{"id": f"m{i}", "kind": "markdown", "text": ""} for i in range(5)]
    document = of(*blocks)
    left = size - len(json.dumps(document, separators=(",", ":")))
    for part in blocks:
        take = min(left, 16000)
        part["text"], left = "x" * take, left - take
    return document


def test_65536_bytes_are_accepted_and_65537_are_panel_too_large() -> None:
    """Fault: panels with 65,537 bytes."""
    assert load_document(sized(MAX_DOCUMENT_BYTES)).size == MAX_DOCUMENT_BYTES
    with pytest.raises(PanelError) as caught:
        check_document(sized(MAX_DOCUMENT_BYTES + 1))
    assert caught.value.code == "panel_too_large"


@pytest.mark.parametrize("raw", [*GOOD.values(), of(FORM)], ids=[*GOOD, "form"])
def test_the_counted_size_is_that_of_the_compact_json(raw: dict[str, Any]) -> None:
    """It is put together from the sizes of the blocks."""
    checked = load_document(raw)
    text = json.dumps(checked.value, ensure_ascii=False, separators=(",", ":"))
    assert checked.size == len(text.encode())


def test_shared_blocks_are_not_checked_again_and_equal_ones_are() -> None:
    """Only identity counts: an equal block may come from anywhere."""
    first = load_document(of(block("markdown", text="a")))
    again = load_document({"title": "x", "blocks": list(first.blocks)}, first)
    assert again.blocks[0] is first.blocks[0]
    copied = load_document({"blocks": [dict(first.blocks[0])]}, first)
    assert copied.blocks[0] is not first.blocks[0]
    assert copied == first


# ---------------------------------------------------------------- derived values


def derived(*blocks: dict[str, Any], **header: Any) -> tuple[Any, ...]:
    """Return what is derived, as a tuple."""
    found = derive(check_document(of(*blocks, **header)))
    return found.status, found.done, found.total, found.summary


LIST = block(
    "checklist", items=[item("a", status="done"), item("b", label="now", status="in_progress")]
)
STEPS = {**block("steps", items=[item("s", status="skipped")]), "id": "s"}


def test_progress_and_summary_come_from_checklists_then_from_steps() -> None:
    """Contract: derived when absent; skipped items are completed ones."""
    assert derived() == ("active", None, None, None)
    assert derived(STEPS, LIST) == ("active", 1, 2, "1/2 done, now: now")
    assert derived(STEPS, block("checklist", items=[])) == ("active", 1, 1, "1/1 done")
    nested = block("checklist", items=[item("a", children=[item("b", status="done")])])
    assert derived(nested) == ("active", 1, 2, "1/2 done")


def test_what_is_written_wins_over_what_is_derived() -> None:
    """Contract: derived when absent."""
    written = {"status": "failed", "progress": {"done": 0, "total": 9}, "summary": "s"}
    assert derived(LIST, **written) == ("failed", 0, 9, "s")
    assert derived(LIST, summary="") == ("active", 1, 2, "")


def test_a_derived_summary_has_at_most_120_characters() -> None:
    """The limit of a written one."""
    long = block("checklist", items=[item("a", label="x" * 200, status="in_progress")])
    assert len(derived(long)[3]) == 120


def test_derived_values_are_shown_and_not_kept() -> None:
    """A tool that writes back what it read must not freeze an old count."""
    document = check_document(of(LIST))
    shown = display_document(document)
    assert shown["progress"] == {"done": 1, "total": 2}
    assert "progress" not in document
    assert check_document(shown) == shown


# ---------------------------------------------------------------- anything at all

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["checklist", "table", "timeline", "form", "progress", "a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["id", "kind", "items", "rows", "columns", "cells", "events", "label", "max", "at"]
            )
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_JSON, max_size=4), st.sampled_from(["checklist", "table", "timeline", "steps"]))
def test_any_json_is_accepted_or_refused_with_a_panel_error(blocks: list[Any], kind: str) -> None:
    """Input is accepted or raises the one documented error; all else is a bug."""
    for raw in ({"blocks": blocks}, of(*({"id": "b", "kind": kind, "items": b} for b in blocks))):
        try:
            document = check_document(raw)
        except PanelError:
            continue
        assert check_document(document) == document
