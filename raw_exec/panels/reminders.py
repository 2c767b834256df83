"""The text that reminds a model of its ``summary`` panels after a compaction."""

from __future__ import annotations

from collections.abc import Iterable

from ..text import escape_text
from .document import derive
from .revisions import PanelView

__all__ = ["MAX_REMINDER_BYTES", "render_reminder"]

MAX_REMINDER_BYTES = 8192


def render_reminder(views: Iterable[PanelView], *, max_bytes: int = MAX_REMINDER_BYTES) -> str:
    """Return the reminder for all open panels with ``context: summary``; ``""`` if none.

    Security: the text is the tools' own, so each part says whose it is, and it is escaped. A
    panel that does not fit is left out whole and counted, so that no part is cut.

    Args:
        views: The session's panels.
        max_bytes: Of the whole text, in UTF-8.
    """
    parts = []
    for view in views:
        if view.declaration.context == "summary" and view.state == "open":
            parts.append(_part(view))
    out: list[str] = []
    # Room for the last line, which says how many are missing.
    left = max_bytes - 40
    missing = 0
    for part in parts:
        size = len(part.encode("utf-8")) + 1
        if size > left:
            missing += 1
            continue
        out.append(part)
        left -= size
    if missing and max_bytes >= 40:
        out.append(f"[{missing} more panels left out]")
    return "\n".join(out)


def _part(view: PanelView) -> str:
    document = view.document
    derived = derive(document)
    facts = [f"revision {view.revision}", derived.status]
    if derived.total is not None:
        facts.append(f"{derived.done}/{derived.total}")
    title = document.get("title") or view.declaration.title
    head = f"[panel {view.panel} of {view.owner}: {title}; {', '.join(facts)}]"
    body = document.get("context_summary") or derived.summary or ""
    head = escape_text(head, keep_newlines=False)
    return f"{head}\n{escape_text(body)}" if body else head
