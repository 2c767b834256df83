"""Panels: live views that tools keep up to date (``raw.panel/2``)."""

from __future__ import annotations

from .actions import (
    PromptAction,
    ResolvedAction,
    ResponseAction,
    ToolAction,
    list_actions,
    resolve_action,
)
from .board import PanelBoard
from .calls import PanelCall
from .document import check_document, derive, display_document
from .errors import PanelError
from .live import LivePanels, open_live
from .revisions import PanelRejection, PanelRevision, PanelView
from .state import PANEL_CODES, PanelEvent, PanelState
from .text import render_document, render_panel

__all__ = [
    "PANEL_CODES",
    "LivePanels",
    "PanelBoard",
    "PanelCall",
    "PanelError",
    "PanelEvent",
    "PanelRejection",
    "PanelRevision",
    "PanelState",
    "PanelView",
    "PromptAction",
    "ResolvedAction",
    "ResponseAction",
    "ToolAction",
    "check_document",
    "derive",
    "display_document",
    "list_actions",
    "open_live",
    "render_document",
    "render_panel",
    "resolve_action",
]
