"""What a board tells others: a revision for the history, a view for people, a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..manifest import PanelDeclaration
from ..values import FrozenDict, thaw
from .checks import (
    Check,
    Fields,
    anything,
    check_fields,
    code_points,
    integer,
    invalid,
    one_of,
)
from .document import check_document, display_document

__all__ = ["PanelRejection", "PanelRevision", "PanelView", "full_id"]


def full_id(owner: str, panel: str, instance: str | None = None) -> str:
    """Return a panel's full ID: ``<owner>#<panel>``, of a chat panel with ``@<tool call>``."""
    return f"{owner}#{panel}" if instance is None else f"{owner}#{panel}@{instance}"


_NAME = code_points(2048, least=1, one_line=True)


def _instance_problem(value: Any) -> str | None:
    return None if value is None else _NAME.problem(value)


_FIELDS: Fields = {
    "owner": _NAME,
    "panel": _NAME,
    "instance": Check(_instance_problem),
    "revision": integer(1),
    "state": one_of("open", "closed"),
    "document": anything,
    "at": integer(0),
    "tool_call_id": _NAME,
}


@dataclass(frozen=True, slots=True)
class PanelRevision:
    """One accepted state of one panel.

    Args:
        owner: Policy identity of the tool.
        panel: The declared panel id.
        instance: The call that a chat panel belongs to; ``None`` in the sidebar.
        revision: Rises by one with every accepted update; never given twice.
        state: ``open`` or ``closed``.
        document: The document as written; of a closed panel, the last one.
        at: Epoch milliseconds.
        tool_call_id: The call that made this revision.
    """

    owner: str
    panel: str
    instance: str | None
    revision: int
    state: str
    document: FrozenDict
    at: int
    tool_call_id: str

    @property
    def id(self) -> str:
        """The full ID."""
        return full_id(self.owner, self.panel, self.instance)

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data, as a history keeps it."""
        return {name: thaw(getattr(self, name)) for name in _FIELDS}

    @classmethod
    def from_dict(cls, raw: Any) -> PanelRevision:
        """Read what ``as_dict`` returned; a file may have been changed since.

        Raises:
            PanelError: ``panel_invalid`` or ``panel_too_large``.
        """
        check_fields(raw, _FIELDS, tuple(_FIELDS), "", "a revision")
        if type(raw["revision"]) is not int or type(raw["at"]) is not int:
            invalid("revision and time must be integers")
        return cls(**{**raw, "document": check_document(raw["document"])})


@dataclass(frozen=True, slots=True)
class PanelView:
    """A panel as people see it.

    Args:
        declaration: Title, icon, placement and actions.
        latest: The last accepted state.
        committed: Whether that state was settled with its call.
    """

    declaration: PanelDeclaration
    latest: PanelRevision
    committed: bool

    @property
    def id(self) -> str:
        """The full ID."""
        return self.latest.id

    @property
    def owner(self) -> str:
        """Policy identity of the tool."""
        return self.latest.owner

    @property
    def panel(self) -> str:
        """The declared panel id."""
        return self.latest.panel

    @property
    def revision(self) -> int:
        """The last revision."""
        return self.latest.revision

    @property
    def state(self) -> str:
        """``open`` or ``closed``."""
        return self.latest.state

    @property
    def document(self) -> FrozenDict:
        """The last document, as written."""
        return self.latest.document

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data for clients, with derived values filled in."""
        declaration = self.declaration
        actions = []
        for action in declaration.actions:
            shown: Mapping[str, Any] = asdict(action)
            # What an action would do is the host's business: a client names it by its id.
            actions.append({key: value for key, value in shown.items() if key != "body"})
        return {
            "id": self.id,
            "owner": self.owner,
            "panel": self.panel,
            "instance": self.latest.instance,
            "title": declaration.title,
            "icon": declaration.icon,
            "placement": declaration.placement,
            "open": declaration.open,
            "actions": actions,
            "revision": self.revision,
            "state": self.state,
            "committed": self.committed,
            "updated_at": self.latest.at,
            "document": thaw(display_document(self.document)),
        }


@dataclass(frozen=True, slots=True)
class PanelRejection:
    """An update that was refused, for the history."""

    panel: str
    code: str
    message: str
    pointer: str
    at: int
