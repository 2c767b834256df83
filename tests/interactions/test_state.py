"""The state machine of a question, walked whole."""

from __future__ import annotations

import itertools

import pytest

from raw_exec.interactions import (
    TRANSITIONS,
    InteractionError,
    InteractionEvent,
    InteractionState,
    next_state,
)
from raw_exec.interactions.errors import FAILURES
from raw_exec.interactions.state import SETTLED

S, E = InteractionState, InteractionEvent
LEGAL = {
    (S.PENDING, E.ANSWER): S.ANSWERED,
    (S.PENDING, E.BAD_ANSWER): S.PENDING,
    (S.PENDING, E.CANCEL): S.CANCELLED,
    (S.PENDING, E.DEADLINE): S.EXPIRED,
    (S.PENDING, E.INTERRUPT): S.INTERRUPTED,
    (S.PENDING, E.RECONNECT): S.PENDING,
    (S.ANSWERED, E.REPLAY): S.ANSWERED,
    (S.CANCELLED, E.REPLAY): S.CANCELLED,
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(S, E)))
def test_every_pair_leads_where_the_contract_says_or_is_refused(state: S, event: E) -> None:
    """Contract: five states, and only a pending question changes."""
    if (state, event) in LEGAL:
        assert next_state(state, event) is LEGAL[state, event]
        return
    with pytest.raises(InteractionError) as caught:
        next_state(state, event)
    assert caught.value.code == f"interaction_{state}"


def test_the_table_has_a_row_for_every_state() -> None:
    """A state that was forgotten would look like one that refuses everything."""
    assert set(TRANSITIONS) == set(S)
    assert set(S) - SETTLED == {S.PENDING}


def test_every_settled_state_has_its_code() -> None:
    """What a tool and a late answer are told."""
    assert {f"interaction_{state}" for state in SETTLED} <= set(FAILURES)
