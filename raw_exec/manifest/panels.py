"""Panel declarations of a manifest (``raw.panel/2``, "Declaration").

Only what a tool announces is checked here; panel documents are another matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..fields import Cursor, shown
from ..values import freeze

__all__ = ["ICONS", "MAX_PANELS", "PanelAction", "PanelDeclaration", "check_panels"]

MAX_PANELS = 4
MAX_ACTIONS = 8
_MAX_TITLE_CHARS = 40
_MAX_LABEL_CHARS = 32
_MAX_CONFIRM_CHARS = 200
_MAX_PROMPT_CHARS = 8192
_MAX_BLOCKS = 20
"""Blocks of a panel document, so also of an action's ``blocks`` filter."""

ICONS: Final = (
    "list-checks",
    "list-ordered",
    "file-text",
    "table",
    "activity",
    "gauge",
    "folder-tree",
    "flag",
    "panel",
)
_STATUSES: Final = (
    "idle",
    "active",
    "pending",
    "in_progress",
    "done",
    "skipped",
    "blocked",
    "failed",
)
"""Of documents (idle, active, done, failed) and of items."""

_ID = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_PANEL_FIELDS = ("id", "title", "icon", "placement", "open", "context", "acp_plan", "actions")
_ACTION_FIELDS = (
    "id",
    "label",
    "scope",
    "blocks",
    "kind",
    "text",
    "arguments",
    "response",
    "primary",
    "confirm",
    "when",
)
_BODY_OF_KIND: Final = {"prompt": "text", "tool": "arguments", "response": "response"}
_TEMPLATE = re.compile(r"\{\{([^{}]*)\}\}")
_TEMPLATES_OF_SCOPE: Final = {
    "panel": ("panel.id",),
    "block": ("panel.id", "block.id"),
    "item": ("panel.id", "block.id", "item.id", "item.label"),
}


@dataclass(frozen=True, slots=True)
class PanelAction:
    """One menu item of a panel.

    Args:
        body: The prompt text, the tool arguments (frozen) or ``"submit"``/``"cancel"``.
        confirm: The question to ask first, ``True`` for a standard one.
        when_status: Show it only in these statuses; empty means always.
    """

    id: str
    label: str
    kind: str
    body: Any
    scope: str = "panel"
    blocks: tuple[str, ...] = ()
    primary: bool = False
    confirm: str | bool = False
    when_status: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PanelDeclaration:
    """One panel that a tool may update."""

    id: str
    title: str
    icon: str = "panel"
    placement: str = "sidebar"
    open: str = "never"
    context: str = "none"
    acp_plan: bool = False
    actions: tuple[PanelAction, ...] = field(default=())


def check_panels(cursor: Cursor, warnings: list[str]) -> tuple[PanelDeclaration, ...]:
    """Check the ``panels`` list; an unknown icon is a warning and becomes ``panel``."""
    out = []
    seen: set[str] = set()
    for item in cursor.items(max_items=MAX_PANELS):
        panel = _check_panel(item, warnings)
        if panel is None:
            continue
        if panel.id in seen:
            item.child("id").fail(f"duplicate panel id {panel.id!r}")
        seen.add(panel.id)
        out.append(panel)
    if sum(panel.acp_plan for panel in out) > 1:
        cursor.fail("only one panel of a tool can be the acp_plan")
    return tuple(out)


def _check_panel(cursor: Cursor, warnings: list[str]) -> PanelDeclaration | None:
    fields = cursor.fields(_PANEL_FIELDS, ("id", "title"))
    if fields is None:
        return None
    panel_id = fields["id"].name(_ID, "panel id") if "id" in fields else None
    title = None
    if "title" in fields:
        title = fields["title"].string(min_chars=1, max_chars=_MAX_TITLE_CHARS, one_line=True)
    icon = fields["icon"].string() if "icon" in fields else "panel"
    if icon is not None and icon not in ICONS:
        warnings.append(
            f"unknown icon {shown(icon)} at {fields['icon'].pointer}; 'panel' is shown instead"
        )
        icon = "panel"
    placement = _choice(fields, "placement", ("sidebar", "chat"), "sidebar")
    opens = _choice(fields, "open", ("never", "first_update"), "never")
    context = _choice(fields, "context", ("none", "summary"), "none")
    acp_plan = fields["acp_plan"].boolean() if "acp_plan" in fields else False
    actions = _check_actions(fields["actions"]) if "actions" in fields else ()
    if panel_id is None or title is None:
        return None
    return PanelDeclaration(
        panel_id, title, icon or "panel", placement, opens, context, acp_plan or False, actions
    )


def _choice(fields: Mapping[str, Cursor], key: str, options: tuple[str, ...], default: str) -> str:
    if key not in fields:
        return default
    return fields[key].choice(options, key) or default


def _check_actions(cursor: Cursor) -> tuple[PanelAction, ...]:
    out = []
    seen: set[str] = set()
    for item in cursor.items(max_items=MAX_ACTIONS):
        action = _check_action(item)
        if action is None:
            continue
        if action.id in seen:
            item.child("id").fail(f"duplicate action id {action.id!r}")
        seen.add(action.id)
        out.append(action)
    return tuple(out)


def _check_action(cursor: Cursor) -> PanelAction | None:
    fields = cursor.fields(_ACTION_FIELDS, ("id", "label", "kind"))
    if fields is None:
        return None
    action_id = fields["id"].name(_ID, "action id") if "id" in fields else None
    label = None
    if "label" in fields:
        label = fields["label"].string(min_chars=1, max_chars=_MAX_LABEL_CHARS, one_line=True)
    scope = _choice(fields, "scope", tuple(_TEMPLATES_OF_SCOPE), "panel")
    kind = fields["kind"].choice(tuple(_BODY_OF_KIND), "kind") if "kind" in fields else None
    blocks: tuple[str, ...] = ()
    if "blocks" in fields:
        blocks = fields["blocks"].strings(max_items=_MAX_BLOCKS, min_chars=1, max_chars=64)
    primary = fields["primary"].boolean() if "primary" in fields else False
    confirm = _check_confirm(fields["confirm"]) if "confirm" in fields else False
    when = _check_when(fields["when"]) if "when" in fields else ()
    body = _check_body(cursor, fields, kind, scope) if kind is not None else None
    if action_id is None or label is None or kind is None:
        return None
    return PanelAction(action_id, label, kind, body, scope, blocks, primary or False, confirm, when)


def _check_confirm(cursor: Cursor) -> str | bool:
    if isinstance(cursor.value, bool):
        return cursor.value
    if not isinstance(cursor.value, str):
        cursor.wrong_type("a string or a boolean")
        return False
    return cursor.string(min_chars=1, max_chars=_MAX_CONFIRM_CHARS, one_line=True) or False


def _check_when(cursor: Cursor) -> tuple[str, ...]:
    fields = cursor.fields(("status",), ("status",))
    if not fields or "status" not in fields:
        return ()
    status = fields["status"]
    if isinstance(status.value, str):
        one = status.choice(_STATUSES, "status")
        return (one,) if one else ()
    if isinstance(status.value, list) and not status.value:
        status.fail("must not be empty")
    found = (item.choice(_STATUSES, "status") for item in status.items(max_items=len(_STATUSES)))
    return tuple(word for word in found if word is not None)


def _check_body(cursor: Cursor, fields: Mapping[str, Cursor], kind: str, scope: str) -> Any:
    wanted = _BODY_OF_KIND[kind]
    for name in _BODY_OF_KIND.values():
        if name != wanted and name in fields:
            fields[name].fail(f"an action of kind {kind!r} has no {name!r}", at="key")
    if wanted not in fields:
        cursor.fail(f"an action of kind {kind!r} needs {wanted!r}")
        return None
    body = fields[wanted]
    if kind == "response":
        return body.choice(("submit", "cancel"), "response")
    if kind == "prompt":
        body.string(min_chars=1, max_chars=_MAX_PROMPT_CHARS)
    elif not isinstance(body.value, dict):
        body.wrong_type("an object")
        return None
    _check_templates(body, scope)
    return freeze(body.value)


def _check_templates(cursor: Cursor, scope: str) -> None:
    value = cursor.value
    if isinstance(value, str):
        allowed = _TEMPLATES_OF_SCOPE[scope]
        for found in _TEMPLATE.findall(value):
            if found.strip() not in allowed:
                listed = ", ".join(f"{{{{{name}}}}}" for name in allowed)
                cursor.fail(
                    f"unknown template {shown('{{' + found + '}}')} in scope {scope!r}; "
                    f"one of {listed}"
                )
    elif isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            _check_templates(cursor.child(key), scope)
