"""What the tests of panels share."""

from __future__ import annotations

from typing import Any

from raw_exec.manifest import PanelDeclaration
from raw_exec.panels import PanelBoard, PanelCall, PanelView

OWNER = "local/todo"


class Clock:
    """Epoch milliseconds that rise by one with every look."""

    def __init__(self) -> None:
        self.now = 1000

    def __call__(self) -> int:
        self.now += 1
        return self.now


def todo(*items: tuple[str, str], **header: Any) -> dict[str, Any]:
    """Return a document with one checklist of (id, status)."""
    entries = [{"id": key, "label": f"do {key}", "status": status} for key, status in items]
    return {**header, "blocks": [{"id": "list", "kind": "checklist", "items": entries}]}


def replace(document: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a replace."""
    return {"op": "replace", "document": document}


def make_board(**options: Any) -> tuple[PanelBoard, list[PanelView]]:
    """Return a board with a few declared panels, and the frames it shows."""
    frames: list[PanelView] = []
    declarations = options.pop("declarations", None) or {
        OWNER: [
            PanelDeclaration("todo", "Tasks", context="summary"),
            PanelDeclaration("inline", "Inline", placement="chat"),
        ],
        "local/other": [PanelDeclaration("notes", "Notes")],
    }
    return PanelBoard(declarations, Clock(), on_live=frames.append, **options), frames


def call(board: PanelBoard, call_id: str = "c1", owner: str = OWNER) -> PanelCall:
    """Open a call."""
    return board.open_call(owner, call_id)
