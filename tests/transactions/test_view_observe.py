"""Reading an upper layer made by hand: what the kernel writes, and what it may write elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raw_exec.pool import ViewRoot
from raw_exec.transactions.changes import Change
from raw_exec.transactions.errors import CommitConflict, CommitRefused
from raw_exec.transactions.observe import observe
from raw_exec.transactions.view import View
from requires import require

NEVER = 2**62
"""A time that nothing is stamped with: whatever was changed was changed before the call."""


class Layers:
    """A tree below, and an upper layer above it."""

    def __init__(self, base: Path) -> None:
        self.below, self.upper = base / "below", base / "upper"
        for folder in (self.below, self.upper):
            folder.mkdir()
        self.fd = os.open(self.upper, os.O_RDONLY | os.O_DIRECTORY)

    def mark(self, path: str, name: str, value: bytes = b"") -> None:
        try:
            os.setxattr(self.upper / path, f"user.overlay.{name}", value)
        except OSError as exc:
            require("xattr", False, f"no user attributes here: {exc}")

    def changes(self, started_ns: int = NEVER, **options: object) -> list[Change]:
        return list(observe(self.fd, str(self.below), started_ns=started_ns, **options))  # type: ignore[arg-type]


@pytest.fixture
def layers(tmp_path: Path):  # type: ignore[no-untyped-def]
    found = Layers(tmp_path)
    yield found
    os.close(found.fd)


def test_marks_of_other_mounts_are_understood(layers: Layers) -> None:
    """Whiteouts as attributes; an opaque folder; a folder that merges."""
    for name in ("gone", "dir/x", "over/x", "merged/x"):
        (layers.below / name).parent.mkdir(exist_ok=True)
        (layers.below / name).write_text("b")
    (layers.upper / "gone").touch()
    layers.mark("gone", "whiteout")
    (layers.upper / "empty").touch()
    for name in ("over", "merged"):
        (layers.upper / name).mkdir()
    layers.mark("over", "opaque", b"y")
    layers.mark("merged", "opaque", b"x")
    (layers.upper / "merged" / "x").touch()
    layers.mark("merged/x", "whiteout")
    (layers.upper / "merged" / "not").touch()
    layers.mark("merged/not", "whiteout")
    assert layers.changes() == [
        Change(b"empty", "create", "file", False),
        Change(b"gone", "delete", "file", True),
        Change(b"merged/not", "delete", "file", True),
        Change(b"merged/x", "delete", "file", True),
        Change(b"over", "write", "dir", True, opaque=True),
    ]


def test_copies_without_a_difference_are_no_changes(layers: Layers) -> None:
    """Same bytes: none. Other bytes of the same size, mode, or attributes: one each."""
    for name in ("same", "bytes", "mode", "marks"):
        for folder in (layers.below, layers.upper):
            (folder / name).write_text("text")
            (folder / name).chmod(0o644)
            os.utime(folder / name, (1, 1))
    (layers.upper / "bytes").write_text("tex!")
    os.utime(layers.upper / "bytes", (1, 1))
    (layers.upper / "mode").chmod(0o600)
    layers.mark("marks", "origin", b"x")
    os.setxattr(layers.upper / "marks", "user.mine", b"1")
    assert layers.changes() == [
        Change(b"bytes", "write", "file", True),
        Change(b"marks", "metadata", "file", True),
        Change(b"mode", "metadata", "file", True),
    ]


def test_links_below_are_not_followed(layers: Layers, tmp_path: Path) -> None:
    """A folder that somebody replaced by a link: what it leads to is not what was changed."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "f").write_text("secret")
    (layers.below / "d").symlink_to(tmp_path / "elsewhere")
    (layers.upper / "d").mkdir()
    (layers.upper / "d" / "f").write_text("secret")
    assert layers.changes() == [
        Change(b"d", "write", "dir", True, opaque=True),
        Change(b"d/f", "create", "file", False),
    ]


def test_what_was_copied_from_a_removed_original_is_not_taken_for_new(layers: Layers) -> None:
    """Else the removal by somebody else would not be seen as a conflict."""
    (layers.upper / "f").write_text("x")
    layers.mark("f", "origin", b"x")
    (layers.upper / "d").mkdir()
    layers.mark("d", "origin", b"x")
    folder = Change(b"d", "metadata", "dir", True)
    assert layers.changes(started_ns=0) == [folder, Change(b"f", "write", "file", True)]
    # Nothing came or went below since: it was renamed here inside of the view.
    assert layers.changes() == [folder, Change(b"f", "create", "file", False)]


def test_bounds_and_changes_of_the_top_are_refused(layers: Layers) -> None:
    """Never cut, never left out."""
    (layers.upper / "a").touch()
    (layers.upper / "b").touch()
    assert len(layers.changes(max_entries=2)) == 2
    with pytest.raises(CommitRefused, match="more entries were changed"):
        layers.changes(max_entries=1)
    mode = layers.upper.stat().st_mode & 0o7777
    assert len(layers.changes(top_mode=mode)) == 2
    with pytest.raises(CommitRefused, match="mode of the granted folder"):
        layers.changes(top_mode=mode ^ 0o020)
    layers.mark("", "uuid", b"x")
    assert len(layers.changes()) == 2
    os.setxattr(layers.upper, "user.mine", b"x")
    with pytest.raises(CommitRefused, match="extended attributes of the granted folder"):
        layers.changes()


def test_a_view_of_a_folder_that_was_replaced_is_a_conflict(layers: Layers) -> None:
    """By name it is there, and it is another."""
    (layers.upper / "a").touch()
    status, mode = layers.below.stat(), layers.upper.stat().st_mode & 0o7777

    def view(inode: int) -> View:
        root = ViewRoot(str(layers.below), "upper", status.st_dev, inode, mode, False)
        return View((root,), [os.dup(layers.fd)], NEVER)

    found = view(status.st_ino)
    (changes,) = found.change_sets()
    assert changes.changes == (Change(b"a", "create", "file", False),)
    assert found.is_full() is False
    found.close()
    found.close()
    other = view(status.st_ino + 1)
    with pytest.raises(CommitConflict, match="replaced by another"):
        other.change_sets()
    other.close()
