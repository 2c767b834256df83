"""Removal and measuring of a directory made by an enemy."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.launcher import scratch


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    """An open scratch root."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture
def as_ordinary_user() -> Iterator[Path]:
    """A folder of a user whom permissions hold; root becomes one meanwhile."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def build(tmp_path: Path, depth: int, width: int) -> Path:
    top = tmp_path / "s"
    top.mkdir()
    level = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=level)
        for index in range(width):
            os.close(os.open(f"f{index}", os.O_CREAT | os.O_WRONLY, dir_fd=level))
        deeper = os.open("d", os.O_RDONLY, dir_fd=level)
        os.close(level)
        level = deeper
    os.close(level)
    return top


def test_tree_deeper_than_the_levels_held_open_is_removed(tmp_path: Path, root: int) -> None:
    """Below a fixed depth directories are moved up; names that are taken do not stop it."""
    top = build(tmp_path, 300, 2)
    for index in range(1, 5):
        (top / f"up-{index}").mkdir()
        (top / f"up-{index}" / "f").write_text("x")
    assert scratch.remove(root, "s") is True
    assert os.listdir(tmp_path) == []


def test_what_links_point_at_is_left_alone(tmp_path: Path, root: int) -> None:
    """Links are removed, never followed: to a folder, a file, and in place of the top."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("k")
    top = tmp_path / "s"
    top.mkdir()
    (top / "dir").symlink_to(outside)
    (top / "file").symlink_to(outside / "keep")
    assert scratch.remove(root, "s") is True
    (tmp_path / "t").symlink_to(outside)
    assert scratch.remove(root, "t") is False
    assert (outside / "keep").read_text() == "k"


def test_locked_and_oddly_named_entries_are_removed(tmp_path: Path, root: int) -> None:
    """Mode 000, newline, invalid UTF-8, leading dash, 255 bytes, FIFO."""
    top = tmp_path / "s"
    top.mkdir()
    for name in (b"\xff\x1b[2J\n", b"-rf", b"x" * 255, b"a b"):
        Path(os.fsdecode(os.fsencode(top) + b"/" + name)).write_text("x")
    (top / "locked" / "inner").mkdir(parents=True)
    (top / "locked" / "inner").chmod(0)
    (top / "locked").chmod(0)
    os.mkfifo(top / "fifo")
    assert scratch.remove(root, "s") is True
    assert os.listdir(tmp_path) == []


def test_work_can_be_stopped_and_finished_later(tmp_path: Path, root: int) -> None:
    """A budget: what is left is said to be left, and a second pass ends it."""
    top = build(tmp_path, 10, 10)
    asked = iter([False] * 20 + [True] * 1000)
    fd = os.open(top, os.O_RDONLY)
    first = scratch.empty(fd, lambda: next(asked))
    second = scratch.empty(fd)
    os.close(fd)
    assert (first.complete, second.complete) == (False, True)
    assert first.entries + second.entries == 110
    assert os.listdir(top) == []


def test_removal_leaves_the_parts_that_are_mount_points(tmp_path: Path) -> None:
    """``empty_parts`` empties each folder in the top and keeps it."""
    for name in ("home", "tmp"):
        (tmp_path / name / "x").mkdir(parents=True)
    fd = os.open(tmp_path, os.O_RDONLY)
    assert scratch.empty_parts(fd).entries == 2
    os.close(fd)
    assert sorted(os.listdir(tmp_path)) == ["home", "tmp"]


def test_measure_counts_everything_without_following_links(tmp_path: Path) -> None:
    """Bytes and entries of deep, wide and locked trees; nothing outside."""
    top = build(tmp_path, 200, 1)
    (top / "big").write_bytes(b"x" * 100_000)
    (top / "out").symlink_to("/usr")
    fd = os.open(top, os.O_RDONLY)
    before = len(os.listdir("/proc/self/fd"))
    usage = scratch.measure(fd)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(fd)
    assert (usage.entries, usage.complete) == (402, True)
    assert usage.bytes >= 100_000


def test_missing_directory_counts_as_removed(root: int) -> None:
    """Idempotent."""
    assert scratch.remove(root, "never") is True


def test_a_directory_that_took_its_own_permissions_is_measured_and_emptied(
    as_ordinary_user: Path,
) -> None:
    """Corpus F15: the plugin is the owner too, and mode 000 must not end the launcher."""
    inner = as_ordinary_user / "tmp" / "a"
    inner.mkdir(parents=True)
    (inner / "f").write_bytes(b"x" * 5000)
    top = os.open(as_ordinary_user, os.O_RDONLY | os.O_DIRECTORY)
    for folder in (inner, inner.parent, as_ordinary_user):
        folder.chmod(0)
    assert scratch.measure(top).entries == 3
    as_ordinary_user.chmod(0)
    assert scratch.empty_parts(top).complete is True
    as_ordinary_user.chmod(0)
    assert scratch.empty(top).complete is True
    os.close(top)
    assert os.listdir(as_ordinary_user) == []
