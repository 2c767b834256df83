"""Panels: a whole 64 KiB document, and two hundred updates in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raw_exec.manifest import PanelDeclaration
from raw_exec.panels import PanelBoard, PanelCall, PanelView
from raw_exec.panels.document import MAX_DOCUMENT_BYTES, load_document
from raw_exec.sessions import Session

from .claims import Bench, BenchmarkFailed, Claim
from .measure import Contestant, Round, batched, interleave_into, timed
from .report import Goal, Section
from .workspace import ARGUMENTS, ToolSource, open_bench_runtime, write_workspace

OWNER = "local/bench"
REPLACE = "replace of a 64 KiB document"
REPLACE_SMALL_ITEMS = "replace of 64 KiB, 1,300 events"
PATCHES = "200 patches of a small panel"
PATCHES_FULL = "200 patches of a 64 KiB panel"
REPLACES = "200 replaces of a small panel"
FROM_PYTHON = "a call with 200 updates, sandboxed Python"
FROM_ESM = "a call with 200 updates, sandboxed ESM"

_PYTHON_MODULE = """\
def handler(args, context):
    items = [{"id": f"t{i}", "label": f"Item {i}", "status": "pending"} for i in range(10)]
    blocks = [{"id": "list", "kind": "checklist", "items": items}]
    context.panels.update("p", {"op": "replace", "document": {"blocks": blocks}})
    for number in range(199):
        status = "done" if number % 2 else "in_progress"
        items = [{"id": f"t{number % 10}", "status": status}]
        patch = {"op": "upsert_items", "block": "list", "items": items}
        context.panels.update("p", {"op": "patch", "patches": [patch]})
    return {"content": [{"type": "text", "text": args["text"]}]}
"""
_ESM_MODULE = """\
export async function handler(args, { panels }) {
  const items = [];
  for (let i = 0; i < 10; i++) items.push({ id: `t${i}`, label: `Item ${i}`, status: "pending" });
  const blocks = [{ id: "list", kind: "checklist", items }];
  await panels.update("p", { op: "replace", document: { blocks } });
  for (let number = 0; number < 199; number++) {
    const status = number % 2 ? "done" : "in_progress";
    const items = [{ id: `t${number % 10}`, status }];
    const patches = [{ op: "upsert_items", block: "list", items }];
    await panels.update("p", { op: "patch", patches });
  }
  return { content: [{ type: "text", text: args.text }] };
}
"""


class _PanelSource(ToolSource):
    """A tool with one panel."""

    __slots__ = ()

    def manifest(self, tool_id: str) -> dict[str, Any]:
        """Return the manifest with the panel."""
        return {**super().manifest(tool_id), "panels": [{"id": "p", "title": "Panel"}]}


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


async def _call(session: Session, name: str) -> None:
    result = await session.dispatch(name, ARGUMENTS)
    if result.is_error or session.panel(f"agent/{name}#p").revision % 200:
        raise BenchmarkFailed(f"{name}: {result.code} at {result.stage}: {result.text:.300}")


def _round(session: Session, name: str) -> Round:
    return timed(lambda: _call(session, name))


async def _nobody(_view: PanelView) -> None:
    """Take a frame, as a client would."""


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
    sources = {
        "python": _PanelSource("index.py", _PYTHON_MODULE),
        "esm": _PanelSource("index.mjs", _ESM_MODULE),
    }
    async with (
        open_bench_runtime(bench, write_workspace(bench, "panels", sources)) as runtime,
        runtime.open_session(on_panel=_nobody) as session,
    ):
        contestants += [
            Contestant(row, _round(session, name), calls=bench.size(5, 2))
            for row, name in ((FROM_PYTHON, "python"), (FROM_ESM, "esm"))
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
    section.notes.append("a replace or patch is in the supervisor: check, freeze, revision, frame")
    section.notes.append("a call has a worker, a session with its history in memory, and frames")


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    out = []
    for claim, row, limit in (
        ("replace of a 64 KiB panel document", REPLACE, 5.0),
        ("replace of 64 KiB of the smallest items", REPLACE_SMALL_ITEMS, 5.0),
        ("200 panel updates in one call", PATCHES, 200.0),
        ("200 updates of a 64 KiB panel in one call", PATCHES_FULL, 200.0),
        ("a whole call with 200 updates from a Python worker", FROM_PYTHON, 200.0),
        ("a whole call with 200 updates from an ESM worker", FROM_ESM, 200.0),
    ):
        found = section.row(row)
        measured = None if found is None else found.p50
        out.append(Goal(claim, limit, measured, "ms", note=section.missing(row)))
    return out


CLAIM = Claim("panels", "Panel updates", "ms", "", run, judge)
