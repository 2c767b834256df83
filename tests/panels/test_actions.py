"""Actions: which can be selected where, and what they become."""

from __future__ import annotations

from typing import Any

import pytest
from panels.boards import OWNER, call, make_board, replace

from raw_exec.manifest import PanelAction, PanelDeclaration
from raw_exec.panels import (
    PanelError,
    PanelView,
    PromptAction,
    ResponseAction,
    ToolAction,
    list_actions,
    resolve_action,
)

DOCUMENT = {
    "status": "active",
    "blocks": [
        {
            "id": "list",
            "kind": "checklist",
            "items": [
                {"id": "t1", "label": '{{item.id}} "quoted"', "status": "pending"},
                {"id": "t2", "label": "Two", "status": "done"},
                {"id": "t3", "label": "Three", "children": [{"id": "t4", "label": "Four"}]},
            ],
        },
        {"id": "kv", "kind": "key_value", "items": [{"key": "k", "value": "v"}]},
        {
            "id": "tab",
            "kind": "table",
            "columns": ["c"],
            "rows": [{"id": "r", "cells": {"c": "first"}}, {"id": "s", "cells": {}}],
        },
        {"id": "md", "kind": "markdown", "text": ""},
        {"id": "files", "kind": "files", "items": [{"path": "a/b"}]},
    ],
}
ARGUMENTS = {
    "{{item.id}}": ["{{item.id}}", {"label": "<{{ item.label }}>"}],
    "n": 1,
    "where": "{{panel.id}}/{{block.id}}",
}


def view(*actions: PanelAction, document: dict[str, Any] = DOCUMENT) -> PanelView:
    """Return an open panel with these actions."""
    board, _ = make_board(declarations={OWNER: [PanelDeclaration("p", "Panel", actions=actions)]})
    call(board).update("p", replace(document))
    return board.view(f"{OWNER}#p")


def test_a_tool_action_becomes_arguments_with_templates_in_string_values_only() -> None:
    """Contract: templates inside string values only; a label can't become a template."""
    panel = view(PanelAction("do", "Do", "tool", ARGUMENTS, scope="item", confirm=True))
    assert resolve_action(panel, "do", block="list", item="t1") == ToolAction(
        OWNER,
        {  # type: ignore[arg-type]
            "{{item.id}}": ["t1", {"label": '<{{item.id}} "quoted">'}],
            "n": 1,
            "where": "p/list",
        },
        "Do?",
    )


def test_a_prompt_action_becomes_a_draft() -> None:
    """Contract: it drafts a message for the user."""
    panel = view(PanelAction("ask", "Ask", "prompt", "About {{item.label}}", scope="item"))
    assert resolve_action(panel, "ask", block="list", item="t4") == PromptAction("About Four")


@pytest.mark.parametrize(
    ("block", "item", "label"),
    [
        ("kv", "k", "k"),
        ("tab", "r", "first"),
        ("tab", "s", "s"),
        ("files", "a/b", "a/b"),
    ],
)
def test_items_of_every_kind_have_a_label(block: str, item: str, label: str) -> None:
    """An entry is its key, a file its path, a row its first cell."""
    panel = view(PanelAction("x", "X", "prompt", "{{item.id}}={{item.label}}", scope="item"))
    expected = PromptAction(f"{item}={label}")
    assert resolve_action(panel, "x", block=block, item=item) == expected


def test_a_response_action_names_the_panel_and_the_form() -> None:
    """Contract: it submits or cancels a pending request and grants nothing."""
    panel = view(PanelAction("ok", "OK", "response", "submit", scope="block", confirm="Sure?"))
    expected = ResponseAction("submit", f"{OWNER}#p", "md", "Sure?")
    assert resolve_action(panel, "ok", block="md") == expected


def test_actions_are_listed_by_scope_block_and_status() -> None:
    """Contract: scope, blocks and when say where an action is shown."""
    panel = view(
        PanelAction("panel", "P", "prompt", "x"),
        PanelAction("block", "B", "prompt", "x", scope="block", blocks=("md",)),
        PanelAction("item", "I", "prompt", "x", scope="item"),
        PanelAction("open", "O", "prompt", "x", scope="item", when_status=("pending",)),
        PanelAction("idle", "I", "prompt", "x", when_status=("idle",)),
        PanelAction("now", "N", "prompt", "x", when_status=("active", "failed")),
    )

    def ids(**where: Any) -> list[str]:
        return [action.id for action in list_actions(panel, **where)]

    assert ids() == ["panel", "now"]
    assert ids(block="md") == ["block"]
    assert ids(block="kv") == []
    assert ids(block="list", item="t1") == ["item", "open"]
    assert ids(block="list", item="t2") == ["item"]


@pytest.mark.parametrize(
    ("arguments", "code", "pointer"),
    [
        ({"action_id": "nope"}, "panel_invalid", "/action"),
        ({"action_id": "x", "block": "nope"}, "panel_invalid", "/block"),
        ({"action_id": "x", "block": "list", "item": "nope"}, "panel_invalid", "/item"),
        ({"action_id": "x", "block": "md", "item": "t1"}, "panel_invalid", "/item"),
        ({"action_id": "x", "item": "t1"}, "panel_invalid", ""),
        ({"action_id": "x", "block": "list"}, "panel_invalid", "/action"),
        ({"action_id": "x", "revision": 7}, "panel_revision_conflict", "/revision"),
    ],
)
def test_a_selection_that_is_not_there_is_refused(
    arguments: dict[str, Any], code: str, pointer: str
) -> None:
    """A client may be behind, or lie; nothing is guessed."""
    with pytest.raises(PanelError) as caught:
        resolve_action(view(PanelAction("x", "X", "prompt", "text")), **arguments)
    assert (caught.value.code, caught.value.pointer) == (code, pointer)


def test_a_closed_panel_has_no_actions() -> None:
    """What its tool closed is not clicked any more."""
    action = PanelAction("x", "X", "prompt", "text")
    board, _ = make_board(declarations={OWNER: [PanelDeclaration("p", "Panel", actions=(action,))]})
    panels = call(board)
    panels.update("p", replace(DOCUMENT))
    panels.update("p", {"op": "close"})
    closed = board.view(f"{OWNER}#p")
    assert list_actions(closed) == ()
    with pytest.raises(PanelError) as caught:
        resolve_action(closed, "x")
    assert caught.value.code == "panel_unknown"


def test_a_draft_that_templates_blow_up_is_panel_too_large() -> None:
    """8 KiB of templates could otherwise become a hundred."""
    items = [{"id": "i", "label": "x" * 200}]
    document = {"blocks": [{"id": "list", "kind": "checklist", "items": items}]}
    action = PanelAction("x", "X", "prompt", "{{item.label}}" * 500, scope="item")
    with pytest.raises(PanelError) as caught:
        resolve_action(view(action, document=document), "x", block="list", item="i")
    assert caught.value.code == "panel_too_large"
