"""What one tool call may do with panels: stream updates, return some, and be settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from ..manifest import PanelDeclaration
from ..text import escape_text
from .checks import Fields, anything, check_fields, integer, one_of
from .document import CheckedDocument, derive, load_document
from .errors import PanelError
from .patches import apply_patches
from .revisions import PanelRejection, PanelRevision
from .state import PanelEvent

if TYPE_CHECKING:
    from .board import PanelBoard

__all__ = ["MAX_UPDATES", "PanelCall"]

MAX_UPDATES = 200
"""Of one panel in one call, refused ones included: looking at them costs the same."""

_MAX_REJECTIONS = 32
_MAX_LINES = 20
_MAX_LINE_CHARS = 400
_MAX_MESSAGE_CHARS = 500

_OP = one_of("replace", "patch", "close")
_BODIES: Final[Mapping[str, tuple[Fields, tuple[str, ...]]]] = {
    "replace": ({"op": anything, "document": anything}, ("document",)),
    "patch": ({"op": anything, "patches": anything, "base_revision": integer(0)}, ("patches",)),
    "close": ({"op": anything}, ()),
}


class PanelCall:
    """The panels of one tool call. ``PanelBoard.open_call`` makes it.

    It is open for streaming until ``apply_results`` or ``settle``, and for results until
    ``settle``; whatever comes later is ``panel_closed_context``.
    """

    def __init__(self, board: PanelBoard, owner: str, tool_call_id: str) -> None:
        self.owner = owner
        self.tool_call_id = tool_call_id
        self._board = board
        self._streaming = True
        self._settled = False
        self._updates: dict[str, int] = {}
        self._last: dict[str, PanelRevision] = {}
        self._rejections: list[PanelRejection] = []
        self._rejected = 0

    @property
    def rejections(self) -> tuple[PanelRejection, ...]:
        """The first refused updates, at most 32."""
        return tuple(self._rejections)

    @property
    def rejected_count(self) -> int:
        """All refused updates."""
        return self._rejected

    def update(self, panel: Any, body: Any) -> int:
        """Apply an update while the handler runs.

        Args:
            panel: The declared id, or the full ID.
            body: ``{op: "replace", document}``, ``{op: "patch", patches, base_revision?}`` or
                ``{op: "close"}``.

        Returns:
            The panel's new revision.

        Raises:
            PanelError: With any code; nothing was changed.
        """
        try:
            self._check_streaming()
            return self._apply(panel, body).revision
        except PanelError as exc:
            self._note(panel, exc)
            raise

    def get(self, panel: Any) -> dict[str, Any] | None:
        """Return ``{"revision": n, "document": {...}}``, or ``None`` without data.

        The document is as it was written, frozen, without derived values.

        Raises:
            PanelError: ``panel_invalid``, ``panel_undeclared``, ``panel_not_owned`` or
                ``panel_closed_context``.
        """
        self._check_streaming()
        _, panel_id = self._board.resolve(self.owner, self.tool_call_id, panel)
        found = self._board.find(panel_id)
        if found is None:
            return None
        return {"revision": found.latest.revision, "document": found.latest.document}

    def first_filling(self, panel: Any) -> trio.Event | None:
        """Say what to wait for before ``get``: another call may be about to fill the panel.

        Returns:
            ``None`` when there is nothing to wait for; ask again after waiting.

        Raises:
            PanelError: As ``get`` does.
        """
        self._check_streaming()
        _, panel_id = self._board.resolve(self.owner, self.tool_call_id, panel)
        return self._board.first_filling(self, panel_id)

    def apply_results(self, blocks: Sequence[Mapping[str, Any]], *, only: bool) -> list[str]:
        """Apply the panel blocks of the result, and end streaming.

        Args:
            blocks: ``{"type": "panel", "panel": ..., "op": ..., ...}``, in order.
            only: Whether the result has no other content; the model is then told of success.

        Returns:
            Lines for the model, each bounded and escaped.
        """
        self._streaming = False
        accepted: dict[str, PanelRevision] = {}
        refused: list[str] = []
        for block in blocks:
            name = block.get("panel")
            try:
                if self._settled:
                    raise _closed_context()
                body = {key: value for key, value in block.items() if key not in _ENVELOPE}
                revision = self._apply(name, body)
            except PanelError as exc:
                self._note(name, exc)
                refused.append(
                    _line(f"panel {_shown_name(name)} update rejected: {exc.code} {exc}")
                )
            else:
                accepted[revision.id] = revision
        lines = [_confirmation(revision) for revision in accepted.values()] if only else []
        if len(refused) > _MAX_LINES:
            more = len(refused) - _MAX_LINES
            refused[_MAX_LINES:] = [f"{more} more panel updates rejected"]
        return lines + refused

    def settle(self) -> tuple[PanelRevision, ...]:
        """End the call, whatever its result, and return what to keep in the history.

        Returns:
            The last revision that this call made of each panel; nothing the second time.
        """
        if self._settled:
            return ()
        self._streaming = False
        self._settled = True
        self._board.stop_filling(self)
        revisions = tuple(self._last.values())
        self._board.settle(revisions)
        return revisions

    # ------------------------------------------------------------ inside

    def _check_streaming(self) -> None:
        if not self._streaming:
            raise _closed_context()

    def _apply(self, name: Any, body: Any) -> PanelRevision:
        declaration, _ = self._board.resolve(self.owner, self.tool_call_id, name)
        self._count(declaration)
        if isinstance(body, dict) and "op" in body:
            problem = _OP.problem(body["op"])
            if problem is not None:
                raise PanelError("panel_invalid", problem, "/op")
            fields, required = _BODIES[body["op"]]
        else:
            fields, required = {"op": anything}, ("op",)
        check_fields(body, fields, required, "", "an update")
        if body["op"] == "replace":

            def make(old: CheckedDocument | None) -> CheckedDocument:
                try:
                    return load_document(body["document"], old)
                except PanelError as exc:
                    raise PanelError(exc.code, exc.message, f"/document{exc.pointer}") from None

            event = PanelEvent.REPLACE
        elif body["op"] == "patch":

            def make(old: CheckedDocument | None) -> CheckedDocument:
                assert old is not None  # noqa: S101  # the table lets no patch through before
                return apply_patches(old, body["patches"])

            event = PanelEvent.PATCH
        else:

            def make(old: CheckedDocument | None) -> CheckedDocument:
                assert old is not None  # noqa: S101  # nor a close
                return old

            event = PanelEvent.CLOSE
        revision = self._board.change(declaration, self, event, make, body.get("base_revision"))
        self._last[revision.id] = revision
        return revision

    def _count(self, declaration: PanelDeclaration) -> None:
        count = self._updates.get(declaration.id, 0) + 1
        if count > MAX_UPDATES:
            raise PanelError("panel_rate_limited", f"a call may update a panel {MAX_UPDATES} times")
        self._updates[declaration.id] = count

    def _note(self, name: Any, exc: PanelError) -> None:
        self._rejected += 1
        if len(self._rejections) < _MAX_REJECTIONS:
            shown = name if isinstance(name, str) else ""
            self._rejections.append(
                PanelRejection(
                    shown[:_MAX_LINE_CHARS],
                    exc.code,
                    exc.message[:_MAX_MESSAGE_CHARS],
                    exc.pointer[:_MAX_MESSAGE_CHARS],
                    self._board.clock(),
                )
            )


_ENVELOPE: Final = ("type", "panel")


def _closed_context() -> PanelError:
    return PanelError("panel_closed_context", "the call that this update belongs to is over")


def _confirmation(revision: PanelRevision) -> str:
    if revision.state == "closed":
        summary = "closed"
    else:
        derived = derive(revision.document)
        summary = derived.summary or revision.document.get("title") or derived.status
    return _line(f"panel {revision.panel} updated (revision {revision.revision}): {summary}")


def _shown_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        return "(unnamed)"
    return name if len(name) <= 80 else f"{name[:79]}…"


def _line(text: str) -> str:
    line = escape_text(text[: _MAX_LINE_CHARS * 2], keep_newlines=False)
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[: _MAX_LINE_CHARS - 1]}…"
