"""The state machine of a panel with its table, and the codes of refused updates.

Rules
1. Every pair of state and event is in the table: it leads to a state, or names the code of
   the refusal. A refusal changes nothing.
2. Only ``replace`` gives a panel data. A closed panel is opened again by ``replace`` alone.
3. Room is made by panels that nobody updates any more: closed ones, and chat panels whose
   call has its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final

from .errors import PanelError

__all__ = ["PANEL_CODES", "TRANSITIONS", "PanelEvent", "PanelState", "next_state"]

PANEL_CODES: Final = (
    "panel_invalid",
    "panel_too_large",
    "panel_undeclared",
    "panel_not_owned",
    "panel_unknown",
    "panel_revision_conflict",
    "panel_rate_limited",
    "panel_limit",
    "panel_closed_context",
)
"""Every code of the contract (seed 1, "Errors")."""


class PanelState(StrEnum):
    """Where a panel is."""

    ABSENT = "absent"
    """Declared, and without data."""
    OPEN = "open"
    CLOSED = "closed"
    """Its tool closed it; the last document is kept until room is needed."""
    SETTLED = "settled"
    """A chat panel whose call has its result: shown, and final."""


class PanelEvent(Enum):
    """What happens to a panel."""

    REPLACE = "replaced"
    PATCH = "patched"
    CLOSE = "closed"
    SETTLE = "settled with the call it belongs to"
    EVICT = "evicted to make room"


_S = PanelState
_E = PanelEvent

TRANSITIONS: Mapping[PanelState, Mapping[PanelEvent, PanelState | str]] = {
    _S.ABSENT: {
        _E.REPLACE: _S.OPEN,
        _E.PATCH: "panel_unknown",
        _E.CLOSE: "panel_unknown",
        _E.SETTLE: _S.ABSENT,
        _E.EVICT: "panel_unknown",
    },
    _S.OPEN: {
        _E.REPLACE: _S.OPEN,
        _E.PATCH: _S.OPEN,
        _E.CLOSE: _S.CLOSED,
        _E.SETTLE: _S.SETTLED,
        _E.EVICT: "panel_limit",
    },
    _S.CLOSED: {
        _E.REPLACE: _S.OPEN,
        _E.PATCH: "panel_unknown",
        _E.CLOSE: "panel_unknown",
        _E.SETTLE: _S.CLOSED,
        _E.EVICT: _S.ABSENT,
    },
    _S.SETTLED: {
        _E.REPLACE: "panel_closed_context",
        _E.PATCH: "panel_closed_context",
        _E.CLOSE: "panel_closed_context",
        _E.SETTLE: _S.SETTLED,
        _E.EVICT: _S.ABSENT,
    },
}

_WHY: Final = {
    _S.ABSENT: "has no data yet; replace comes first",
    _S.OPEN: "is open",
    _S.CLOSED: "is closed; replace opens it again",
    _S.SETTLED: "belongs to a call that has its result",
}


def next_state(state: PanelState, event: PanelEvent) -> PanelState:
    """Return where an event leads.

    Raises:
        PanelError: Nowhere; the code is the table's.
    """
    target = TRANSITIONS[state][event]
    if isinstance(target, PanelState):
        return target
    raise PanelError(target, f"the panel can't be {event.value}: it {_WHY[state]}")
