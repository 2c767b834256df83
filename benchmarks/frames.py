"""The supervisor's side of the wire: a call to bytes, bytes to a checked result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgpack

from raw_exec.wire import FrameReader, Result, WorkerConnection

from .claims import Bench, BenchmarkFailed, Claim
from .measure import Contestant, batched, interleave_into
from .payload import text_of_a_mib
from .report import Goal, Section
from .workspace import ARGUMENTS

BASE = "msgpack alone, a small call out and back"
_LIMIT = 32 * 1024 * 1024
_STATE = {
    "timers": 0,
    "handles": 0,
    "listeners": 0,
    "threads": 0,
    "children": 0,
    "fds": 0,
    "rss_bytes": 1,
    "env_changed": 0,
    "cwd_changed": 0,
    "builtins_changed": 0,
}


def _framed(message: dict[str, Any]) -> bytes:
    body: bytes = msgpack.packb(message)
    return len(body).to_bytes(4, "big") + body


def _answer(call_id: int, text: str) -> dict[str, Any]:
    value = {"content": [{"type": "text", "text": text}]}
    return {"t": "result", "id": call_id, "value": value, "state": _STATE}


def _connection() -> WorkerConnection:
    wire = WorkerConnection(max_frame_bytes=_LIMIT)
    ready = {
        "t": "ready",
        "version": 1,
        "runtime": "node",
        "runtime_version": "v20.0.0",
        "pid": 7,
    }
    wire.receive_data(_framed(ready))
    wire.next_event()
    wire.send_load(entry="/index.mjs", name="agent/plain", kind="handler")
    wire.receive_data(_framed({"t": "loaded", "exports": ["handler"]}))
    wire.next_event()
    return wire


def _exchange(arguments: Mapping[str, Any]) -> Callable[[], None]:
    """Return one call out and its result in, over a connection of its own."""
    wire = _connection()
    text = arguments["text"]
    # A frame of 0 bytes of text shows where the id is; only the id differs between calls.
    template = bytearray(_framed(_answer(0x7FFF_FFFF, text)))
    place = template.index(b"\xce\x7f\xff\xff\xff") + 1
    last = 0

    def run() -> None:
        nonlocal last
        last += 1
        wire.send_call(
            id=last,
            args=arguments,
            cwd="/workspace",
            tool_call_id="call_0123456789abcdef",
            max_output_bytes=8192,
            result_bytes=_LIMIT,
            scratch="/scratch",
        )
        template[place : place + 4] = last.to_bytes(4, "big")
        wire.receive_data(bytes(template))
        event = wire.next_event()
        if type(event) is not Result:
            raise BenchmarkFailed(f"the connection gave {event!r:.200}")

    return run


def _bare(arguments: Mapping[str, Any]) -> Callable[[], None]:
    answer = msgpack.packb(_answer(0x7FFF_FFFF, arguments["text"]))

    def run() -> None:
        msgpack.packb({"t": "call", "id": 1, "args": arguments, "cwd": "/workspace"})
        msgpack.unpackb(answer)

    return run


def _cut_frames() -> Callable[[], None]:
    reader = FrameReader(_LIMIT)
    data = _framed(_answer(1, "hello")) * 16

    def run() -> None:
        reader.feed(data)
        while reader.next_frame() is not None:
            pass

    return run


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    large = {"text": text_of_a_mib("The quick brown fox jumps over the lazy dog again.\n")}
    contestants = [
        Contestant(BASE, batched(_bare(ARGUMENTS), 50)),
        Contestant("connection, a small call out and back", batched(_exchange(ARGUMENTS), 50)),
        Contestant("frame reader, 16 small frames", batched(_cut_frames(), 50)),
        Contestant("msgpack alone, 1 MiB out and back", batched(_bare(large), 1)),
        Contestant("connection, 1 MiB out and back", batched(_exchange(large), 1)),
    ]
    await interleave_into(
        section,
        contestants,
        rounds=bench.round_count(20, 8),
        calls=bench.size(20, 10),
        warm_up=2,
        scale=1e6,
    )
    section.notes.append("no I/O; the connection also checks every field of every message")


def judge(section: Section) -> list[Goal]:
    """There is no promise about this part alone."""
    return []


CLAIM = Claim("frames", "Frames, the supervisor's side", "us", BASE, run, judge)
