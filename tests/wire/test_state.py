from __future__ import annotations

from typing import Any

import pytest

from raw_exec.errors import LocalWireError, RemoteWireError
from raw_exec.wire import (
    SUPERVISOR,
    WORKER,
    ConnectionState,
    WorkerConnection,
    WorkerState,
)

from .script import CLEAN, ERROR, in_state, packed

REPLIES: dict[str, dict[str, Any]] = {
    "ready": {"version": 1, "runtime": "node", "runtime_version": "v20", "pid": 1},
    "loaded": {"exports": ["handler"]},
    "load_failed": {"error": {**ERROR, "kind": "import_failed"}},
    "result": {"id": 1, "value": None, "state": CLEAN},
    "failed": {"id": 1, "error": ERROR, "state": CLEAN},
    "described": {"id": 1, "value": None},
    "request": {"id": 1, "rid": 1, "method": "x", "params": None},
    "progress": {"id": 1, "value": None},
    "pong": {"id": 1},
}

CALL = {
    "args": {},
    "cwd": "/",
    "tool_call_id": "c",
    "max_output_bytes": 1,
    "result_bytes": 1,
    "scratch": "/",
}
SENDS: dict[str, dict[str, Any]] = {
    "send_load": {"entry": "/x", "name": "x", "kind": "handler"},
    "send_call": {"id": 2, **CALL},
    "send_describe": {"id": 2, "fn": "validateArgs", "args": {}, "cwd": "/"},
    "send_ping": {"id": 2},
    "send_close": {},
    "send_abort": {"id": 1, "reason": "x"},
    "send_reply": {"id": 1, "rid": 1, "ok": True, "value": None, "error": None},
}


@pytest.mark.parametrize("state", ConnectionState)
@pytest.mark.parametrize("kind", REPLIES)
def test_a_message_moves_the_connection_only_where_the_table_says(
    state: ConnectionState, kind: str
) -> None:
    """Our choice: a missing pair is the worker's fault, and ends the connection."""
    connection = in_state(state)
    connection.receive_data(packed(kind, REPLIES[kind]))
    after = SUPERVISOR[state].get(kind)
    if after is None:
        with pytest.raises(RemoteWireError):
            connection.next_event()
        assert connection.state is ConnectionState.ERROR
    else:
        connection.next_event()
        assert connection.state is after


@pytest.mark.parametrize("state", ConnectionState)
@pytest.mark.parametrize("event", SENDS)
def test_a_send_that_is_not_allowed_raises_and_changes_nothing(
    state: ConnectionState, event: str
) -> None:
    """Our choice: a missing pair is our own fault."""
    connection = in_state(state)
    send = getattr(connection, event)
    after = SUPERVISOR[state].get(event)
    if after is None:
        with pytest.raises(LocalWireError) as caught:
            send(**SENDS[event])
        assert caught.value.code == "wrong_state"
        assert connection.state is state
    else:
        assert send(**SENDS[event])
        assert connection.state is after


@pytest.mark.parametrize("state", ConnectionState)
def test_the_end_of_the_pipe_is_an_error_unless_it_was_asked_for(state: ConnectionState) -> None:
    """W09, W18: a worker that closes its replies has failed."""
    connection = in_state(state)
    after = SUPERVISOR[state].get("closed")
    if after is None:
        with pytest.raises(RemoteWireError) as caught:
            connection.closed()
        assert caught.value.code == "worker_closed"
        assert connection.state is ConnectionState.ERROR
    else:
        connection.closed()
        assert connection.state is after


def test_nothing_leads_out_of_error() -> None:
    """Our choice: a half-parsed stream is never resumed."""
    assert set(SUPERVISOR[ConnectionState.ERROR].values()) == {ConnectionState.ERROR}


def test_every_state_has_a_row_and_can_be_reached() -> None:
    """Invariant of both tables."""
    assert set(SUPERVISOR) == set(ConnectionState)
    assert set(WORKER) == set(WorkerState)
    reached = {after for row in SUPERVISOR.values() for after in row.values()}
    assert reached == set(ConnectionState) - {ConnectionState.STARTING}
    reached_worker = {after for row in WORKER.values() for after in row.values()}
    assert reached_worker == set(WorkerState) - {WorkerState.STARTED}


def test_each_side_reads_what_the_other_may_write() -> None:
    """Invariant: the tables are two views of one protocol."""
    supervisor = {event for row in SUPERVISOR.values() for event in row}
    worker = {event for row in WORKER.values() for event in row}
    assert {e.removeprefix("send_") for e in worker if e.startswith("send_")} == {
        e for e in supervisor if not e.startswith("send_") and e != "closed"
    }
    assert {e.removeprefix("send_") for e in supervisor if e.startswith("send_")} == {
        e for e in worker if not e.startswith("send_") and e != "closed"
    }


def test_a_fresh_connection_waits_for_ready() -> None:
    """W06: nothing else may come first."""
    assert WorkerConnection(100).state is ConnectionState.STARTING
