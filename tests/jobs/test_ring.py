"""Output cursors: absolute, lossless, between characters."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from raw_exec.jobs import JobError, OutputRing, Page
from raw_exec.jobs.ring import MIN_PAGE_BYTES

TEXTS = st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))
ANY = st.one_of(TEXTS, st.binary(max_size=200))
SIZES = st.integers(MIN_PAGE_BYTES, 300)


def shown(data: bytes) -> str:
    """Decode as pages do: U+FFFD for each byte that is not UTF-8."""
    text = data.decode("utf-8", "surrogateescape")
    return "".join("\ufffd" if "\udc80" <= char <= "\udcff" else char for char in text)


def page(ring: OutputRing, cursor: int = 0, size: int = 65536, **options: object) -> Page:
    encoded = options.get("encoded", 10**9)
    assert isinstance(encoded, int)
    finished = bool(options.get("finished", True))
    return ring.page(cursor, max_bytes=size, max_encoded_bytes=encoded, finished=finished)


def test_a_page_says_where_it_is_and_where_to_go_on() -> None:
    """Contract: cursors count bytes from the first one."""
    ring = OutputRing(100)
    ring.append(b"hello world, and more")
    assert page(ring, 6, 16) == Page(6, 21, 21, 0, "world, and more", True)
    assert page(ring, 21) == Page(21, 21, 21, 0, "", True)


def test_what_is_dropped_is_counted_and_the_rest_goes_on_behind_it() -> None:
    """Contract: the recent output is kept, dropped bytes are reported."""
    ring = OutputRing(10)
    ring.append(b"0123456789")
    ring.append(b"abcde")
    assert page(ring, 2) == Page(5, 15, 15, 3, "56789abcde", True)
    assert page(ring, 7) == Page(7, 15, 15, 0, "789abcde", True)


def test_a_cursor_beyond_the_end_is_an_error() -> None:
    """It can't come from a page, so it is a mistake of the caller."""
    ring = OutputRing(10)
    ring.append(b"abc")
    with pytest.raises(JobError, match="beyond the 3 bytes") as caught:
        page(ring, 4)
    assert caught.value.code == "cursor_invalid"


@pytest.mark.parametrize(("finished", "text", "end"), [(False, "a", 1), (True, "a\ufffd\ufffd", 3)])
def test_half_a_character_waits_unless_nothing_will_follow(
    finished: bool, text: str, end: int
) -> None:
    """A program may be in the middle of writing it."""
    ring = OutputRing(10)
    ring.append("a€".encode()[:3])
    assert (page(ring, finished=finished).text, page(ring, finished=finished).next_cursor) == (
        text,
        end,
    )
    ring.append("a€".encode()[3:])
    assert page(ring, 1, finished=finished).text == "€"


def test_a_cursor_inside_of_a_character_means_its_start() -> None:
    """A page never begins with a part of a character."""
    ring = OutputRing(100)
    ring.append("a€b".encode())
    assert [page(ring, cursor).cursor for cursor in range(6)] == [0, 1, 1, 1, 4, 5]


def test_the_rest_of_a_dropped_character_is_dropped_too() -> None:
    """It would be shown as garbage that the program never printed."""
    ring = OutputRing(5)
    ring.append("€€".encode())
    assert page(ring) == Page(3, 6, 6, 3, "€", True)


@given(chunks=st.lists(ANY, max_size=8), size=SIZES, encoded=SIZES)
@example(chunks=[b"\xe2\x82", b"A" * 20], size=16, encoded=16)
@example(chunks=[b"\x00" * 40], size=16, encoded=16)
def test_pages_joined_are_the_whole_output(chunks: list[bytes], size: int, encoded: int) -> None:
    """Property: nothing lost, nothing twice, every page within both bounds and going on."""
    ring = OutputRing(10**6)
    for chunk in chunks:
        ring.append(chunk)
    data = b"".join(chunks)
    texts, cursor = [], 0
    while True:
        got = page(ring, cursor, size, encoded=encoded)
        assert (got.cursor, got.dropped_bytes, got.end) == (cursor, 0, len(data))
        assert got.next_cursor - got.cursor <= size
        assert len(json.dumps(got.text, ensure_ascii=False).encode()) - 2 <= encoded
        if got.next_cursor == len(data):
            texts.append(got.text)
            break
        assert got.next_cursor > cursor
        cursor = got.next_cursor
        texts.append(got.text)
    assert "".join(texts) == shown(data)


@given(text=st.text(max_size=120), size=SIZES, keep=st.integers(4, 60))
def test_pages_of_a_text_are_texts_whatever_was_dropped(text: str, size: int, keep: int) -> None:
    """Property: a program that prints UTF-8 is never shown with a broken character."""
    data = text.encode("utf-8", "replace")
    ring = OutputRing(keep)
    cursor = dropped = 0
    out = ""
    for at in range(0, len(data) + 7, 7):
        ring.append(data[at : at + 7])
        got = page(ring, cursor, size, finished=at + 7 > len(data))
        assert got.is_utf8
        assert got.cursor == cursor + got.dropped_bytes
        assert data[got.cursor : got.next_cursor].decode() == got.text
        cursor, dropped, out = got.next_cursor, dropped + got.dropped_bytes, out + got.text
    assert cursor <= len(data)
    assert len(out.encode()) + dropped == cursor


@given(chunks=st.lists(st.binary(max_size=50), max_size=30), keep=st.integers(1, 40))
def test_the_ring_keeps_exactly_the_last_bytes(chunks: list[bytes], keep: int) -> None:
    """Property: memory is bounded, and what is kept is the end."""
    ring = OutputRing(keep)
    for chunk in chunks:
        ring.append(chunk)
        assert len(ring._kept) <= 2 * keep
    data = b"".join(chunks)
    assert (ring.start, ring.end) == (max(0, len(data) - keep), len(data))
    assert ring._bytes(ring.start, ring.end) == data[-keep:][: len(data)]
