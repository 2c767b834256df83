"""What a plugin prints: capped with a mark, escaped, never lost without a word."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from raw_exec.pool.logs import LogCapture, LogText
from raw_exec.text import escape_text


def _capture(data: bytes, cap: int) -> LogText:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(reader, False)
    os.write(writer, data)
    os.close(writer)
    log = LogCapture(reader, cap)
    log.drain()
    os.close(reader)
    return log.take()


def test_a_short_log_is_kept_whole() -> None:
    """The pair of the next test."""
    assert _capture(b"hello\n", 100) == LogText("hello\n", 6, truncated=False)


def test_a_long_log_keeps_its_beginning_and_says_how_much_is_missing() -> None:
    """The first bytes hold the cause; a flood must not push it out."""
    taken = _capture(b"cause\n" + b"x" * 1000, 6)
    assert taken == LogText("cause\n\n… [1000 more bytes not kept]", 1006, truncated=True)


def test_no_output_is_no_text() -> None:
    """An empty log is told from a dropped one."""
    assert _capture(b"", 100) == LogText("", 0, truncated=False)


def test_bytes_that_are_no_text_are_shown_escaped() -> None:
    """Corpus F17, W23: terminal control reaches nobody's terminal."""
    assert _capture(b"\xff\x1b[2J\x00", 100).text == "\\xff\\x1b[2J\\x00"


@given(st.text())
def test_escaped_text_has_nothing_that_moves_a_cursor_or_hides(text: str) -> None:
    """Every character shown is printable, a newline or a tab."""
    for char in escape_text(text):
        assert char.isprintable() or char in "\n\t"
