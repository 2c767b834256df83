from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgpack
import pytest

from raw_exec.errors import LocalWireError, RemoteWireError
from raw_exec.values import freeze
from raw_exec.wire import (
    MAX_REQUEST_BYTES,
    NEED_DATA,
    ConnectionState,
    LeftBehind,
    Loaded,
    Progress,
    Ready,
    Request,
    Result,
    WorkerConnection,
)

from .script import CLEAN, LOADED, READY, call, feed, in_state, packed, result

REQUESTS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "wire" / "requests.json").read_text()
)
NOTHING_LEFT = LeftBehind(**CLEAN)


@pytest.mark.parametrize("vector", REQUESTS, ids=lambda vector: vector["name"])
def test_requests_are_the_bytes_of_the_contract(vector: dict[str, Any]) -> None:
    """Contract: one canonical encoding of each request."""
    message = dict(vector["message"])
    kind = message.pop("t")
    states = {
        "load": ConnectionState.READY,
        "abort": ConnectionState.CALLING,
        "reply": ConnectionState.CALLING,
    }
    connection = in_state(states.get(kind, ConnectionState.IDLE))
    if kind in ("abort", "reply"):
        feed(connection, result(1))
        call(connection, 4)
    assert getattr(connection, f"send_{kind}")(**message).hex() == vector["frame"]


def test_a_whole_life_gives_its_events_in_order() -> None:
    """Contract: ready, load, call, result, close."""
    connection = WorkerConnection(10_000)
    assert connection.next_event() is NEED_DATA
    assert feed(connection, READY) == Ready(1, "node", "v20", 1)
    connection.send_load(entry="/x", name="x", kind="handler")
    assert feed(connection, LOADED) == Loaded(("handler", "validateArgs"))
    call(connection, 1)
    assert feed(connection, packed("progress", {"id": 1, "value": 1})) == Progress(1, 1)
    request = {"id": 1, "rid": 7, "method": "m", "params": [1]}
    assert feed(connection, packed("request", request)) == Request(1, 7, "m", [1])
    assert connection.send_reply(id=1, rid=7, ok=True, value=1, error=None)
    assert feed(connection, result(1, {"a": 1})) == Result(1, {"a": 1}, NOTHING_LEFT)
    assert connection.surplus_bytes == 0
    assert connection.send_close()
    connection.closed()
    assert connection.state is ConnectionState.CLOSED


def test_events_come_out_of_bytes_fed_one_at_a_time() -> None:
    """Our choice: no chunk size means anything."""
    connection = WorkerConnection(10_000)
    for byte in READY[:-1]:
        connection.receive_data(bytes([byte]))
        assert connection.next_event() is NEED_DATA
    assert feed(connection, READY[-1:]) == Ready(1, "node", "v20", 1)


def test_the_first_terminal_frame_wins_and_a_second_ends_the_connection() -> None:
    """W04: a forged result, then the real one."""
    connection = in_state(ConnectionState.CALLING)
    connection.receive_data(result(1, "first") + result(1, "second"))
    assert connection.next_event() == Result(1, "first", NOTHING_LEFT)
    assert connection.surplus_bytes > 0
    with pytest.raises(RemoteWireError):
        connection.next_event()
    assert connection.state is ConnectionState.ERROR


def test_a_call_is_never_begun_on_bytes_that_nobody_asked_for() -> None:
    """W21: a frame prepared for the next call is not delivered to it."""
    connection = in_state(ConnectionState.IDLE)
    connection.receive_data(result(1, "prepared"))
    with pytest.raises(RemoteWireError):
        call(connection, 1)
    assert connection.state is ConnectionState.ERROR


@pytest.mark.parametrize("call_id", [0, 2, 2**53 - 1])
def test_a_result_for_another_call_ends_the_connection(call_id: int) -> None:
    """Contract: any frame for an unknown id is a violation."""
    connection = in_state(ConnectionState.CALLING)
    with pytest.raises(RemoteWireError):
        feed(connection, result(call_id))
    assert connection.state is ConnectionState.ERROR


def test_an_error_stays() -> None:
    """Our choice: valid bytes after a violation are not looked at."""
    connection = in_state(ConnectionState.ERROR)
    for _ in range(2):
        with pytest.raises(RemoteWireError):
            feed(connection, result(1))
    assert connection.surplus_bytes < 100


def test_a_flood_of_frames_is_stopped_at_the_cap_and_not_before() -> None:
    """W11: 100,000 tiny valid frames."""
    connection = in_state(ConnectionState.CALLING, max_frames_per_call=3)
    progress = packed("progress", {"id": 1, "value": 0})
    for _ in range(3):
        assert feed(connection, progress) == Progress(1, 0)
    with pytest.raises(RemoteWireError):
        feed(connection, progress)
    assert connection.state is ConnectionState.ERROR


def test_the_cap_counts_per_call() -> None:
    """Our choice: a long-lived worker is not ended by the sum."""
    connection = in_state(ConnectionState.CALLING, max_frames_per_call=1)
    for call_id in (2, 3, 4):
        feed(connection, packed("progress", {"id": call_id - 1, "value": 0}))
        feed(connection, result(call_id - 1))
        call(connection, call_id)
    assert connection.state is ConnectionState.CALLING


def test_an_end_in_the_middle_of_a_frame_says_so() -> None:
    """W09: P10 too, a half result is never a result."""
    connection = in_state(ConnectionState.CALLING)
    connection.receive_data(result(1, "x" * 100)[:50])
    assert connection.next_event() is NEED_DATA
    with pytest.raises(RemoteWireError, match="50 bytes of a frame") as caught:
        connection.closed()
    assert caught.value.code == "worker_closed"


@pytest.mark.parametrize("call_id", [0, 1])
def test_an_id_is_used_once(call_id: int) -> None:
    """Our choice: ids only grow, so a late frame can't match a later call."""
    connection = in_state(ConnectionState.CALLING)
    feed(connection, result(1))
    with pytest.raises(LocalWireError) as caught:
        call(connection, call_id)
    assert (caught.value.code, connection.state) == ("wrong_id", ConnectionState.IDLE)


def test_control_frames_are_for_the_running_call_only() -> None:
    """Our choice: an abort of another call is our own bug."""
    connection = in_state(ConnectionState.CALLING)
    with pytest.raises(LocalWireError):
        connection.send_abort(id=2, reason="x")
    with pytest.raises(LocalWireError):
        connection.send_reply(id=2, rid=1, ok=True, value=None, error=None)
    assert connection.send_abort(id=1, reason="x")


def test_a_function_that_is_not_exported_is_not_asked_for() -> None:
    """Our choice: the exports are known, so this is our own bug."""
    connection = in_state(ConnectionState.IDLE)
    with pytest.raises(LocalWireError) as caught:
        connection.send_describe(id=1, fn="describeEffects", args={}, cwd="/")
    assert (caught.value.code, connection.state) == ("not_exported", ConnectionState.IDLE)


@pytest.mark.parametrize("args", [object(), "\ud800", {"a": {1, 2}}, 2**70])
def test_arguments_that_cannot_be_encoded_raise_and_change_nothing(args: Any) -> None:
    """Our choice: the connection is as usable as before."""
    connection = in_state(ConnectionState.IDLE)
    with pytest.raises(LocalWireError) as caught:
        call(connection, 1, args)
    assert (caught.value.code, connection.state) == ("not_serializable", ConnectionState.IDLE)
    assert call(connection, 1, {"a": 1})


def test_frozen_arguments_are_encoded_like_plain_ones() -> None:
    """Our choice: the object that hooks saw is the one that is sent."""
    arguments = {"a": [1, {"b": "c"}]}
    frame = call(in_state(ConnectionState.IDLE), 1, freeze(arguments))
    assert frame == call(in_state(ConnectionState.IDLE), 1, arguments)
    assert msgpack.unpackb(frame[4:])["args"] == arguments


def test_a_request_beyond_what_a_worker_takes_is_not_sent() -> None:
    """Our choice: the worker would end itself over it."""
    connection = in_state(ConnectionState.IDLE)
    with pytest.raises(LocalWireError) as caught:
        call(connection, 1, "x" * MAX_REQUEST_BYTES)
    assert caught.value.code == "frame_too_large"


def test_a_kind_of_load_that_does_not_exist_is_not_sent() -> None:
    """Contract: handler or descriptor."""
    connection = in_state(ConnectionState.READY)
    with pytest.raises(LocalWireError):
        connection.send_load(entry="/x", name="x", kind="other")
    assert connection.state is ConnectionState.READY


def test_what_is_left_behind_is_named() -> None:
    """Our choice: a reason to retire, memory aside."""
    left = LeftBehind(**{**CLEAN, "timers": 2, "env_changed": 1, "rss_bytes": 5})
    assert left.names == ("timers", "env_changed")
    assert NOTHING_LEFT.names == ()
