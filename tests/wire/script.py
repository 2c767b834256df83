"""Worker frames, and connections brought into any state with them."""

from __future__ import annotations

import struct
from typing import Any

import msgpack

from raw_exec.wire import ConnectionState, WorkerConnection

CLEAN = dict.fromkeys(
    (
        *("timers", "handles", "listeners", "threads", "children", "fds", "rss_bytes"),
        *("env_changed", "cwd_changed", "builtins_changed"),
    ),
    0,
)
ERROR = {"kind": "threw", "name": "Error", "message": "no", "stack": ""}


def packed(kind: str, fields: dict[str, Any]) -> bytes:
    """Return one frame of a worker."""
    body: bytes = msgpack.packb({"t": kind, **fields})
    return struct.pack(">I", len(body)) + body


READY = packed("ready", {"version": 1, "runtime": "node", "runtime_version": "v20", "pid": 1})
LOADED = packed("loaded", {"exports": ["handler", "validateArgs"]})


def result(call_id: int, value: Any = None) -> bytes:
    """Return a clean result frame."""
    return packed("result", {"id": call_id, "value": value, "state": CLEAN})


def feed(connection: WorkerConnection, data: bytes) -> Any:
    """Feed one frame and return its event."""
    connection.receive_data(data)
    return connection.next_event()


def call(connection: WorkerConnection, call_id: int, args: Any = None) -> bytes:
    """Send a call with defaults."""
    return connection.send_call(
        id=call_id,
        args=args,
        cwd="/",
        tool_call_id="c",
        max_output_bytes=1000,
        result_bytes=1000,
        scratch="/",
    )


def in_state(state: ConnectionState, **options: Any) -> WorkerConnection:
    """Return a connection in ``state``; where an id is under way, it is 1."""
    connection = WorkerConnection(options.pop("max_frame_bytes", 10_000), **options)
    if state is ConnectionState.STARTING:
        return connection
    feed(connection, READY)
    match state:
        case ConnectionState.WARMING:
            connection.send_ping(id=1)
        case ConnectionState.CLOSING | ConnectionState.CLOSED:
            connection.send_close()
            if state is ConnectionState.CLOSED:
                connection.closed()
        case ConnectionState.ERROR:
            connection.receive_data(b"\x00\x00\x00\x00")
            try:
                connection.next_event()
            except Exception:
                pass
        case ConnectionState.READY:
            pass
        case _:
            connection.send_load(entry="/x", name="x", kind="handler")
            if state is ConnectionState.UNUSABLE:
                feed(connection, packed("load_failed", {"error": {**ERROR, "kind": "bad_export"}}))
            elif state is not ConnectionState.LOADING:
                feed(connection, LOADED)
            if state is ConnectionState.CALLING:
                call(connection, 1)
            elif state is ConnectionState.DESCRIBING:
                connection.send_describe(id=1, fn="validateArgs", args={}, cwd="/")
            elif state is ConnectionState.PINGING:
                connection.send_ping(id=1)
    assert connection.state is state
    return connection
