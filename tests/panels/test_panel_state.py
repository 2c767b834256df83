"""The state machine of a panel: its table, walked whole, also through the board."""

from __future__ import annotations

import itertools

import pytest
from panels.boards import OWNER, call, make_board, replace, todo

from raw_exec.panels import PANEL_CODES, PanelError, PanelEvent, PanelState
from raw_exec.panels.board import PanelBoard
from raw_exec.panels.state import TRANSITIONS, next_state

PAIRS = list(itertools.product(PanelState, PanelEvent))


def test_every_state_has_an_answer_to_every_event() -> None:
    """A pair that is missing would be a KeyError in the middle of a call."""
    assert set(TRANSITIONS) == set(PanelState)
    assert all(set(row) == set(PanelEvent) for row in TRANSITIONS.values())


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=lambda part: part.name)
def test_every_pair_leads_where_the_table_says_or_is_a_code_of_the_contract(
    state: PanelState, event: PanelEvent
) -> None:
    """Contract: nine codes and no other."""
    expected = TRANSITIONS[state][event]
    if isinstance(expected, PanelState):
        assert next_state(state, event) is expected
    else:
        assert expected in PANEL_CODES
        with pytest.raises(PanelError) as caught:
            next_state(state, event)
        assert caught.value.code == expected


def test_every_state_is_reached_from_absent() -> None:
    """A state that nothing leads to would be a word without a meaning."""
    seen, frontier = {PanelState.ABSENT}, [PanelState.ABSENT]
    while frontier:
        for target in TRANSITIONS[frontier.pop()].values():
            if isinstance(target, PanelState) and target not in seen:
                seen.add(target)
                frontier.append(target)
    assert seen == set(PanelState)


def _bring_to(board: PanelBoard, state: PanelState, panel: str) -> None:
    if state is PanelState.ABSENT:
        return
    maker = call(board)
    maker.update(panel, replace(todo()))
    if state is PanelState.CLOSED:
        maker.update(panel, {"op": "close"})
    maker.settle()


BODIES = {
    PanelEvent.REPLACE: replace(todo(("t1", "done"))),
    PanelEvent.PATCH: {"op": "patch", "patches": [{"op": "set", "field": "title", "value": "x"}]},
    PanelEvent.CLOSE: {"op": "close"},
}
UPDATES = list(itertools.product(PanelState, BODIES))


@pytest.mark.parametrize(("state", "event"), UPDATES, ids=lambda part: part.name)
def test_the_board_does_what_the_table_says(state: PanelState, event: PanelEvent) -> None:
    """The table is what runs, not a drawing of it; a refusal leaves the board as it was."""
    # A chat panel that its call left open is settled; a second call of that id finds it so.
    panel = "inline" if state is PanelState.SETTLED else "todo"
    board, _ = make_board()
    _bring_to(board, state, panel)
    before = board.views()
    expected = TRANSITIONS[state][event]
    if not isinstance(expected, PanelState):
        with pytest.raises(PanelError) as caught:
            call(board).update(panel, BODIES[event])
        assert caught.value.code == expected
        assert board.views() == before
    else:
        last = before[0].revision if before else 0
        assert call(board).update(panel, BODIES[event]) == last + 1
        view = board.view(f"{OWNER}#todo")
        assert view.state == ("closed" if expected is PanelState.CLOSED else "open")
