"""bash: what is kept of output, how it is shared, and where it is cut."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.builtin.bash.running.output import (
    MARK_BYTES,
    Capture,
    Output,
    encoded_size,
    is_utf8,
    share_budget,
    show,
    trim,
)
from raw_exec.builtin.bash.running.processes import Ended
from raw_exec.builtin.bash.running.run import (
    _assemble,
    _encoded_bytes,
    _ended_row,
    _Row,
    _row_reserve,
    _shrink,
)

MARK = re.compile(r"\n… \[(\d+) bytes omitted\] …\n")
TEXTS = st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))
ANY = st.one_of(TEXTS, st.binary(max_size=300))


def whole(data: bytes) -> Output:
    return Output(data, b"", len(data))


def captured(chunks: list[bytes], keep: int) -> Output:
    capture = Capture(keep)
    for chunk in chunks:
        capture.add(chunk)
    return capture.output()


@given(chunks=st.lists(st.binary(max_size=40), max_size=20), keep=st.integers(1, 60))
def test_the_beginning_and_the_end_are_kept(chunks: list[bytes], keep: int) -> None:
    """Property: bounded, and nothing is lost that fits."""
    data = b"".join(chunks)
    output = captured(chunks, keep)
    assert output.total == len(data)
    assert output.head == data[:keep]
    rest = data[keep:]
    assert output.tail == rest[-keep:]
    assert output.omitted == len(data) - len(output.head) - len(output.tail)


def test_output_that_fits_is_shown_as_it_is() -> None:
    """No mark where nothing is missing; a byte that is not UTF-8 is seen to be replaced."""
    assert show(whole(b"a\nb\n"), 6).text == "a\nb\n"
    shown = show(whole(b"a\xff\x00b"), 100)
    assert (shown.text, shown.omitted, is_utf8(whole(b"a\xff"))) == ("a\ufffd\x00b", 0, False)


def test_a_cut_says_how_much_is_missing_there() -> None:
    """Contract: cuts are marked, beginning and end stay."""
    shown = show(whole(b"a" * 500 + b"z" * 500), MARK_BYTES + 10)
    assert (shown.text, shown.omitted) == ("aaaaa\n… [990 bytes omitted] …\nzzzzz", 990)


def test_a_character_that_the_capture_split_is_not_shown_in_part() -> None:
    """Contract: cuts never split a UTF-8 character, whichever side noticed it first."""
    data = ("€" * 100).encode()
    output = captured([data], 10)
    assert (len(output.head), len(output.tail)) == (10, 10)
    assert is_utf8(output)
    shown = show(output, 1000)
    assert shown.text == "€€€\n… [282 bytes omitted] …\n€€€"
    assert shown.omitted == 282


@given(chunks=st.lists(ANY, max_size=6), keep=st.integers(8, 400), budget=st.integers(0, 900))
def test_shown_text_fits_and_tells_what_is_missing(
    chunks: list[bytes], keep: int, budget: int
) -> None:
    """Property: within the budget, parts of the original, the count exact."""
    data = b"".join(chunks)
    shown = show(captured(chunks, keep), budget)
    if budget >= MARK_BYTES or not shown.omitted:
        assert len(json.dumps(shown.text, ensure_ascii=False).encode()) - 2 <= max(budget, 0)
    if not shown.omitted:
        return
    mark = next(found for found in MARK.finditer(shown.text) if int(found[1]) == shown.omitted)
    first, last = shown.text[: mark.start()], shown.text[mark.end() :]
    original = data.decode("utf-8", "surrogateescape")
    clean = re.sub("[\udc80-\udcff]", "\ufffd", original)
    # A cut inside of the capture may turn a broken sequence into other replacements.
    assert clean.startswith(first)
    if is_utf8(whole(data)):
        assert clean.endswith(last)
        assert len(first.encode()) + len(last.encode()) + shown.omitted == len(data)


@given(wanted=st.lists(st.integers(0, 1000), max_size=12), budget=st.integers(0, 3000))
def test_a_budget_is_shared_fairly(wanted: list[int], budget: int) -> None:
    """Property: who gets less than he wants gets at least what anyone else gets."""
    shares = share_budget(wanted, budget)
    assert sum(shares) <= budget
    assert all(share <= want for share, want in zip(shares, wanted, strict=True))
    short = [share for share, want in zip(shares, wanted, strict=True) if share < want]
    if short:
        assert min(short) >= max(shares) - len(wanted)
        assert sum(shares) >= budget - len(wanted)


@given(chunks=st.lists(ANY, max_size=6), budget=st.integers(MARK_BYTES, 500))
def test_trimming_to_a_share_changes_nothing_that_is_shown(
    chunks: list[bytes], budget: int
) -> None:
    """Property: dropping what can't be shown any more, early, is not noticed later."""
    output = captured(chunks, 10_000)
    trimmed = trim(output, budget)
    assert trimmed.total == output.total
    if is_utf8(output):
        assert show(trimmed, budget) == show(output, budget)


def ended(out: bytes, err: bytes) -> Ended:
    return Ended(
        stdout=captured([out], 5000),
        stderr=captured([err], 5000),
        exit_code=None,
        signal="SIGRTMAX-15",
        cause="timeout",
        ended_background=12345,
        elapsed_ms=10**9,
    )


@given(
    outputs=st.lists(st.tuples(ANY, ANY, st.integers(1, 40)), min_size=1, max_size=16),
    spare=st.integers(0, 5000),
)
def test_the_whole_result_fits_whatever_was_printed(
    outputs: list[tuple[bytes, bytes, int]], spare: int
) -> None:
    """Property: the host never has to cut, at any budget that is not refused beforehand."""
    budget = _encoded_bytes({"commands": [], "skipped": list(range(16))}) + spare
    budget += len(outputs) * _row_reserve()
    rows: list[_Row] = []
    for index, (out, err, times) in enumerate(outputs):
        rows.append(_ended_row(index, ended(out * times, err * times)))
        _shrink(rows, budget)
    value = _assemble(rows, budget)
    assert _encoded_bytes(value) <= budget
    assert [row["index"] for row in value["commands"]] == list(range(len(outputs)))


def test_a_noisy_command_can_not_hide_the_others() -> None:
    """Contract: each row has room reserved; what the others leave goes to the noisy one."""
    quiet = b"the answer is 42\n"
    results: list[Any] = []
    for noise in (b"x" * 100_000, b"\x00" * 100_000):
        rows = [_ended_row(0, ended(noise, noise)), _ended_row(1, ended(quiet, quiet))]
        value = _assemble(rows, 2000)
        first, second = value["commands"]
        assert (second["stdout"], second["stderr"]) == (quiet.decode(), quiet.decode())
        results.append((first["truncated"], second["truncated"]))
        assert 1900 <= _encoded_bytes(value) <= 2000
    assert results == [(True, False)] * 2


@pytest.mark.parametrize("text", ["a", '"', "\n", "\x01", "€", "😀", "\x7f", "\u2028"])
def test_sizes_are_those_of_the_encoded_json(text: str) -> None:
    """The host counts what JSON needs, so we do."""
    assert encoded_size(text) == len(json.dumps(text, ensure_ascii=False).encode()) - 2
