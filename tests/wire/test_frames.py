from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.errors import LocalWireError, RemoteWireError
from raw_exec.wire.frames import FrameReader, frame


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(body)) + body for body in bodies)


def read_all(reader: FrameReader) -> list[bytes]:
    bodies = []
    while (body := reader.next_frame()) is not None:
        bodies.append(bytes(body))
    return bodies


def test_a_frame_in_one_read_comes_out_whole() -> None:
    """Our choice: the usual read is not copied."""
    reader = FrameReader(100)
    reader.feed(framed(b"hello"))
    assert read_all(reader) == [b"hello"]
    assert (reader.buffered_bytes, reader.offset) == (0, 9)


def test_a_frame_fed_byte_by_byte_comes_out_whole() -> None:
    """Our choice: no chunk size means anything."""
    reader = FrameReader(100)
    bodies = []
    for byte in framed(b"hello", b"x"):
        reader.feed(bytes([byte]))
        bodies += read_all(reader)
    assert bodies == [b"hello", b"x"]


def test_bytes_after_a_frame_stay_for_the_next() -> None:
    """Our choice: what follows a frame is kept and counted."""
    reader = FrameReader(100)
    reader.feed(framed(b"hello") + b"\x00\x00")
    assert read_all(reader) == [b"hello"]
    assert reader.buffered_bytes == 2
    reader.feed(b"\x00\x01z")
    assert read_all(reader) == [b"z"]


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=8), st.data())
def test_any_cutting_gives_the_same_frames(bodies: list[bytes], data: st.DataObject) -> None:
    """Our choice: feeding is associative."""
    stream = framed(*bodies)
    reader = FrameReader(1000)
    read = []
    position = 0
    while position < len(stream):
        size = data.draw(st.integers(1, max(1, len(stream) - position)))
        reader.feed(stream[position : position + size])
        position += size
        read += read_all(reader)
    assert read == bodies
    assert reader.offset == len(stream)


def test_a_frame_of_exactly_the_limit_is_accepted_and_one_byte_more_is_not() -> None:
    """W08: the limit is inclusive."""
    reader = FrameReader(5)
    reader.feed(framed(b"12345"))
    assert read_all(reader) == [b"12345"]
    reader.feed(struct.pack(">I", 6))
    with pytest.raises(RemoteWireError) as caught:
        reader.next_frame()
    assert caught.value.code == "protocol_violation"


@pytest.mark.parametrize("length", [0, 101, 2**31, 2**32 - 1])
def test_an_impossible_length_is_rejected_before_the_body_is_read(length: int) -> None:
    """W07: four bytes are enough to refuse."""
    reader = FrameReader(100)
    reader.feed(struct.pack(">I", length))
    with pytest.raises(RemoteWireError) as caught:
        reader.next_frame()
    assert caught.value.where == "frame at byte 0 of the worker's replies"


def test_the_offset_of_a_bad_frame_is_named() -> None:
    """Our choice: errors point into the stream."""
    reader = FrameReader(100)
    reader.feed(framed(b"12345") + b"\xff\xff\xff\xff")
    assert bytes(reader.next_frame() or b"") == b"12345"
    with pytest.raises(RemoteWireError) as caught:
        reader.next_frame()
    assert caught.value.where == "frame at byte 9 of the worker's replies"


def test_an_empty_body_cannot_be_sent() -> None:
    """Contract: a length of 0 is invalid, so it is our bug to make one."""
    with pytest.raises(LocalWireError):
        frame(b"")
    assert frame(b"x") == b"\x00\x00\x00\x01x"
