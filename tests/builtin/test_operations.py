"""The operations of write_file against real files."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from raw_exec.builtin.write_file.changes import folders, operating

from .calls import Signal, call_write, digest, value_of, walk

Write = Callable[..., dict[str, Any]]


def overwrite(path: str, content: str) -> dict[str, Any]:
    return {"path": path, "mode": "overwrite", "content": content}


def append(path: str, content: str) -> dict[str, Any]:
    return {"path": path, "mode": "append", "content": content}


def text(path: str, old: str, new: str) -> dict[str, Any]:
    return {"path": path, "mode": "replace_text", "old_text": old, "new_text": new}


def lines(path: str, start: int, end: int, content: str, original: bytes) -> dict[str, Any]:
    return {
        "path": path,
        "mode": "replace_lines",
        "start_line": start,
        "end_line": end,
        "content": content,
        "expected_sha256": digest(original),
    }


def outcome(result: dict[str, Any]) -> tuple[str, str | None, list[tuple[str, str]]]:
    value = value_of(result)
    rows = [(row["status"], row.get("error", {}).get("code", "")) for row in value["rows"]]
    return value["status"], result.get("code"), rows


OK = ("applied", "")
SKIPPED = ("skipped", "")


def test_every_mode_writes_and_reports(tmp_path: Path, write: Write) -> None:
    """Contract: overwrite and append create parents; rows say what was written."""
    (tmp_path / "t").write_text("one two\n")
    (tmp_path / "l").write_text("1\n2\n3\n")
    (tmp_path / "log").write_text("a\n")
    result = write(
        {
            "operations": [
                overwrite("d/e/new", "é\n"),
                append("f/g/new", "x"),
                append("log", "b\n"),
                text("t", "two", "2"),
                lines("l", 2, 3, "II\n", b"2\n3\n"),
            ]
        }
    )
    assert result == {"content": result["content"]}
    assert value_of(result) == {
        "status": "applied",
        "applied": 5,
        "failed": 0,
        "skipped": 0,
        "rows": [
            {
                "path": "d/e/new",
                "mode": "overwrite",
                "status": "applied",
                "bytes": 3,
                "sha256": digest("é\n".encode()),
            },
            {"path": "f/g/new", "mode": "append", "status": "applied", "bytes": 1},
            {"path": "log", "mode": "append", "status": "applied", "bytes": 2},
            {
                "path": "t",
                "mode": "replace_text",
                "status": "applied",
                "bytes": 6,
                "sha256": digest(b"one 2\n"),
            },
            {
                "path": "l",
                "mode": "replace_lines",
                "status": "applied",
                "bytes": 5,
                "sha256": digest(b"1\nII\n"),
            },
        ],
    }
    assert (tmp_path / "log").read_bytes() == b"a\nb\n"
    assert (tmp_path / "l").read_bytes() == b"1\nII\n"


@pytest.mark.parametrize(
    ("before", "start", "end", "content", "span", "after"),
    [
        (b"a\nb\nc\n", 2, 2, "X\n", b"b\n", b"a\nX\nc\n"),
        (b"a\nb\nc\n", 2, 2, "X", b"b\n", b"a\nX\nc\n"),
        (b"a\r\nb\r\nc\r\n", 2, 2, "X", b"b\r\n", b"a\r\nX\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", 2, 2, "X\nY\n", b"b\r\n", b"a\r\nX\nY\nc\r\n"),
        (b"\xef\xbb\xbfa\r\nb\n", 1, 1, "X\n", b"a\r\n", b"\xef\xbb\xbfX\nb\n"),
        (b"\xef\xbb\xbfa\nb\n", 1, 2, "", b"a\nb\n", b"\xef\xbb\xbf"),
        (b"a\nb", 2, 2, "X", b"b", b"a\nX"),
        (b"a\nb", 2, 2, "X\n", b"b", b"a\nX\n"),
        (b"a\nb", 1, 1, "", b"a\n", b"b"),
        # The digest of the whole file says the same and more.
        (b"\xef\xbb\xbfa\nb\n", 2, 2, "X\n", b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\nX\n"),
        (b"\xef\xbb\xbfa\nb\n", 2, 2, "X\n", b"a\nb\n", b"\xef\xbb\xbfa\nX\n"),
    ],
)
def test_lines_are_replaced_and_everything_around_them_is_kept(
    tmp_path: Path,
    write: Write,
    before: bytes,
    start: int,
    end: int,
    content: str,
    span: bytes,
    after: bytes,
) -> None:
    """Contract: BOM and CRLF outside of the span are kept, whole lines are replaced."""
    (tmp_path / "f").write_bytes(before)
    result = write({"operations": [lines("f", start, end, content, span)]})
    assert outcome(result) == ("applied", None, [OK])
    assert (tmp_path / "f").read_bytes() == after


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (text("text", "nope", ""), "text_not_found"),
        (text("text", "a", ""), "text_ambiguous"),
        (text("overlap", "aa", ""), "text_ambiguous"),
        (text("missing", "a", ""), "not_found"),
        (text("binary", "b", ""), "binary_file"),
        (text("latin1", "b", ""), "invalid_utf8"),
        (text("folder", "a", ""), "is_directory"),
        (lines("text", 1, 1, "", b"other\n"), "sha256_mismatch"),
        (lines("text", 1, 9, "", b"a\na\n"), "line_out_of_range"),
        (lines("empty", 1, 1, "", b""), "line_out_of_range"),
        (overwrite("folder", ""), "is_directory"),
        (overwrite("text/below", ""), "not_a_directory"),
        (append("text/below/that", ""), "not_a_directory"),
        (append("fifo", ""), "not_a_regular_file"),
        (overwrite("first/below", ""), "not_a_directory"),
        (overwrite("", "") | {"path": "deep"}, "is_directory"),
        (overwrite("loop", ""), "symlink"),
    ],
)
def test_everything_is_checked_before_anything_is_written(
    tmp_path: Path, write: Write, operation: dict[str, Any], code: str
) -> None:
    """Contract: all validated before any write."""
    (tmp_path / "text").write_text("a\na\n")
    (tmp_path / "overlap").write_text("aaa")
    (tmp_path / "empty").write_text("")
    (tmp_path / "binary").write_bytes(b"b\0")
    (tmp_path / "latin1").write_bytes(b"b\xe9")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    before = walk(tmp_path)
    good = [overwrite("first", "x"), overwrite("deep/er", "x")]
    result = write({"operations": [*good, operation, append("last", "x")]})
    assert outcome(result) == (
        "conflict",
        "write_conflict",
        [SKIPPED, SKIPPED, ("failed", code), SKIPPED],
    )
    assert walk(tmp_path) == before


def test_operations_on_one_path_build_on_each_other(tmp_path: Path, write: Write) -> None:
    """Ours: each is checked and applied on what the ones before it leave."""
    (tmp_path / "old").write_text("1\n2\n")
    result = write(
        {
            "operations": [
                overwrite("f", "a\nb\n"),
                append("./f", "c\n"),
                text("x/../f", "b", "B"),
                lines("f", 2, 3, "z\n", b"B\nc\n"),
                append("old", "3\n"),
                lines("old", 1, 2, "", b"1\n2\n"),
            ]
        }
    )
    assert outcome(result) == ("applied", None, [OK] * 6)
    assert (tmp_path / "f").read_text() == "a\nz\n"
    assert (tmp_path / "old").read_text() == "3\n"


def test_an_edit_that_an_earlier_row_made_impossible_is_a_conflict(
    tmp_path: Path, write: Write
) -> None:
    """Ours: line numbers of the state before an earlier row don't hit the wrong lines."""
    (tmp_path / "f").write_text("1\n2\n3\n")
    before = walk(tmp_path)
    result = write({"operations": [lines("f", 1, 1, "", b"1\n"), lines("f", 3, 3, "", b"3\n")]})
    assert outcome(result)[2] == [SKIPPED, ("failed", "line_out_of_range")]
    result = write({"operations": [lines("f", 1, 1, "", b"1\n"), lines("f", 2, 2, "", b"2\n")]})
    assert outcome(result)[2] == [SKIPPED, ("failed", "sha256_mismatch")]
    assert walk(tmp_path) == before


def test_a_failure_is_reported_for_its_row_and_later_rows_go_on(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: no rollback, no stop; rows for the same file are not applied to half of it."""
    (tmp_path / "a").write_text("old\n")
    real = operating.write_all

    def full(fd: int, data: bytes) -> None:
        if data == b"BAD":
            os.write(fd, b"B")
            raise OSError(28, "no space")
        real(fd, data)

    for module in (operating, folders):
        monkeypatch.setattr(module, "write_all", full)
    operations = [
        overwrite("x", "1"),
        append("a", "BAD"),
        text("a", "old", "new"),
        overwrite("b", "BAD"),
        overwrite("y", "2"),
    ]
    assert outcome(write({"operations": operations})) == (
        "incomplete",
        None,
        [
            OK,
            ("failed", "disk_full"),
            ("failed", "earlier_row_failed"),
            ("failed", "disk_full"),
            OK,
        ],
    )
    files = {name: (tmp_path / name).read_text() for name in os.listdir(tmp_path)}
    assert files == {"x": "1", "y": "2", "a": "old\n"}


def test_a_call_of_which_nothing_was_applied_is_an_error(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: a wholly failed call sets isError with a code."""

    def denied(*_args: Any) -> None:
        raise PermissionError(13, "denied")

    monkeypatch.setattr(folders, "write_all", denied)
    result = write({"operations": [overwrite("x", "1")]})
    assert outcome(result) == (
        "incomplete",
        "write_incomplete",
        [("failed", "permission_denied")],
    )
    assert result["isError"] is True


def test_a_file_changed_between_check_and_write_is_not_touched(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: changed file between hash and write."""
    (tmp_path / "f").write_text("one\n")
    real = operating._check_all

    def meddle(*args: Any) -> bool:
        fine = real(*args)
        (tmp_path / "f").write_text("0ne\n")
        return fine

    monkeypatch.setattr(operating, "_check_all", meddle)
    result = write({"operations": [text("f", "ne", "NE")]})
    assert outcome(result)[2] == [("failed", "changed_meanwhile")]
    assert (tmp_path / "f").read_text() == "0ne\n"


@pytest.fixture
def usual_umask() -> Iterator[None]:
    """Have new files readable by all, whatever the umask of the test run."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_umask")
def test_mode_bits_are_kept_and_links_are_followed(tmp_path: Path, write: Write) -> None:
    """Ours: outside of patches a link is followed, and the file behind it keeps its mode."""
    (tmp_path / "real").write_text("a")
    (tmp_path / "real").chmod(0o750)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("made")
    result = write({"operations": [overwrite("link", "b"), append("dangling", "c")]})
    assert outcome(result)[0] == "applied"
    assert walk(tmp_path) == {
        "dangling": ("link", "made"),
        "link": ("link", "real"),
        "made": ("file", 0o644, b"c"),
        "real": ("file", 0o750, b"b"),
    }
    assert stat.S_ISLNK((tmp_path / "link").lstat().st_mode)


@pytest.mark.parametrize("look", range(1, 5))
def test_an_abort_leaves_rows_that_say_the_truth(tmp_path: Path, look: int) -> None:
    """Fault: abort; what is applied is whole, the rest is untouched and skipped."""
    args = {"operations": [overwrite("x", "1"), overwrite("y", "2")]}
    value = value_of(call_write(args, tmp_path, signal=Signal(aborts_at_look=look)))
    assert value["status"] == "aborted"
    told = [row["path"] for row in value["rows"] if row["status"] == "applied"]
    assert told == sorted(os.listdir(tmp_path))


@pytest.mark.parametrize("max_bytes", [100, 120, 200, 400, 800, 8192])
def test_the_result_fits_the_budget_whatever_it_is(write: Write, max_bytes: int) -> None:
    """Ours: rows lose details before they are left out, and the counts always stay."""
    operations = [text(f"missing/{n}/é", "a", "b") for n in range(16)]
    value = value_of(write({"operations": operations}, max_output_bytes=max_bytes))
    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    assert len(encoded) <= max_bytes
    assert (value["status"], value["failed"]) == ("conflict", 16)
    assert len(value.get("rows", ())) + value.get("rows_omitted", 0) == 16
