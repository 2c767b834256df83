"""The state machine of a question.

Rules
1. Every transition is in the table below and nowhere else; a pair that is missing is refused.
2. Only ``pending`` leads anywhere. Which of several things that happen at the same instant
   counts is decided by the history: it changes the state in one transaction.
3. Sending an accepted submission again changes nothing, whatever the state it led to.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final

from .errors import InteractionError

__all__ = ["SETTLED", "TRANSITIONS", "InteractionEvent", "InteractionState", "next_state"]


class InteractionState(StrEnum):
    """Where a question is (seed 1, "Interaction requests")."""

    PENDING = "pending"
    ANSWERED = "answered"
    CANCELLED = "cancelled"
    """By the person, or since the call was given up."""
    EXPIRED = "expired"
    INTERRUPTED = "interrupted"
    """The host, or what was asking the person, ended first."""


class InteractionEvent(Enum):
    """What happens to a question."""

    ANSWER = "a valid answer arrives"
    BAD_ANSWER = "an answer arrives that does not fit the form or the budget"
    CANCEL = "the person declines, or the call is given up"
    DEADLINE = "its time is over"
    INTERRUPT = "the host ends, or nobody can be asked any more"
    RECONNECT = "a page that showed it comes back"
    REPLAY = "an accepted submission is sent again"


_S = InteractionState
_E = InteractionEvent

TRANSITIONS: Final[Mapping[InteractionState, Mapping[InteractionEvent, InteractionState]]] = {
    _S.PENDING: {
        _E.ANSWER: _S.ANSWERED,
        _E.BAD_ANSWER: _S.PENDING,
        _E.CANCEL: _S.CANCELLED,
        _E.DEADLINE: _S.EXPIRED,
        _E.INTERRUPT: _S.INTERRUPTED,
        _E.RECONNECT: _S.PENDING,
    },
    _S.ANSWERED: {_E.REPLAY: _S.ANSWERED},
    _S.CANCELLED: {_E.REPLAY: _S.CANCELLED},
    _S.EXPIRED: {},
    _S.INTERRUPTED: {},
}

SETTLED: Final = frozenset(state for state in _S if state is not _S.PENDING)


def next_state(state: InteractionState, event: InteractionEvent) -> InteractionState:
    """Return where an event leads.

    Raises:
        InteractionError: Nowhere; the code is ``interaction_`` and the state.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise InteractionError(
            f"interaction_{state}", f"the question is {state}; {event.value} too late"
        ) from None
