from __future__ import annotations

import dataclasses
import json
import math
import struct
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.limits import MAX_JSON_DEPTH
from raw_exec.wire import MAX_VALUES, LeftBehind, Message, Result, WorkerFailure
from raw_exec.wire.json_value import Unacceptable, check_value, decode_map
from raw_exec.wire.messages import decode_message

VECTORS = Path(__file__).parents[1] / "vectors" / "wire"


def vectors(name: str) -> list[Any]:
    entries = json.loads((VECTORS / name).read_text())
    return [pytest.param(entry, id=entry["name"]) for entry in entries]


def as_map(kind: str, message: Message) -> dict[str, Any]:
    """Turn a decoded message back into the map it came from."""

    def error_map(error: WorkerFailure) -> dict[str, Any]:
        fields: dict[str, Any] = {
            name: getattr(error, name) for name in ("kind", "name", "message", "stack")
        }
        if error.cause is not None:
            fields["cause"] = error_map(error.cause)
        return fields

    fields: dict[str, Any] = {"t": kind}
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if isinstance(value, WorkerFailure):
            value = error_map(value)
        elif isinstance(value, LeftBehind):
            value = dataclasses.asdict(value)
        elif isinstance(value, tuple):
            value = list(value)
        fields[field.name] = value
    return fields


def result_body(value: bytes) -> bytes:
    state = dict.fromkeys((field.name for field in dataclasses.fields(LeftBehind)), 0)
    head = b"\x84" + b"".join(map(msgpack.packb, ["t", "result", "id", 1, "value"]))
    packed: bytes = msgpack.packb("state") + msgpack.packb(state)
    return head + value + packed


@pytest.mark.parametrize("vector", vectors("replies.json"))
def test_every_message_of_a_worker_is_decoded_whole(vector: dict[str, Any]) -> None:
    """Contract: nothing is lost and nothing added."""
    kind, message = decode_message(bytes.fromhex(vector["body"]))
    assert as_map(kind, message) == vector["message"]


@pytest.mark.parametrize("vector", vectors("must_reject.json"))
def test_what_the_protocol_does_not_allow_is_rejected(vector: dict[str, Any]) -> None:
    """W12 to W16: strict decode; never a default, never a guess."""
    with pytest.raises(Unacceptable):
        decode_message(bytes.fromhex(vector["body"]))


@pytest.mark.parametrize("vector", vectors("replies.json"))
def test_a_message_cut_anywhere_is_rejected(vector: dict[str, Any]) -> None:
    """Our choice: a prefix of a message is not a message."""
    body = bytes.fromhex(vector["body"])
    for end in range(len(body)):
        with pytest.raises(Unacceptable):
            decode_message(body[:end])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_unacceptable(body: bytes) -> None:
    """Fuzz rule: accepted, or the one documented error."""
    try:
        decode_message(body)
    except Unacceptable:
        pass


_scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20)
_values = st.recursive(
    _scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


@given(_values)
def test_any_json_value_survives(value: Any) -> None:
    """Contract: a result is JSON data, and arrives as it was sent."""
    _, message = decode_message(result_body(msgpack.packb(value)))
    assert isinstance(message, Result)
    assert message.value == value


@given(_values, st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_is_accepted_or_unacceptable(value: Any, index: int, byte: int) -> None:
    """Fuzz rule, near valid input."""
    body = bytearray(result_body(msgpack.packb(value)))
    body[index % len(body)] = byte
    try:
        decode_message(bytes(body))
    except Unacceptable:
        pass


def test_values_up_to_the_limit_are_accepted_and_one_more_is_not() -> None:
    """V13: our choice of limit."""
    check_value([0] * (MAX_VALUES - 1))
    with pytest.raises(Unacceptable):
        check_value([0] * MAX_VALUES)


def test_depth_up_to_the_limit_is_accepted_and_one_more_is_not() -> None:
    """V13: 64 containers, as everywhere in this package."""
    value: Any = 1
    for _ in range(MAX_JSON_DEPTH):
        value = {"a": value}
    check_value(value)
    with pytest.raises(Unacceptable):
        check_value([value])


@pytest.mark.parametrize("number", [math.nan, math.inf, 2**53, -(2**53)])
def test_a_number_that_json_cannot_hold_is_named(number: float) -> None:
    """W14: rejected by rule."""
    with pytest.raises(Unacceptable):
        check_value({"a": [number]})


@pytest.mark.parametrize("filler", [b"\x80", b"\x90"])
def test_a_bomb_of_empty_containers_is_stopped_while_decoding(filler: bytes) -> None:
    """Our choice: memory is bounded by count, not by what a byte can stand for."""
    part = b"\xdc\xff\xff" + filler * 65535
    with pytest.raises(Unacceptable, match="more than"):
        decode_map(result_body(b"\x9f" + part * 15))


def test_headers_that_promise_more_than_follows_reserve_nothing_much() -> None:
    """W07, inside a body: a thousand nested promises are refused."""
    promise = b"\xdd" + struct.pack(">I", MAX_VALUES)
    with pytest.raises(Unacceptable):
        decode_map(result_body(promise * 900))
