"""Panels as text: every block, any width, nothing of a tool's that a terminal would obey."""

from __future__ import annotations

from typing import Any

import pytest
from panels.boards import OWNER, call, make_board, replace, todo
from rich.cells import cell_len

from raw_exec.manifest import PanelDeclaration
from raw_exec.panels import check_document, render_document, render_panel
from raw_exec.panels.reminders import render_reminder
from raw_exec.panels.text import MIN_WIDTH


def every_block(text: str) -> dict[str, Any]:
    """Return a document with every kind of block, whose texts are all this one."""
    line = text.replace("\n", " ").replace("\t", " ")

    def block(kind: str, **fields: Any) -> dict[str, Any]:
        return {"id": kind, "kind": kind, "title": text[:80], **fields}

    entry = {"id": "i", "label": text, "note": text, "ref": {"path": line, "line": 3}}
    option = {"id": "o", "label": line, "description": line}
    return {
        "title": text[:80],
        "subtitle": text[:120],
        "summary": text[:120],
        "blocks": [
            block("checklist", items=[{**entry, "children": [{**entry, "id": "j"}]}]),
            block(
                "steps",
                items=[
                    {"id": "s", "label": text, "detail": text, "started_at": 0, "ended_at": 1500}
                ],
            ),
            block("progress", label=text, value=1, max=3),
            {**block("progress", indeterminate=True), "id": "p2"},
            block("key_value", items=[{"key": line[:60], "value": text}]),
            block(
                "table",
                columns=["c", {"id": "d", "label": text[:60]}],
                rows=[{"id": "r", "status": "done", "cells": {"c": text, "d": text}}],
            ),
            block("markdown", text=f"{text} [{line}](https://a.b) ![{line}](c)"),
            block(
                "timeline",
                events=[
                    {"id": "e", "at": 3_723_000, "level": "error", "label": text, "detail": text}
                ],
            ),
            block("files", items=[{"path": line, "status": "added", "line": 2, "label": text}]),
            block(
                "form",
                title="Form",
                fields=[{"id": "q", "label": line, "kind": "multi_select", "options": [option]}],
            ),
            block("mermaid", source=text, fallback=text),
            block("hologram", fallback=text),
        ],
    }


def test_every_block_as_text() -> None:
    """One picture of all of them."""
    document = check_document(every_block("word"))
    assert render_document(document, title="Title", subject="local/t#p", width=60).split("\n") == [
        "Title (local/t#p)",
        "word",
        "active · [..........] 0/2 · word",
        "",
        "word:",
        "  [ ] word (word:3)",
        "      word",
        "    [ ] word (word:3)",
        "        word",
        "",
        "word:",
        "  [ ]  1. word (1.5 s)",
        "          word",
        "",
        "word:",
        "  [###.......] 1/3 word",
        "",
        "word:",
        "  [..........] running",
        "",
        "word:",
        "  word: word",
        "",
        "word:",
        "       c     word",
        "  ---  ----  ----",
        "  [x]  word  word",
        "",
        "word:",
        "  word word <https://a.b> [image: word]",
        "",
        "word:",
        "  01:02:03 X word",
        "      word",
        "",
        "word:",
        "  A word:2  word",
        "",
        "Form:",
        "  ? word",
        "    [ ] word - word",
        "",
        "word:",
        "  word",
        "  | word",
        "",
        "word:",
        "  word",
    ]


TEXTS = {
    "long words": "x" * 150,
    "many words": "a bc def " * 16,
    "wide": "漢字 かな " * 12,
    "bidi and zero width": "a\u202eb\u200bc\u2066d " * 10,
    "combining": "e\u0301" * 40,
    "lines": "one\ntwo\tthree\n",
}


@pytest.mark.parametrize("width", [0, MIN_WIDTH, 40, 80, 200])
@pytest.mark.parametrize("name", TEXTS)
def test_no_line_is_wider_than_asked_and_none_holds_what_is_not_printable(
    name: str, width: int
) -> None:
    """Fault: hostile terminal escapes; what is left of them is shown escaped."""
    document = check_document(every_block(TEXTS[name]))
    text = render_document(document, title=TEXTS[name], width=width)
    for line in text.split("\n"):
        assert line.isprintable()
        assert cell_len(line) <= max(width, MIN_WIDTH), line


def test_mermaid_that_is_not_rendered_says_why_and_still_shows_its_source() -> None:
    """Contract: the source is still shown."""
    source = "graph TD\n click A"
    block = {"id": "m", "kind": "mermaid", "source": source}
    text = render_document(check_document({"blocks": [block]}), title="T")
    assert text.split("\n") == [
        "T",
        "active",
        "",
        "  [not rendered: links are not rendered]",
        "  | graph TD",
        "  |  click A",
    ]


def test_a_panel_says_whose_it_is() -> None:
    """A title is the tool's word; the full ID is ours."""
    board, _ = make_board()
    panels = call(board)
    panels.update("todo", replace(todo(("a", "done"))))
    panels.update("todo", {"op": "close"})
    assert render_panel(board.view(f"{OWNER}#todo")).split("\n")[0] == (
        "Tasks (local/todo#todo, revision 2, closed)"
    )


# ---------------------------------------------------------------- reminders


def test_a_reminder_holds_open_summary_panels_only() -> None:
    """Contract: `summary` panels also send a bounded reminder after a compaction."""
    board, _ = make_board()
    assert board.reminder() == ""
    panels, other = call(board), call(board, "c2", "local/other")
    other.update("notes", replace(todo(context_summary="not for the model")))
    panels.update("todo", replace(todo(("a", "in_progress"), context_summary="Do a")))
    assert board.reminder() == ("[panel todo of local/todo: Tasks; revision 1, active, 0/1]\nDo a")
    panels.update("todo", {"op": "close"})
    assert board.reminder() == ""


def test_a_reminder_is_bounded_and_counts_what_it_leaves_out() -> None:
    """2 KiB from each of sixteen panels would be too much to say again and again."""
    names = ["a", "b", "c", "d"]
    declared = {
        f"local/t{i}": [PanelDeclaration(n, n, context="summary") for n in names] for i in range(4)
    }
    board, _ = make_board(declarations=declared)
    for owner in declared:
        panels = board.open_call(owner, "c")
        for name in names:
            panels.update(name, replace({"context_summary": "\u202e" * 682}))
    text = board.reminder()
    assert len(text.encode()) <= 8192
    assert text.isascii()
    assert text.endswith("[15 more panels left out]")
    assert render_reminder(board.views(), max_bytes=10) == ""
