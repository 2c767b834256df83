"""The state machine of a job: its table, walked whole."""

from __future__ import annotations

import itertools

import pytest

from raw_exec.errors import InternalError
from raw_exec.jobs import FINISHED, TRANSITIONS, JobEvent, JobState
from raw_exec.jobs.state import next_state

PAIRS = list(itertools.product(JobState, JobEvent))


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=lambda part: part.name)
def test_every_pair_leads_where_the_table_says_or_is_an_error(
    state: JobState, event: JobEvent
) -> None:
    """A missing pair is a bug of ours and never a silent no-op."""
    expected = TRANSITIONS[state].get(event)
    if expected is None:
        with pytest.raises(InternalError, match=event.name):
            next_state(state, event)
    else:
        assert next_state(state, event) is expected


def test_the_states_are_those_of_the_contract() -> None:
    """Contract: eight states, by these words."""
    assert [str(state) for state in JobState] == [
        *("starting", "running", "stopping"),
        *("exited", "failed", "stopped", "timed_out", "lost"),
    ]
    assert set(TRANSITIONS) == set(JobState)


def test_a_final_state_is_left_by_nothing() -> None:
    """Asking for an end is all that can happen there, and changes nothing."""
    for state in FINISHED:
        assert TRANSITIONS[state] == {JobEvent.END_ASKED: state}


def test_every_state_is_reached_from_the_first() -> None:
    """A state that nothing leads to would be a word without a meaning."""
    seen = {JobState.STARTING}
    frontier = [JobState.STARTING]
    while frontier:
        for state in TRANSITIONS[frontier.pop()].values():
            if state not in seen:
                seen.add(state)
                frontier.append(state)
    assert seen == set(JobState)


def test_every_live_state_can_be_ended() -> None:
    """A job is never in a state in which stopping it is an error."""
    for state in set(JobState) - FINISHED:
        assert TRANSITIONS[state][JobEvent.END_ASKED] is JobState.STOPPING
