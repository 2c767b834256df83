"""Panel actions: what a person can select, and what that means.

Security: an action never runs here and approves nothing. A ``tool`` action becomes arguments
for an ordinary dispatch with ``source="user_action"``. Templates are replaced inside string
values only, in one pass: what an item is called can't become a template, a key, or another
argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..fields import shown
from ..manifest import PanelAction
from ..values import FrozenDict, FrozenList
from .blocks import find_item, item_label
from .document import derive
from .errors import PanelError
from .revisions import PanelView

__all__ = [
    "MAX_PROMPT_BYTES",
    "PromptAction",
    "ResolvedAction",
    "ResponseAction",
    "ToolAction",
    "list_actions",
    "resolve_action",
]

MAX_PROMPT_BYTES = 16 * 1024
_TEMPLATE = re.compile(r"\{\{\s*(panel\.id|block\.id|item\.id|item\.label)\s*\}\}")


@dataclass(frozen=True, slots=True)
class PromptAction:
    """A message to draft for the person; nothing is sent.

    Args:
        text: The draft.
        confirm: The question to put first, or ``None``.
    """

    text: str
    confirm: str | None = None


@dataclass(frozen=True, slots=True)
class ToolAction:
    """A call of the declaring tool, by the normal way with ``source="user_action"``.

    Args:
        owner: Policy identity of the tool.
        arguments: Frozen; not yet checked against the tool's schema.
        confirm: The question to put first, or ``None``. Its answer is no approval.
    """

    owner: str
    arguments: FrozenDict
    confirm: str | None = None


@dataclass(frozen=True, slots=True)
class ResponseAction:
    """Submit or cancel the pending request that a form belongs to.

    Args:
        response: ``submit`` or ``cancel``.
        panel: The full ID.
        block: The form's block, when it was selected there.
        confirm: The question to put first, or ``None``.
    """

    response: Literal["submit", "cancel"]
    panel: str
    block: str | None = None
    confirm: str | None = None


ResolvedAction: TypeAlias = PromptAction | ToolAction | ResponseAction


@dataclass(frozen=True, slots=True)
class _Target:
    """What was selected: the panel, one of its blocks, or an item."""

    scope: str
    status: str | None
    values: Mapping[str, str]
    block: str | None = None


def _target(view: PanelView, block: str | None, item: str | None) -> _Target:
    values = {"panel.id": view.panel}
    status: str | None = derive(view.document).status
    if block is None:
        if item is not None:
            raise PanelError("panel_invalid", "an item is selected with its block")
        return _Target("panel", status, values)
    found = next((b for b in view.document["blocks"] if b["id"] == block), None)
    if found is None:
        raise PanelError("panel_invalid", f"the panel has no block {shown(block)}", "/block")
    values["block.id"] = block
    if item is None:
        return _Target("block", status, values, block)
    chosen = find_item(found, item)
    if chosen is None:
        raise PanelError("panel_invalid", f"the block has no item {shown(item)}", "/item")
    values |= {"item.id": item, "item.label": item_label(found, chosen)}
    return _Target("item", chosen.get("status"), values, block)


def list_actions(
    view: PanelView, *, block: str | None = None, item: str | None = None
) -> tuple[PanelAction, ...]:
    """Return the actions of a panel, of one of its blocks, or of an item.

    Raises:
        PanelError: ``panel_invalid``: no such block or item.
    """
    return _possible(view, _target(view, block, item))


def _possible(view: PanelView, target: _Target) -> tuple[PanelAction, ...]:
    if view.state != "open":
        return ()
    return tuple(
        action
        for action in view.declaration.actions
        if action.scope == target.scope
        and (not action.blocks or target.block is None or target.block in action.blocks)
        and (not action.when_status or target.status in action.when_status)
    )


def resolve_action(
    view: PanelView,
    action_id: str,
    *,
    block: str | None = None,
    item: str | None = None,
    revision: int | None = None,
) -> ResolvedAction:
    """Return what an action that a person selected means.

    Args:
        view: The panel as it is now.
        action_id: The action.
        block: The block it was selected on, for scope ``block`` and ``item``.
        item: The item it was selected on, by id, key or path.
        revision: The revision that the person saw, if the client says so.

    Raises:
        PanelError: ``panel_unknown`` when the panel is closed, ``panel_revision_conflict``
            when it changed meanwhile, ``panel_invalid`` when the action does not exist there,
            ``panel_too_large`` when the draft is.
    """
    if view.state != "open":
        raise PanelError("panel_unknown", "the panel is closed")
    if revision is not None and revision != view.revision:
        message = f"the panel was seen at {revision} and is at {view.revision}"
        raise PanelError("panel_revision_conflict", message, "/revision")
    target = _target(view, block, item)
    action = next((a for a in _possible(view, target) if a.id == action_id), None)
    if action is None:
        message = f"no action {shown(action_id)} for this {target.scope}"
        raise PanelError("panel_invalid", message, "/action")
    confirm = f"{action.label}?" if action.confirm is True else action.confirm or None
    if action.kind == "response":
        return ResponseAction(action.body, view.id, block, confirm)
    body = _fill(action.body, target.values)
    if action.kind == "tool":
        return ToolAction(view.owner, body, confirm)
    if len(body.encode("utf-8")) > MAX_PROMPT_BYTES:
        raise PanelError("panel_too_large", f"the draft has over {MAX_PROMPT_BYTES} bytes")
    return PromptAction(body, confirm)


def _fill(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _TEMPLATE.sub(lambda found: values.get(found[1], found[0]), value)
    if isinstance(value, dict):
        return FrozenDict({key: _fill(inner, values) for key, inner in value.items()})
    if isinstance(value, list):
        return FrozenList([_fill(inner, values) for inner in value])
    return value
