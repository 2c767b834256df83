"""Changes of a folder, and the effects that cover them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from raw_exec.verify.case import StartFile
from raw_exec.verify.effects import compare_effects, declared_effects, find_changes
from raw_exec.verify.folder import FolderError, read_folder, write_folder

START = {
    "a.txt": StartFile("file", b"a"),
    "dir/b.txt": StartFile("file", b"b"),
    "dir/sub": StartFile("directory"),
    "link": StartFile("symlink", target="a.txt"),
}


def changes(root: Path, act: Callable[[Path], None]) -> list[str]:
    """Return what is seen of an action."""
    write_folder(root, START)
    before = read_folder(root)
    act(root)
    return [str(item) for item in find_changes(before, read_folder(root)) if item.visible]


def _replace(root: Path) -> None:
    (root / "new").write_text("a2")
    (root / "new").replace(root / "a.txt")


def _swap_kind(root: Path) -> None:
    (root / "a.txt").unlink()
    (root / "a.txt").mkdir()


def _relink(root: Path) -> None:
    (root / "link").unlink()
    (root / "link").symlink_to("dir")


def _move_and_edit(root: Path) -> None:
    (root / "a.txt").rename(root / "c.txt")
    (root / "c.txt").write_text("other")


ACTIONS: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "nothing": (lambda root: None, []),
    "reads": (lambda root: (root / "a.txt").read_bytes() and None, []),
    "writes": (
        lambda root: (root / "a.txt").write_text("aa") and None,
        ["write a.txt (content, 1 to 2 bytes)"],
    ),
    "writes the same": (lambda root: (root / "a.txt").write_text("a") and None, []),
    "writes through a link": (
        lambda root: (root / "link").write_text("aa") and None,
        ["write a.txt (content, 1 to 2 bytes)"],
    ),
    "replaces": (_replace, ["write a.txt (content, 1 to 2 bytes)"]),
    "creates": (
        lambda root: (root / "n").write_text("") and None,
        ["write n (file created)"],
    ),
    "deletes": (lambda root: (root / "a.txt").unlink(), ["delete a.txt (file removed)"]),
    "renames": (
        lambda root: (root / "a.txt").rename(root / "z.txt") and None,
        ["rename_source a.txt (to z.txt)", "rename_destination z.txt (from a.txt)"],
    ),
    "renames over a file": (
        lambda root: (root / "a.txt").replace(root / "dir/b.txt") and None,
        [
            "rename_source a.txt (to dir/b.txt)",
            "rename_destination dir/b.txt (from a.txt, replacing it)",
        ],
    ),
    "renames and edits": (
        _move_and_edit,
        ["delete a.txt (file removed)", "write c.txt (file created)"],
    ),
    "renames a folder": (
        lambda root: (root / "dir").rename(root / "moved") and None,
        [
            "rename_source dir (to moved)",
            "rename_source dir/b.txt (to moved/b.txt)",
            "rename_source dir/sub (to moved/sub)",
            "rename_destination moved (from dir)",
            "rename_destination moved/b.txt (from dir/b.txt)",
            "rename_destination moved/sub (from dir/sub)",
        ],
    ),
    "changes the mode": (
        lambda root: (root / "a.txt").chmod(0o4755),
        ["write a.txt (mode 644 to 4755)"],
    ),
    "takes the mode away": (
        lambda root: (root / "dir").chmod(0),
        ["write dir (mode 755 to 0)"],
    ),
    "another kind": (_swap_kind, ["write a.txt (file replaced by directory)"]),
    "another link target": (_relink, ["write link (link target)"]),
    "leaves a pipe": (lambda root: os.mkfifo(root / "p"), ["write p (fifo created)"]),
    "a name that is not text": (
        lambda root: os.close(os.open(os.fsencode(root) + b"/\xff\n", os.O_CREAT)),
        ["write \\udcff\\x0a (file created)"],
    ),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_every_kind_of_change_is_seen(tmp_path: Path, name: str) -> None:
    """Content, kind, mode, links and renames; reading is no change."""
    old = os.umask(0o022)
    try:
        act, wanted = ACTIONS[name]
        assert changes(tmp_path, act) == wanted
    finally:
        os.umask(old)


def test_a_reused_inode_number_is_not_a_rename(tmp_path: Path) -> None:
    """File systems hand out the number of a deleted file again."""

    def act(root: Path) -> None:
        (root / "a.txt").unlink()
        (root / "z.txt").write_text("other")

    assert changes(tmp_path, act) == [
        "delete a.txt (file removed)",
        "write z.txt (file created)",
    ]


def test_a_folder_without_permissions_is_looked_into_and_left_as_it_was(tmp_path: Path) -> None:
    """A handler can't hide a file, and looking changes nothing."""
    write_folder(tmp_path, START)
    (tmp_path / "dir/b.txt").chmod(0)
    (tmp_path / "dir").chmod(0)
    first, second = read_folder(tmp_path), read_folder(tmp_path)
    assert first["dir/b.txt"].sha256
    assert [(first[path].mode, second[path].mode) for path in ("dir", "dir/b.txt")] == [(0, 0)] * 2
    (tmp_path / "dir").chmod(0o700)


def test_a_sparse_file_of_a_terabyte_is_not_read(tmp_path: Path) -> None:
    """A handler can't keep the supervisor busy."""
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FolderError, match="more than 536870912 bytes"):
        read_folder(tmp_path)


def test_folders_beyond_the_limit_of_levels_are_not_walked(tmp_path: Path) -> None:
    """The walk is bounded."""
    (tmp_path / "/".join("d" * 70)).mkdir(parents=True)
    with pytest.raises(FolderError, match="64 levels"):
        read_folder(tmp_path)


def verdict(
    root: Path, act: Callable[[Path], None], *declared: tuple[str, str]
) -> tuple[list[str], list[str]]:
    """Return undeclared changes and undone effects."""
    write_folder(root, START)
    before = read_folder(root)
    effects = {
        "files": [
            {"path": os.path.join(root, path), "operation": operation}
            for operation, path in declared
        ]
    }
    real = {item["path"]: os.path.realpath(item["path"]) for item in effects["files"]}
    act(root)
    found = compare_effects(
        find_changes(before, read_folder(root)), declared_effects(effects, str(root), real)
    )
    undone = [f"{item.operation} {item.names[0]}" for item in found.undone]
    outside = [f"outside {item.path}" for item in found.outside]
    return [f"{item.operation} {item.path}" for item in found.undeclared], undone + outside


def _make_folders(root: Path) -> None:
    (root / "x/y").mkdir(parents=True)
    (root / "x/y/z.txt").write_text("z")


def _empty(root: Path) -> None:
    (root / "dir/b.txt").unlink()
    (root / "dir/sub").rmdir()
    (root / "dir").rmdir()


VERDICTS: dict[str, tuple[Callable[[Path], None], list[tuple[str, str]], list[str], list[str]]] = {
    "declared write": (ACTIONS["writes"][0], [("write", "a.txt")], [], []),
    "undeclared write": (ACTIONS["writes"][0], [], ["write a.txt"], []),
    "declared elsewhere": (
        ACTIONS["writes"][0],
        [("write", "dir/b.txt")],
        ["write a.txt"],
        ["write dir/b.txt"],
    ),
    "write declared as delete": (
        ACTIONS["writes"][0],
        [("delete", "a.txt")],
        ["write a.txt"],
        ["delete a.txt"],
    ),
    "delete declared as write": (
        ACTIONS["deletes"][0],
        [("write", "a.txt")],
        ["delete a.txt"],
        ["write a.txt"],
    ),
    "the same bytes again are done": (ACTIONS["writes the same"][0], [("write", "a.txt")], [], []),
    "nothing done": (ACTIONS["nothing"][0], [("write", "a.txt")], [], ["write a.txt"]),
    "through a link": (ACTIONS["writes through a link"][0], [("write", "link")], [], []),
    "declared rename": (
        ACTIONS["renames"][0],
        [("rename_source", "a.txt"), ("rename_destination", "z.txt")],
        [],
        [],
    ),
    "rename declared as copy and delete": (
        ACTIONS["renames"][0],
        [("delete", "a.txt"), ("write", "z.txt")],
        [],
        [],
    ),
    "half of a rename": (
        ACTIONS["renames"][0],
        [("rename_source", "a.txt")],
        ["rename_destination z.txt"],
        [],
    ),
    "folder renamed": (
        ACTIONS["renames a folder"][0],
        [("rename_source", "dir"), ("rename_destination", "moved")],
        [],
        [],
    ),
    "folders above a write": (_make_folders, [("write", "x/y/z.txt")], [], []),
    "folders for nothing": (
        _make_folders,
        [("write", "x/other")],
        ["write x/y", "write x/y/z.txt"],
        ["write x/other"],
    ),
    "folder deleted": (_empty, [("delete", "dir")], [], []),
    "files deleted, and the folder too": (
        _empty,
        [("delete", "dir/b.txt")],
        ["delete dir", "delete dir/sub"],
        [],
    ),
    "a write does not cover what is below": (
        _make_folders,
        [("write", "x")],
        ["write x/y", "write x/y/z.txt"],
        [],
    ),
    "outside": (ACTIONS["nothing"][0], [("write", "/etc/x")], [], ["outside /etc/x"]),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_changes_are_covered_by_effects_on_their_path(tmp_path: Path, name: str) -> None:
    """Undeclared is a failure, declared and not done a warning."""
    act, declared, undeclared, undone = VERDICTS[name]
    assert verdict(tmp_path.resolve(), act, *declared) == (undeclared, undone)
