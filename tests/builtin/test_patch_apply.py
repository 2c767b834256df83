"""A patch against real files: what it keeps, what it refuses, and how it stops."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raw_exec.builtin.write_file.changes import folders, patching
from raw_exec.builtin.write_file.changes.text import MAX_FILE_BYTES

from .calls import Signal, call_write, value_of, walk

Patch = Callable[..., tuple[Any, list[tuple[str, str]]]]
OK = ("applied", "")


def test_all_four_operations_apply_in_order(tmp_path: Path, patch: Patch) -> None:
    """Contract: add with parents, update, move with and without content, delete."""
    (tmp_path / "u").write_text("1\n2\n3\n")
    (tmp_path / "m").write_text("a\nb\n")
    (tmp_path / "pure").write_bytes(b"\0binary")
    (tmp_path / "gone").write_text("x")
    inode = (tmp_path / "pure").stat().st_ino
    status, rows = patch(
        "*** Add File: new/deep/f\n+hello\n+\n"
        "*** Add File: new/deep/empty\n"
        "*** Update File: u\n@@\n 1\n-2\n+two\n+2.5\n 3\n"
        "*** Update File: m\n*** Move to: new/m2\n@@\n-b\n+B\n"
        "*** Update File: pure\n*** Move to: pure2\n"
        "*** Delete File: gone\n"
    )
    assert (status, rows) == ("applied", [OK] * 6)
    files = {name: entry[2] for name, entry in walk(tmp_path).items() if entry[0] == "file"}
    assert files == {
        "new/deep/f": b"hello\n\n",
        "new/deep/empty": b"",
        "u": b"1\ntwo\n2.5\n3\n",
        "new/m2": b"a\nB\n",
        "pure2": b"\0binary",
    }
    assert (tmp_path / "pure2").stat().st_ino == inode


@pytest.mark.parametrize(
    ("before", "hunks", "after"),
    [
        (b"a\nb\n", "@@\n-b\n+c\n", b"a\nc\n"),
        (b"a\nb", "@@\n-b\n+c\n", b"a\nc"),
        (b"a\nb", "@@\n b\n+c\n", b"a\nb\nc"),
        (b"a\nb", "@@\n-b\n", b"a"),
        (b"a\nb\n", "@@\n-b\n+c\n*** No newline at end of file\n", b"a\nc"),
        (b"a\nb\n", "*** No newline at end of file\n", b"a\nb"),
        (b"a\r\nb\r\n", "@@\n-b\n+c\n+d\n*** No newline at end of file\n", b"a\r\nc\r\nd"),
        (b"a\r\nb\r\n", "@@\n-a\n+x\n b\n", b"x\r\nb\r\n"),
        (b"a\r\nb\nc\r\n", "@@\n b\n+x\n c\n+y\n", b"a\r\nb\nx\nc\r\ny\r\n"),
        (b"a\r\nb", "@@\n b\n+c\n", b"a\r\nb\r\nc"),
        (b"\xef\xbb\xbfa\nb\n", "@@\n-a\n+x\n", b"\xef\xbb\xbfx\nb\n"),
        (b"\xef\xbb\xbfa\r\n", "@@\n-a\n", b"\xef\xbb\xbf"),
        (b"", "@@\n+a\n", b"a\n"),
        (b"x\nx\n", "@@\n-x\n+y\n*** End of File\n", b"x\ny\n"),
        (b"x\n", "@@\n+y\n*** End of File\n", b"x\ny\n"),
        (b"a\nx\nb\nx\n", "@@\n a\n-x\n@@\n-x\n+y\n", b"a\nb\ny\n"),
        (b"a\rb\nc\n", "@@\n-c\n+d\n", b"a\rb\nd\n"),
        (b"\n\na\n", "@@\n \n-a\n+b\n", b"\n\nb\n"),
        (b"a\n", "@@\n-a\n", b""),
    ],
)
def test_bytes_outside_of_a_hunk_are_kept(
    tmp_path: Path, patch: Patch, before: bytes, hunks: str, after: bytes
) -> None:
    """Contract: BOM, line endings and the final newline stay as they were."""
    (tmp_path / "f").write_bytes(before)
    assert patch(f"*** Update File: f\n{hunks}") == ("applied", [OK])
    assert (tmp_path / "f").read_bytes() == after


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o444])
def test_mode_bits_are_kept(tmp_path: Path, patch: Patch, mode: int) -> None:
    """Contract: an update and a move keep the permission bits."""
    for name in ("u", "m"):
        (tmp_path / name).write_text("a\n")
        (tmp_path / name).chmod(mode)
    body = "*** Update File: u\n@@\n-a\n+b\n*** Update File: m\n*** Move to: n\n@@\n-a\n+b\n"
    assert patch(body) == ("applied", [OK] * 2)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "un"] == [mode] * 2


def test_set_user_id_is_dropped_as_on_any_write(tmp_path: Path, patch: Patch) -> None:
    """Ours: new content does not inherit a privilege."""
    (tmp_path / "f").write_text("a\n")
    (tmp_path / "f").chmod(0o4755)
    patch("*** Update File: f\n@@\n-a\n+b\n")
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("section", "code"),
    [
        ("*** Update File: missing\n@@\n-a\n", "not_found"),
        ("*** Update File: no/such/folder\n@@\n-a\n", "not_found"),
        ("*** Delete File: missing\n", "not_found"),
        ("*** Add File: text\n+a\n", "exists"),
        ("*** Add File: folder\n+a\n", "exists"),
        ("*** Add File: text/below\n+a\n", "not_a_directory"),
        ("*** Add File: good\n+a\n", "repeated_target"),
        ("*** Add File: ./x/../good\n+a\n", "repeated_target"),
        ("*** Add File: good/below\n+a\n", "not_a_directory"),
        ("*** Update File: text\n*** Move to: twice\n", "exists"),
        ("*** Update File: text\n*** Move to: text\n", "repeated_target"),
        ("*** Update File: text\n*** Move to: folder\n", "exists"),
        ("*** Update File: twice\n@@\n-a\n", "context_ambiguous"),
        ("*** Update File: text\n@@\n+a\n", "context_ambiguous"),
        ("*** Update File: text\n@@\n-nope\n", "context_not_found"),
        ("*** Update File: text\n@@\n-b\n@@\n-a\n", "context_not_found"),
        ("*** Update File: text\n@@\n-a\n*** End of File\n", "context_not_found"),
        ("*** Update File: text\n@@\n-a \n", "context_not_found"),
        ("*** Update File: binary\n@@\n-a\n", "binary_file"),
        ("*** Update File: latin1\n@@\n-a\n", "invalid_utf8"),
        ("*** Update File: big\n@@\n-a\n", "file_too_large"),
        ("*** Update File: link\n@@\n-a\n", "symlink"),
        ("*** Update File: linked/text\n@@\n-a\n", "symlink"),
        ("*** Add File: dangling\n+a\n", "symlink"),
        ("*** Add File: linked/new\n+a\n", "symlink"),
        ("*** Delete File: link\n", "symlink"),
        ("*** Update File: text\n*** Move to: linked/new\n", "symlink"),
        ("*** Update File: folder\n@@\n-a\n", "is_directory"),
        ("*** Delete File: folder\n", "is_directory"),
        ("*** Delete File: fifo\n", "not_a_regular_file"),
    ],
)
def test_a_conflict_anywhere_changes_nothing(
    tmp_path: Path, patch: Patch, section: str, code: str
) -> None:
    """Contract: preflight conflicts change nothing; the good sections are skipped."""
    (tmp_path / "text").write_text("a\nb\n")
    (tmp_path / "twice").write_text("a\na\n")
    (tmp_path / "binary").write_bytes(b"a\n\0\n")
    (tmp_path / "latin1").write_bytes(b"a\n\xe9\n")
    with (tmp_path / "big").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "text").write_text("a\n")
    (tmp_path / "link").symlink_to("text")
    (tmp_path / "linked").symlink_to("folder")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo")
    before = walk(tmp_path)
    status, rows = patch(f"*** Add File: good\n+x\n{section}*** Add File: later/good\n+x\n")
    assert (status, rows) == (
        "conflict",
        [("skipped", ""), ("failed", code), ("skipped", "")],
    )
    assert walk(tmp_path) == before


def test_all_conflicts_are_reported_at_once(patch: Patch) -> None:
    """Ours: one try is enough to learn of all of them."""
    status, rows = patch("*** Delete File: a\n*** Add File: b\n+x\n*** Delete File: c\n")
    assert status == "conflict"
    assert rows == [("failed", "not_found"), ("skipped", ""), ("failed", "not_found")]


def _break(monkeypatch: pytest.MonkeyPatch, name: str, on: int, error: BaseException) -> None:
    """Make the ``on``-th call of a method of Folders fail before it does anything."""
    real = getattr(folders.Folders, name)
    calls: list[object] = []

    def broken(self: folders.Folders, *args: Any) -> Any:
        calls.append(args)
        if len(calls) == on:
            raise error
        return real(self, *args)

    monkeypatch.setattr(folders.Folders, name, broken)


THREE = "".join(f"*** Update File: {name}\n@@\n-a\n+b\n" for name in "xyz")


def test_an_error_stops_the_patch_and_rows_say_how_far_it_got(
    tmp_path: Path, patch: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: applied, failed, skipped; nothing is rolled back, no staged file is left."""
    for name in "xyz":
        (tmp_path / name).write_text("a\n")
    _break(monkeypatch, "replace", 2, PermissionError(13, "denied"))
    assert patch(THREE) == ("incomplete", [OK, ("failed", "permission_denied"), ("skipped", "")])
    assert {name: (tmp_path / name).read_text() for name in os.listdir(tmp_path)} == {
        "x": "b\n",
        "y": "a\n",
        "z": "a\n",
    }


def test_a_full_disk_is_found_before_the_first_change(
    tmp_path: Path, patch: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours: content is written beside its target first, so there is nothing to roll back."""
    for name in "xyz":
        (tmp_path / name).write_text("a\n")
    before = walk(tmp_path)
    writes: list[int] = []

    def full(fd: int, data: bytes) -> None:
        os.write(fd, data[:1])
        writes.append(fd)
        if len(writes) == 2:
            raise OSError(28, "no space")

    monkeypatch.setattr(folders, "write_all", full)
    assert patch(THREE) == (
        "conflict",
        [("skipped", ""), ("failed", "disk_full"), ("skipped", "")],
    )
    assert walk(tmp_path) == before


@pytest.mark.parametrize(
    "section", ["*** Delete File: y\n", "*** Update File: y\n*** Move to: z\n"]
)
def test_a_folder_that_refuses_names_is_found_before_the_first_change(
    tmp_path: Path, patch: Patch, monkeypatch: pytest.MonkeyPatch, section: str
) -> None:
    """Fault: permission denied mid-batch; a deletion or a move has nothing to stage, but asks."""
    for name in ("x", "d/y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a\n")
    before = walk(tmp_path)
    _break(monkeypatch, "stage", 2, PermissionError(13, "denied"))
    body = "*** Update File: x\n@@\n-a\n+b\n" + section.replace("File: y", "File: d/y")
    assert patch(body) == ("conflict", [("skipped", ""), ("failed", "permission_denied")])
    assert walk(tmp_path) == before


def test_a_file_changed_since_it_was_checked_is_not_touched(
    tmp_path: Path, patch: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: changed between hash and write, even to the same size."""
    for name in "xyz":
        (tmp_path / name).write_text("a\n")
    real = patching._apply

    def meddle(*args: Any) -> str:
        (tmp_path / "y").write_text("Q\n")
        return real(*args)

    monkeypatch.setattr(patching, "_apply", meddle)
    assert patch(THREE) == ("incomplete", [OK, ("failed", "changed_meanwhile"), ("skipped", "")])
    assert (tmp_path / "y").read_text() == "Q\n"


def test_a_target_that_appears_meanwhile_is_not_overwritten(
    tmp_path: Path, patch: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: a clobbering add or move is refused, also in the last moment."""
    (tmp_path / "m").write_text("a\n")
    real = patching._apply

    def meddle(*args: Any) -> str:
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "f").write_text("mine\n")
        return real(*args)

    monkeypatch.setattr(patching, "_apply", meddle)
    body = "*** Update File: m\n*** Move to: new/f\n"
    assert patch(body) == ("incomplete", [("failed", "exists")])
    assert (tmp_path / "new" / "f").read_text() == "mine\n"
    assert (tmp_path / "m").read_text() == "a\n"


def test_a_folder_swapped_for_a_link_leads_nowhere_else(
    tmp_path: Path, patch: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security: after the check, work goes on in the folder that was checked."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    for name in ("in", "out"):
        (tmp_path / name / "f").write_text("a\n")
    real = patching._apply

    def swap(*args: Any) -> str:
        (tmp_path / "in").rename(tmp_path / "was")
        (tmp_path / "in").symlink_to("out")
        return real(*args)

    monkeypatch.setattr(patching, "_apply", swap)
    assert patch("*** Update File: in/f\n@@\n-a\n+b\n") == ("applied", [OK])
    assert (tmp_path / "out" / "f").read_text() == "a\n"
    assert (tmp_path / "was" / "f").read_text() == "b\n"


@pytest.mark.parametrize("no_links", [1, 18])
def test_moves_work_where_hard_links_can_not_be_made(
    tmp_path: Path, patch: Patch, monkeypatch: pytest.MonkeyPatch, no_links: int
) -> None:
    """Ours: EPERM and EXDEV of link fall back to a rename that still refuses to clobber."""
    (tmp_path / "m").write_text("a\n")

    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise OSError(no_links, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    body = "*** Update File: m\n*** Move to: d/m\n*** Add File: n\n+x\n"
    assert patch(body) == ("applied", [OK, OK])
    assert {name for name, entry in walk(tmp_path).items() if entry[0] == "file"} == {"d/m", "n"}


@pytest.mark.parametrize("look", range(1, 9))
def test_an_abort_at_any_look_leaves_rows_that_say_the_truth(tmp_path: Path, look: int) -> None:
    """Fault: abort in the middle of a patch; what is applied is whole, the rest untouched."""
    for name in "xyz":
        (tmp_path / name).write_text("a\n")
    args = {"patch": f"*** Begin Patch\n{THREE}*** End Patch"}
    result = call_write(args, tmp_path, signal=Signal(aborts_at_look=look))
    value = value_of(result)
    assert (value["status"], result.get("isError"), result.get("code")) == (
        "aborted",
        True,
        "aborted",
    )
    told = {row["path"]: row["status"] == "applied" for row in value["rows"]}
    assert told == {name: (tmp_path / name).read_text() == "b\n" for name in "xyz"}
    assert sorted(os.listdir(tmp_path)) == ["x", "y", "z"]


def test_no_descriptor_is_left_open(tmp_path: Path, patch: Patch) -> None:
    """A worker with leftovers is retired; a patch leaves none, whatever happened."""
    (tmp_path / "x").write_text("a\n")
    before = len(os.listdir("/proc/self/fd"))
    patch("*** Update File: x\n@@\n-a\n+b\n*** Add File: d/e/f\n+x\n")
    patch("*** Update File: x\n@@\n-a\n+b\n*** Add File: d/e/f\n+x\n")
    patch("*** Add File: x/y\n+x\n")
    assert len(os.listdir("/proc/self/fd")) == before
