"""The panels of one session: who may update what, revisions, room.

Rules
1. A board belongs to one session and one trio thread; every method returns without waiting,
   so no two updates overlap.
2. An accepted update is seen at once, by people and by every call, and takes the panel's next
   revision. It is staged until its call is settled, which happens with every result, errors
   included; nothing is taken back. Calls that share a sidebar panel therefore work on one
   document, and ``base_revision`` tells a call that another one was quicker.
3. What a call settles is the last revision that it made of each panel. That may be older than
   one that another call settled before; the highest revision is the panel's.
4. Of the calls that read a panel before it has data, one may fill it; the others wait for that,
   so that none replaces what it has not seen. A call that may fill a panel waits for none.
5. At most 16 panels have data. Room is made by the closed panel that was updated longest ago,
   then by the oldest chat panel of a settled call. A revision number is not given again after
   that: the board remembers it.

Security: a call reaches only panels of its own tool, in the sidebar or of this very call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from ..manifest import PanelDeclaration
from .calls import PanelCall
from .document import CheckedDocument, load_document
from .errors import PanelError
from .reminders import MAX_REMINDER_BYTES, render_reminder
from .revisions import PanelRevision, PanelView, full_id
from .state import PanelEvent, PanelState, next_state

__all__ = ["MAX_SESSION_PANELS", "PanelBoard", "declares_implicitly"]

MAX_SESSION_PANELS = 16
MAX_OWNER_PANELS = 4
_REMEMBERED = 4096
"""Evicted panels whose last revision is kept; those of the sidebar are far fewer."""

_ID = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def declares_implicitly(owner: str) -> bool:
    """Whether an owner's panels need no declaration: MCP and ACP tools (no actions then)."""
    return owner.startswith(("mcp/", "acp:"))


@dataclass(slots=True)
class Panel:
    """One panel with data."""

    declaration: PanelDeclaration
    state: PanelState
    document: CheckedDocument
    latest: PanelRevision
    committed: int = 0
    """The highest settled revision."""
    changed: int = field(default=0)
    """When it was last changed, in updates of the board."""

    def view(self) -> PanelView:
        """Return what people see."""
        return PanelView(self.declaration, self.latest, self.committed >= self.latest.revision)


class PanelBoard:
    """The panels of one session.

    Args:
        declarations: By the tool's policy identity.
        clock: Epoch milliseconds.
        on_live: Called with every accepted update, and again when one is settled. It must
            neither raise nor call the board.
        restore: Revisions of an earlier host, in any order; the highest of each panel counts.
            Panels that nobody declares any more are left out.
        implicit: Tells which owners need no declarations.
    """

    def __init__(
        self,
        declarations: Mapping[str, Sequence[PanelDeclaration]],
        clock: Callable[[], int],
        *,
        on_live: Callable[[PanelView], None] | None = None,
        restore: Iterable[PanelRevision] = (),
        implicit: Callable[[str], bool] = declares_implicitly,
    ) -> None:
        self._declared = {
            owner: {panel.id: panel for panel in panels} for owner, panels in declarations.items()
        }
        self.clock = clock
        self._on_live = on_live
        self._implicit = implicit
        self._panels: dict[str, Panel] = {}
        self._revisions: dict[str, int] = {}
        self._filling: dict[str, tuple[PanelCall, trio.Event]] = {}
        self._changes = 0
        self._restore(restore)

    def open_call(self, owner: str, tool_call_id: str) -> PanelCall:
        """Return what one call of a tool may do with its panels; settle it with the result."""
        return PanelCall(self, owner, tool_call_id)

    def views(self) -> tuple[PanelView, ...]:
        """Return the panels with data, in the order in which they got it."""
        return tuple(panel.view() for panel in self._panels.values())

    def view(self, panel_id: str) -> PanelView:
        """Return one panel by its full ID.

        Raises:
            PanelError: ``panel_unknown``.
        """
        panel = self._panels.get(panel_id)
        if panel is None:
            raise PanelError("panel_unknown", f"no panel {panel_id!r:.200} has data")
        return panel.view()

    def reminder(self, max_bytes: int = MAX_REMINDER_BYTES) -> str:
        """Return what a model should be told of ``summary`` panels after a compaction."""
        return render_reminder(self.views(), max_bytes=max_bytes)

    # ------------------------------------------------------------ for PanelCall

    def resolve(self, owner: str, tool_call_id: str, name: Any) -> tuple[PanelDeclaration, str]:
        """Return the declaration and the full ID that a tool means by a name.

        Raises:
            PanelError: ``panel_invalid``, ``panel_undeclared`` or ``panel_not_owned``.
        """
        if not isinstance(name, str):
            raise PanelError("panel_invalid", "the panel's id must be a string", "/panel")
        short = name
        if "#" in name:
            short, _, instance = name.removeprefix(f"{owner}#").partition("@")
            if not name.startswith(f"{owner}#") or instance not in ("", tool_call_id):
                raise _not_owned(name)
        declaration = self._declared.get(owner, {}).get(short) or self._declare(owner, short)
        chat = declaration.placement == "chat"
        panel_id = full_id(owner, short, tool_call_id if chat else None)
        if "@" in name and name != panel_id:
            raise _not_owned(name)
        return declaration, panel_id

    def _declare(self, owner: str, short: str) -> PanelDeclaration:
        known = self._declared.get(owner, {})
        declared = ", ".join(known) or "none"
        if not self._implicit(owner) or _ID.fullmatch(short) is None:
            message = f"the tool declares no panel {short!r:.80}; declared: {declared}"
            raise PanelError("panel_undeclared", message)
        if len(known) >= MAX_OWNER_PANELS:
            message = f"the tool has {len(known)} panels already: {declared}"
            raise PanelError("panel_limit", message)
        # Kept by change(), once an update of the panel is accepted.
        return PanelDeclaration(short, short)

    def find(self, panel_id: str) -> Panel | None:
        """Return a panel with data, or ``None``."""
        return self._panels.get(panel_id)

    def first_filling(self, call: PanelCall, panel_id: str) -> trio.Event | None:
        """Let a call fill a panel without data first, or return what it has to wait for."""
        if panel_id in self._panels or any(
            filling is call for filling, _ in self._filling.values()
        ):
            return None
        _, filled = self._filling.setdefault(panel_id, (call, trio.Event()))
        return None if self._filling[panel_id][0] is call else filled

    def stop_filling(self, call: PanelCall) -> None:
        """Let another call fill what this one was to fill first."""
        for panel_id in [key for key, (filling, _) in self._filling.items() if filling is call]:
            self._filled(panel_id)

    def _filled(self, panel_id: str) -> None:
        _, filled = self._filling.pop(panel_id, (None, None))
        if filled is not None:
            filled.set()

    def change(
        self,
        declaration: PanelDeclaration,
        call: PanelCall,
        event: PanelEvent,
        make: Callable[[CheckedDocument | None], CheckedDocument],
        base_revision: int | None = None,
    ) -> PanelRevision:
        """Apply one update, or change nothing.

        Args:
            event: ``REPLACE``, ``PATCH`` or ``CLOSE``.
            make: Returns the new document, given the current one.
            base_revision: The revision that the update was made for.

        Raises:
            PanelError: As the table of states, ``make`` and the limits say.
        """
        instance = call.tool_call_id if declaration.placement == "chat" else None
        panel_id = full_id(call.owner, declaration.id, instance)
        panel = self._panels.get(panel_id)
        state = next_state(PanelState.ABSENT if panel is None else panel.state, event)
        last = self._revisions.get(panel_id, 0) if panel is None else panel.latest.revision
        if base_revision is not None and base_revision != last:
            message = f"base_revision is {base_revision}; the panel is at {last}"
            raise PanelError("panel_revision_conflict", message, "/base_revision")
        document = make(None if panel is None else panel.document)
        victim = self._find_room() if panel is None else None
        # Nothing above changed anything; nothing below can fail.
        if victim is not None:
            self._evict(victim)
        latest = PanelRevision(
            owner=call.owner,
            panel=declaration.id,
            instance=instance,
            revision=last + 1,
            state="closed" if state is PanelState.CLOSED else "open",
            document=document.value,
            at=self.clock(),
            tool_call_id=call.tool_call_id,
        )
        if panel is None:
            panel = Panel(declaration, state, document, latest)
            self._panels[panel_id] = panel
            self._revisions.pop(panel_id, None)
            self._declared.setdefault(call.owner, {})[declaration.id] = declaration
            self._filled(panel_id)
        panel.state, panel.document, panel.latest = state, document, latest
        self._touch(panel)
        self._show(panel)
        return latest

    def settle(self, revisions: Iterable[PanelRevision]) -> None:
        """Note that these revisions of one call are final, and end its chat panels."""
        for revision in revisions:
            panel = self._panels.get(revision.id)
            if panel is None:
                continue
            panel.committed = max(panel.committed, revision.revision)
            if revision.instance is not None:
                panel.state = next_state(panel.state, PanelEvent.SETTLE)
            self._show(panel)

    # ------------------------------------------------------------ inside

    def _find_room(self) -> str | None:
        """Return the panel to evict for one more, ``None`` if there is room without.

        Raises:
            PanelError: ``panel_limit``: every panel is still in use.
        """
        if len(self._panels) < MAX_SESSION_PANELS:
            return None
        for state in (PanelState.CLOSED, PanelState.SETTLED):
            found = [key for key, panel in self._panels.items() if panel.state is state]
            if found:
                return min(found, key=lambda key: self._panels[key].changed)
        raise PanelError(
            "panel_limit",
            f"the session has {MAX_SESSION_PANELS} open panels; close one to make room",
        )

    def _evict(self, panel_id: str) -> None:
        panel = self._panels[panel_id]
        next_state(panel.state, PanelEvent.EVICT)
        del self._panels[panel_id]
        self._revisions[panel_id] = panel.latest.revision
        while len(self._revisions) > _REMEMBERED:
            del self._revisions[next(iter(self._revisions))]

    def _touch(self, panel: Panel) -> None:
        self._changes += 1
        panel.changed = self._changes

    def _show(self, panel: Panel) -> None:
        if self._on_live is not None:
            self._on_live(panel.view())

    def _restore(self, revisions: Iterable[PanelRevision]) -> None:
        latest: dict[str, PanelRevision] = {}
        for revision in revisions:
            known = latest.get(revision.id)
            if known is None or known.revision < revision.revision:
                latest[revision.id] = revision
        found = []
        for panel_id, revision in latest.items():
            self._revisions[panel_id] = revision.revision
            try:
                declaration, _ = self.resolve(revision.owner, revision.tool_call_id, revision.panel)
            except PanelError:
                continue
            # A declaration that moved between sidebar and chat makes another panel of it.
            if (declaration.placement == "chat") != (revision.instance is not None):
                continue
            state = PanelState.OPEN
            if revision.state == "closed":
                state = PanelState.CLOSED
            elif revision.instance is not None:
                state = PanelState.SETTLED
            document = load_document(revision.document)
            panel = Panel(declaration, state, document, revision, revision.revision)
            self._declared.setdefault(revision.owner, {})[declaration.id] = declaration
            found.append(panel)
        # Open ones first, then the latest of the others, until there are as many as may be.
        found.sort(key=lambda panel: (panel.state is not PanelState.OPEN, -panel.latest.at))
        for panel in sorted(found[:MAX_SESSION_PANELS], key=lambda panel: panel.latest.at):
            self._panels[panel.latest.id] = panel
            self._revisions.pop(panel.latest.id, None)
            self._touch(panel)


def _not_owned(name: str) -> PanelError:
    return PanelError("panel_not_owned", f"panel {name!r:.200} belongs to another tool or call")
