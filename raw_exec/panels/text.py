"""Panels as plain text for a terminal: every block, no colour, all content escaped.

Security: what a tool wrote reaches the terminal as printable text only. The lines are this
module's own; a label can't end one, and a block can't pretend to be another panel, since all
of its lines are indented under its own heading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from rich.cells import cell_len

from .blocks import column_names
from .document import derive
from .layout import columns, cut, escaped, lines_of, wrap
from .markdown import plain_markdown
from .mermaid import mermaid_problem
from .revisions import PanelView

__all__ = ["MIN_WIDTH", "render_document", "render_panel"]

MIN_WIDTH = 24
_INDENT = "  "
_MARKS: Final = {
    "pending": "[ ]",
    "in_progress": "[>]",
    "done": "[x]",
    "skipped": "[-]",
    "blocked": "[!]",
    "failed": "[X]",
}
_LEVELS: Final = {"info": "i", "success": "+", "warning": "!", "error": "X"}
_FILES: Final = {"added": "A", "modified": "M", "deleted": "D", "referenced": " "}

_Block = Mapping[str, Any]


def render_panel(view: PanelView, *, width: int = 80) -> str:
    """Return a panel as text.

    Args:
        view: The panel.
        width: Cells of a line, at least 24. Only a character that is wider than a whole
            line could exceed it.
    """
    state = "" if view.state == "open" else f", {view.state}"
    subject = f"{view.id}, revision {view.revision}{state}"
    title = view.document.get("title") or view.declaration.title
    return render_document(view.document, title=title, subject=subject, width=width)


def render_document(
    document: Mapping[str, Any], *, title: str, subject: str = "", width: int = 80
) -> str:
    """Return a checked document as text; see ``render_panel``.

    Args:
        title: Heading; the document's own is not looked at.
        subject: What the panel is, in parentheses after the heading.
    """
    width = max(MIN_WIDTH, width)
    derived = derive(document)
    out = [cut(escaped(title) + (f" ({escaped(subject)})" if subject else ""), width)]
    facts = [derived.status]
    if derived.total is not None:
        facts.append(_bar(derived.done or 0, derived.total))
    if derived.summary:
        facts.append(escaped(derived.summary))
    if document.get("subtitle"):
        out.extend(wrap(escaped(document["subtitle"]), width))
    out.extend(wrap(" · ".join(facts), width))
    for block in document["blocks"]:
        out.append("")
        out.extend(_block(block, width))
    return "\n".join(line.rstrip() for line in out)


def _block(block: _Block, width: int) -> Iterator[str]:
    render = _RENDER.get(block["kind"], _unknown)
    if block.get("title"):
        yield from wrap(escaped(block["title"]) + ":", width)
    for line in render(block, width - len(_INDENT)):
        yield _INDENT + line


def _bar(done: float, total: float, cells: int = 10) -> str:
    filled = round(cells * done / total) if total else 0
    return f"[{'#' * filled}{'.' * (cells - filled)}] {done:g}/{total:g}"


def _place(item: Mapping[str, Any]) -> str:
    ref = item.get("ref")
    if ref is None:
        return ""
    line = f":{ref['line']:g}" if "line" in ref else ""
    return f" ({escaped(ref['path'])}{line})"


def _checklist(block: _Block, width: int) -> Iterator[str]:
    def entries(items: Any, depth: int) -> Iterator[str]:
        for item in items:
            mark = _INDENT * depth + _MARKS[item.get("status", "pending")] + " "
            urgent = f"({item['priority']}) " if item.get("priority") in ("high", "low") else ""
            yield from wrap(urgent + escaped(item["label"]) + _place(item), width, first=mark)
            if item.get("note"):
                for line in lines_of(item["note"]):
                    yield from wrap(line, width, first=" " * len(mark))
            yield from entries(item.get("children", ()), depth + 1)

    yield from entries(block["items"], 0)


def _steps(block: _Block, width: int) -> Iterator[str]:
    for number, item in enumerate(block["items"], 1):
        mark = f"{_MARKS[item.get('status', 'pending')]} {number:2}. "
        taken = ""
        if "started_at" in item and "ended_at" in item:
            taken = f" ({max(0, item['ended_at'] - item['started_at']) / 1000:.1f} s)"
        yield from wrap(escaped(item["label"]) + taken, width, first=mark)
        if item.get("detail"):
            yield from wrap(escaped(item["detail"]), width, first=" " * len(mark))


def _progress(block: _Block, width: int) -> Iterator[str]:
    if block.get("indeterminate"):
        bar = "[..........] running"
    else:
        bar = _bar(block["value"], block["max"])
    yield from wrap(" ".join(filter(None, (bar, escaped(block.get("label", ""))))), width)


def _key_value(block: _Block, width: int) -> Iterator[str]:
    for item in block["items"]:
        first = cut(escaped(item["key"]), width // 2) + ": "
        lines = lines_of(item["value"])
        lines[-1] += _place(item)
        for line in lines:
            yield from wrap(line, width, first=first)
            first = _INDENT


def _table(block: _Block, width: int) -> Iterator[str]:
    names = column_names(block)
    heads = [
        escaped(c if isinstance(c, str) else c.get("label", c["id"])) for c in block["columns"]
    ]
    rows = [[escaped(row["cells"].get(name, "")) for name in names] for row in block["rows"]]
    has_status = any("status" in row for row in block["rows"])
    if has_status:
        marks = [_MARKS.get(row.get("status", ""), "") for row in block["rows"]]
        heads = ["", *heads]
        rows = [[mark, *row] for mark, row in zip(marks, rows, strict=True)]
    padded = columns([heads, *rows], width)
    for index, cells in enumerate(padded):
        yield cut("  ".join(cells).rstrip(), width)
        if index == 0:
            yield cut("  ".join("-" * cell_len(cell) for cell in cells), width)


def _markdown(block: _Block, width: int) -> Iterator[str]:
    for line in lines_of(plain_markdown(block["text"])):
        yield from wrap(line, width)


def _timeline(block: _Block, width: int) -> Iterator[str]:
    for event in block["events"]:
        first = f"{_clock(int(event['at']))} {_LEVELS[event.get('level', 'info')]} "
        yield from wrap(escaped(event["label"]), width, first=first)
        if event.get("detail"):
            for line in lines_of(event["detail"]):
                yield from wrap(line, width, first=_INDENT * 2)


def _clock(at: int) -> str:
    """Return the UTC time of day; the day itself matters little while a tool runs."""
    seconds = at // 1000 % 86400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _files(block: _Block, width: int) -> Iterator[str]:
    for item in block["items"]:
        line = f":{item['line']:g}" if "line" in item else ""
        label = f"  {escaped(item['label'])}" if item.get("label") else ""
        first = _FILES[item.get("status", "referenced")] + " "
        yield from wrap(escaped(item["path"]) + line + label, width, first=first)


def _form(block: _Block, width: int) -> Iterator[str]:
    for field in block["fields"]:
        need = "" if field.get("required", True) else " (optional)"
        yield from wrap(escaped(field["label"]) + need, width, first="? ")
        mark = "[ ] " if field["kind"] == "multi_select" else "( ) "
        for option in field.get("options", ()):
            about = f" - {escaped(option['description'])}" if option.get("description") else ""
            yield from wrap(escaped(option["label"]) + about, width, first=_INDENT + mark)


def _mermaid(block: _Block, width: int) -> Iterator[str]:
    problem = mermaid_problem(block["source"])
    if problem is not None:
        yield from wrap(f"[not rendered: {problem}]", width)
    if block.get("fallback"):
        for line in lines_of(block["fallback"]):
            yield from wrap(line, width)
    for line in lines_of(block["source"]):
        yield from wrap(line, width, first="| ", rest="| ")


def _unknown(block: _Block, width: int) -> Iterator[str]:
    text = block.get("fallback") or f"[a block of kind {block['kind']}, which can't be shown]"
    for line in lines_of(text):
        yield from wrap(line, width)


_RENDER: Mapping[str, Callable[[_Block, int], Iterator[str]]] = {
    "checklist": _checklist,
    "steps": _steps,
    "progress": _progress,
    "key_value": _key_value,
    "table": _table,
    "markdown": _markdown,
    "timeline": _timeline,
    "files": _files,
    "form": _form,
    "mermaid": _mermaid,
}
