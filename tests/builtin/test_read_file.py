"""read_file: ranges, the shared budget, and rows that stand for themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.builtin import BUILTIN_DESCRIPTORS
from raw_exec.builtin.read_file.reading import lines as lines_module
from raw_exec.builtin.read_file.reading.lines import Lines, read_lines
from raw_exec.builtin.read_file.reading.run import handler

from .calls import Context, Signal, digest, value_of

Read = Callable[..., Any]
EMPTY = digest(b"")


def row(path: str, start: int, end: int, eof: bool, text: str, **more: Any) -> dict[str, Any]:
    return {
        "path": path,
        "start_line": start,
        "end_line": end,
        "eof": eof,
        "sha256": digest(text.encode()),
        "text": text,
        **more,
    }


@pytest.mark.parametrize(
    ("data", "item", "expected"),
    [
        (b"a\nb\nc\n", {}, (1, 3, True, "a\nb\nc\n", {})),
        (b"a\nb\nc", {}, (1, 3, True, "a\nb\nc", {})),
        (b"a\nb\nc\n", {"start_line": 2}, (2, 3, True, "b\nc\n", {})),
        (b"a\nb\nc\n", {"start_line": 2, "end_line": 2}, (2, 2, False, "b\n", {})),
        (b"a\nb\nc\n", {"end_line": 3}, (1, 3, True, "a\nb\nc\n", {})),
        (b"a\nb\nc\n", {"max_lines": 1}, (1, 1, False, "a\n", {})),
        (b"a\nb\nc", {"start_line": 3, "max_lines": 1}, (3, 3, True, "c", {})),
        (b"a\nb\nc\n", {"end_line": 99}, (1, 3, True, "a\nb\nc\n", {})),
        (b"a\nb\nc\n", {"start_line": 4}, (4, 3, True, "", {})),
        (b"a\nb\nc\n", {"start_line": 99, "max_lines": 2}, (99, 98, True, "", {})),
        (b"", {}, (1, 0, True, "", {})),
        (b"a\r\nb\r\n", {"end_line": 1}, (1, 1, False, "a\r\n", {})),
        (b"\xef\xbb\xbfa\nb\n", {"end_line": 1}, (1, 1, False, "a\n", {"bom": True})),
        (b"\xef\xbb\xbfa\nb\n", {"start_line": 2}, (2, 2, True, "b\n", {})),
        ("é\n".encode(), {}, (1, 1, True, "é\n", {})),
        (b"ab\ncd\n", {"max_bytes": 3}, (1, 1, False, "ab\n", {"partial": True, "next_line": 2})),
        (b"ab\ncd\n", {"max_bytes": 5}, (1, 1, False, "ab\n", {"partial": True, "next_line": 2})),
        (b"ab\ncd\n", {"max_bytes": 6}, (1, 2, True, "ab\ncd\n", {})),
        (
            b"ab\ncd\n",
            {"max_bytes": 2},
            (1, 0, False, "", {"line_too_large": True, "next_line": 2}),
        ),
        (
            b"ab\ncd",
            {"start_line": 2, "max_bytes": 1},
            (2, 1, False, "", {"line_too_large": True, "next_line": 3}),
        ),
        (b"ab\ncd", {"start_line": 2, "max_bytes": 2}, (2, 2, True, "cd", {})),
    ],
)
def test_a_range_is_returned_in_complete_lines(
    tmp_path: Path, read: Read, data: bytes, item: dict[str, int], expected: Any
) -> None:
    """Contract: complete lines, the actual range, eof, and SHA-256 of the bytes returned."""
    (tmp_path / "f").write_bytes(data)
    start, end, eof, text, more = expected
    assert read({"path": "f", **item}) == [row("f", start, end, eof, text, **more)]


def test_a_bad_file_does_not_stop_the_rest(tmp_path: Path) -> None:
    """Contract: per-file errors are rows; the call fails only when every file did."""
    (tmp_path / "good").write_text("x\n")
    (tmp_path / "latin1").write_bytes(b"ok\n\xe9\n")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    names = ["missing", "good/below", "latin1", "folder", "fifo", "good"]
    context = Context(str(tmp_path))
    result = handler({"files": [{"path": name} for name in names]}, context)
    rows = value_of(result)["files"]
    assert [r["error"]["code"] for r in rows[:-1]] == [
        "not_found",
        "not_found",
        "invalid_utf8",
        "is_directory",
        "not_a_regular_file",
    ]
    assert rows[2]["error"]["message"] == "is not UTF-8 in line 2"
    assert rows[-1] == row("good", 1, 1, True, "x\n")
    assert "isError" not in result
    failed = handler({"files": [{"path": "missing"}]}, context)
    assert (failed["isError"], failed["code"]) == (True, "not_found")
    failed = handler({"files": [{"path": "missing"}, {"path": "fifo"}]}, context)
    assert (failed["isError"], failed["code"]) == (True, "read_failed")


def encoded(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def test_the_budget_is_shared_and_every_file_has_its_row(tmp_path: Path, read: Read) -> None:
    """Contract: partial and next_line where the shared budget ran out."""
    for n in range(16):
        (tmp_path / f"f{n}").write_text("".join(f"{i} \t\n" for i in range(1000)))
    rows = read(*({"path": f"f{n}"} for n in range(16)), max_output_bytes=8192)
    assert len(rows) == 16
    assert encoded({"files": rows}) <= 8192
    assert rows[0]["partial"] is True
    assert rows[0]["end_line"] > 100
    assert all(got["partial"] and got["next_line"] == got["end_line"] + 1 for got in rows)
    assert rows[15]["end_line"] < 10
    text = rows[0]["text"]
    more = read({"path": "f0", "start_line": rows[0]["next_line"]}, max_output_bytes=65536)
    assert text + more[0]["text"] == (tmp_path / "f0").read_text()


def test_a_line_that_never_fits_is_told_from_one_that_fits_alone(
    tmp_path: Path, read: Read
) -> None:
    """Contract: line_too_large; asking again would not help, so next_line is after it."""
    (tmp_path / "huge").write_text("x" * 9000 + "\nafter\n")
    (tmp_path / "escaped").write_text("\x01" * 1400 + "\nafter\n")
    (tmp_path / "big").write_text("y" * 5000 + "\n")
    (tmp_path / "first").write_text("z" * 6000 + "\n")
    (huge,) = read({"path": "huge"}, max_output_bytes=8192)
    assert huge == row("huge", 1, 0, False, "", line_too_large=True, next_line=2)
    (escaped,) = read({"path": "escaped"}, max_output_bytes=8192)
    assert escaped == row("escaped", 1, 0, False, "", line_too_large=True, next_line=2)
    first, big = read({"path": "first"}, {"path": "big"}, max_output_bytes=8192)
    assert first["eof"] is True
    assert big == row("big", 1, 0, False, "", partial=True, next_line=1)
    assert read({"path": "big"}, max_output_bytes=8192)[0]["eof"] is True
    (after,) = read({"path": "huge", "start_line": 2}, max_output_bytes=8192)
    assert after == row("huge", 2, 2, True, "after\n")


LINE = st.text(alphabet='ab\té\U0001f600\x01"\\\r', max_size=30)


@given(
    st.lists(st.lists(LINE, max_size=12), min_size=1, max_size=5),
    st.integers(1, 3000),
    st.booleans(),
)
def test_the_result_fits_any_budget_and_paging_gives_the_file(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], budget: int, ended: bool
) -> None:
    """Property: encoded size within the budget; rows are true; pages join to the file."""
    root = tmp_path_factory.mktemp("read")
    texts = {
        f"f{n}": "\n".join(lines) + ("\n" if ended and lines else "")
        for n, lines in enumerate(files)
    }
    for name, text in texts.items():
        (root / name).write_bytes(text.encode())
    context = Context(str(root), max_output_bytes=budget)
    result = handler({"files": [{"path": name} for name in texts]}, context)
    value = value_of(result)
    assert encoded(value) <= max(budget, len('{"files":[],"rows_omitted":16}'))
    for got in value["files"]:
        data = got["text"].encode()
        assert got["sha256"] == digest(data)
        assert texts[got["path"]].encode().startswith(data)
        assert got["eof"] == (data == texts[got["path"]].encode())
    name, text = "f0", texts["f0"]
    joined, start = "", 1
    for _page in range(40):
        rows = value_of(handler({"files": [{"path": name, "start_line": start}]}, context))["files"]
        if not rows or rows[0].get("line_too_large"):
            return
        joined += rows[0]["text"]
        if rows[0]["eof"]:
            assert joined == text
            return
        assert rows[0]["next_line"] > start
        start = rows[0]["next_line"]


@given(
    st.lists(st.sampled_from([b"", b"a", b"bcd", b"\r"]), max_size=9),
    st.booleans(),
    st.integers(1, 11),
    st.one_of(st.none(), st.integers(1, 11)),
    st.integers(0, 40),
    st.integers(1, 7),
)
def test_reading_in_chunks_equals_cutting_the_whole_file(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[bytes],
    ended: bool,
    start: int,
    max_lines: int | None,
    max_bytes: int,
    chunk: int,
) -> None:
    """Property: the streaming reader agrees with a plain reading of the file."""
    data = b"\n".join(parts) + (b"\n" if ended and parts else b"")
    file = tmp_path_factory.mktemp("lines") / "f"
    file.write_bytes(data)
    whole = [part + b"\n" for part in data.split(b"\n")]
    whole[-1] = whole[-1][:-1]
    whole = whole if whole[-1] else whole[:-1]
    wanted = whole[start - 1 :][:max_lines]
    kept: list[bytes] = []
    for line in wanted:
        if len(b"".join(kept)) + len(line) > max_bytes:
            break
        kept.append(line)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "_CHUNK_BYTES", chunk)
        got = read_lines(str(file), start, max_lines, max_bytes)
    eof = len(kept) == len(wanted) and start - 1 + len(kept) >= len(whole)
    assert got == Lines(b"".join(kept), eof, len(kept) < len(wanted), False)


def test_wrong_ranges_are_refused_before_approval_with_a_call_that_works() -> None:
    """Seed 2: the text names the problem and shows a valid call."""
    find_problem = BUILTIN_DESCRIPTORS["read_file"].validate_args
    assert find_problem is not None
    assert find_problem({"files": [{"path": "a"}]}) is None
    for item, text in (
        ({"path": "a", "start_line": 3, "end_line": 2}, "end_line 2 is before start_line 3"),
        ({"path": " "}, "empty or blank"),
        ({"path": "a\0"}, "NUL"),
    ):
        problem = find_problem({"files": [item]}) or ""
        assert text in problem
        assert find_problem(json.loads(problem.partition("for example ")[2])) is None


def test_an_abort_ends_the_reading(tmp_path: Path) -> None:
    """Seed 2: handlers respect the signal."""
    (tmp_path / "f").write_text("x")
    context = Context(str(tmp_path), signal=Signal(aborts_at_look=2))
    result = handler({"files": [{"path": "f"}] * 3}, context)
    assert (result["code"], len(value_of(result)["files"])) == ("aborted", 1)
