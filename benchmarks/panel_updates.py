"""Panels: a whole 64 KiB document, and two hundred updates in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raw_exec.manifest import PanelDeclaration
from raw_exec.panels import PanelBoard, PanelCall, PanelView
from raw_exec.panels.document import MAX_DOCUMENT_BYTES, load_document

from .claims import Bench, BenchmarkFailed, Claim
from .measure import Contestant, batched, interleave_into
from .report import Goal, Section

OWNER = "local/bench"
REPLACE = "replace of a 64 KiB document"
REPLACE_SMALL_ITEMS = "replace of 64 KiB, 1,300 events"
PATCHES = "200 patches of a small panel"
PATCHES_FULL = "200 patches of a 64 KiB panel"
REPLACES = "200 replaces of a small panel"


def mixed_document() -> dict[str, Any]:
    """Return a document near the limit, as a busy tool might have: rows, items and text."""
    items = [
        {"id": f"t{i}", "label": f"Check module number {i} of the project", "status": "pending"}
        for i in range(150)
    ]
    rows = [
        {"id": f"r{i}", "status": "done", "cells": {"name": f"case {i}", "took": f"{i} ms"}}
        for i in range(200)
    ]
    events = [
        {"id": f"e{i}", "at": 1_700_000_000_000 + i, "level": "info", "label": f"step {i} is done"}
        for i in range(200)
    ]
    blocks: list[dict[str, Any]] = [
        {"id": "list", "kind": "checklist", "items": items},
        {"id": "rows", "kind": "table", "columns": ["name", "took"], "rows": rows},
        {"id": "log", "kind": "timeline", "max": 200, "events": events},
    ]
    document = {"title": "Everything", "blocks": blocks}
    left = MAX_DOCUMENT_BYTES - load_document(document).size
    for number in range(2):
        blocks.append({"id": f"m{number}", "kind": "markdown", "text": "word " * (left // 12)})
    return document


def events_document() -> dict[str, Any]:
    """Return the document near the limit that has the most fields to check."""
    blocks = [
        {
            "id": f"b{b}",
            "kind": "timeline",
            "max": 200,
            "events": [{"id": f"e{i}", "at": i, "level": "info", "label": "x"} for i in range(66)],
        }
        for b in range(20)
    ]
    return {"blocks": blocks}


def _nothing(_view: PanelView) -> None:
    """Take a frame, as a subscriber would."""


def _open_call() -> PanelCall:
    declared = {OWNER: [PanelDeclaration("p", "Panel")]}
    board = PanelBoard(declared, lambda: 0, on_live=_nothing)
    return board.open_call(OWNER, "call")


def _one_replace(document: dict[str, Any]) -> Callable[[], object]:
    def work() -> None:
        if _open_call().update("p", {"op": "replace", "document": document}) != 1:
            raise BenchmarkFailed("the replace was not the first revision")

    return work


def _updates(document: dict[str, Any], body: Callable[[int], dict[str, Any]]) -> Any:
    def work() -> None:
        call = _open_call()
        call.update("p", {"op": "replace", "document": document})
        for number in range(199):
            call.update("p", body(number))
        if [revision.revision for revision in call.settle()] != [200]:
            raise BenchmarkFailed("an update was lost")

    return work


def _patch(number: int) -> dict[str, Any]:
    item = {"id": f"t{number % 10}", "status": "done" if number % 2 else "in_progress"}
    return {
        "op": "patch",
        "patches": [{"op": "upsert_items", "block": "list", "items": [item]}],
    }


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    mixed, events = mixed_document(), events_document()
    items = [{"id": f"t{i}", "label": f"Item {i}", "status": "pending"} for i in range(10)]
    small = {"blocks": [{"id": "list", "kind": "checklist", "items": items}]}
    contestants = [
        Contestant(REPLACE, batched(_one_replace(mixed), 1)),
        Contestant(REPLACE_SMALL_ITEMS, batched(_one_replace(events), 1)),
        Contestant(
            REPLACES,
            batched(_updates(small, lambda _: {"op": "replace", "document": small}), 1),
            calls=bench.size(5, 2),
        ),
        Contestant(PATCHES, batched(_updates(small, _patch), 1), calls=bench.size(5, 2)),
        Contestant(PATCHES_FULL, batched(_updates(mixed, _patch), 1), calls=bench.size(5, 2)),
    ]
    await interleave_into(
        section,
        contestants,
        rounds=bench.round_count(20, 6),
        calls=bench.size(10, 5),
        warm_up=1,
        scale=1000,
    )
    section.facts["bytes"] = {
        "mixed": load_document(mixed).size,
        "events": load_document(events).size,
    }
    section.notes.append("in the supervisor: check, freeze, revision, frame; no worker, no disk")


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    out = []
    for claim, row, limit in (
        ("replace of a 64 KiB panel document", REPLACE, 5.0),
        ("replace of 64 KiB of the smallest items", REPLACE_SMALL_ITEMS, 5.0),
        ("200 panel updates in one call", PATCHES, 200.0),
        ("200 updates of a 64 KiB panel in one call", PATCHES_FULL, 200.0),
    ):
        found = section.row(row)
        measured = None if found is None else found.p50
        out.append(Goal(claim, limit, measured, "ms", note=section.missing(row)))
    return out


CLAIM = Claim("panels", "Panel updates", "ms", "", run, judge)
