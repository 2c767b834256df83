"""The approval prompt of a terminal.

Security: everything shown comes from a model or a plugin. Control, bidirectional and
invisible characters are escaped, so that what a person reads is what would be run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import trio

from ..text import escape_text
from .request import Answer, ApprovalRequest

__all__ = ["TerminalApprover", "render_request"]

_MAX_SHOWN_LINES = 60
_MAX_LINE_CHARS = 400
_MAX_SHOWN_CHANGES = 200


def render_request(request: ApprovalRequest) -> str:
    """Return the question as plain lines: identity, then arguments, then effects, apart."""
    reviewing = request.changes is not None
    lines = [
        f"{'Commit the changes of' if reviewing else 'Approve'}"
        f" {escape_text(request.identity, keep_newlines=False)}"
        f" (called as {escape_text(request.name, keep_newlines=False)})?"
    ]
    if request.rule is not None:
        index, match = request.rule.get("index"), request.rule.get("match")
        lines.append(f"  asked by rule {index}: match {escape_text(repr(match))}")
    lines.append("  arguments, as the model sent them:")
    lines += _render_json(request.arguments)
    if request.effects is None:
        lines.append("  intended effects: this tool declares none")
    else:
        lines.append("  intended effects, as the tool describes them:")
        lines += _render_json(request.effects)
    lines += _render_changes(request)
    return "\n".join(lines)


def _render_changes(request: ApprovalRequest) -> list[str]:
    if request.changes is None:
        return []
    lines = [f"  what it changed, {request.change_count} in all, not committed yet:"]
    for change in request.changes[:_MAX_SHOWN_CHANGES]:
        mark = "" if change["declared"] else "  (not described)"
        what = f"{change['action']} {change['kind']} {change['path']}{mark}"
        lines.append("    " + escape_text(what, keep_newlines=False))
    hidden = request.change_count - min(len(request.changes), _MAX_SHOWN_CHANGES)
    if hidden > 0:
        lines.append(f"    … [{hidden} more changes not shown]")
    if request.diff:
        lines.append("  as a diff:")
        lines += ["    " + escape_text(line) for line in request.diff.splitlines()]
    return lines


def _render_json(value: Any) -> list[str]:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    lines = ["    " + _shorten(escape_text(line)) for line in text.split("\n")]
    if len(lines) > _MAX_SHOWN_LINES:
        hidden = len(lines) - _MAX_SHOWN_LINES
        lines = [*lines[:_MAX_SHOWN_LINES], f"    … [{hidden} more lines not shown]"]
    return lines


def _shorten(line: str) -> str:
    if len(line) <= _MAX_LINE_CHARS:
        return line
    return f"{line[:_MAX_LINE_CHARS]}… [{len(line) - _MAX_LINE_CHARS} more characters]"


class TerminalApprover:
    """Asks on a terminal, one question at a time.

    Args:
        write: Prints a text; standard error, since standard output carries data.
        read: Returns one line, or ``""`` at the end of input. Called in a thread.
    """

    def __init__(self, write: Callable[[str], None], read: Callable[[], str]) -> None:
        self._write = write
        self._read = read
        self._lock = trio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Answer:
        """Ask until the answer is yes or no; the end of input denies."""
        async with self._lock:
            self._write(render_request(request) + "\n")
            while True:
                what = "run it" if request.changes is None else "commit them"
                self._write(f"  {what}? [y]es / [n]o: ")
                # A thread that waits for a key can't be stopped; it ends with the process.
                line = await trio.to_thread.run_sync(self._read, abandon_on_cancel=True)
                word = line.strip().lower()
                if word in ("y", "yes"):
                    return Answer(True)
                if word in ("n", "no"):
                    return Answer(False, "denied at the terminal")
                if not line:
                    return Answer(False, "the terminal was closed before an answer")
