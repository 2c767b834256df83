"""The private directory of a runtime: removed at the end, swept when its owner died."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from raw_exec.private_root import open_private_root, remove_tree

_DIES = """
import os, sys
from raw_exec.private_root import open_private_root
with open_private_root(sys.argv[1]) as root:
    (root / "file").write_text("x")
    print(root, flush=True)
    os._exit(9)
"""


def test_it_is_private_and_removed_with_read_only_folders_in_it(tmp_path: Path) -> None:
    """Snapshots are read-only folders; they must not resist."""
    with open_private_root(tmp_path) as root:
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
        folder = root / "a" / "b"
        folder.mkdir(parents=True)
        (folder / "f").write_text("x")
        folder.chmod(0o500)
        folder.parent.chmod(0o500)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_whose_owner_was_killed_is_swept(tmp_path: Path) -> None:
    """The lock went with the process."""
    done = subprocess.run(
        [sys.executable, "-c", _DIES, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    left = Path(done.stdout.strip())
    assert left.is_dir()
    with open_private_root(tmp_path):
        assert not left.exists()


def test_a_directory_whose_owner_lives_is_left_alone(tmp_path: Path) -> None:
    """The pair of the test above."""
    with open_private_root(tmp_path) as first, open_private_root(tmp_path):
        assert first.is_dir()


def test_a_link_with_our_name_is_not_followed(tmp_path: Path) -> None:
    """Security: the temporary directory is shared with other users."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "lock").write_text("")
    (victim / "keep").write_text("x")
    shared = tmp_path / "shared"
    shared.mkdir()
    os.symlink(victim, shared / "raw-exec-link")
    with open_private_root(shared):
        pass
    assert (victim / "keep").read_text() == "x"


def test_a_tree_with_links_to_folders_is_removed(tmp_path: Path) -> None:
    """A plugin may leave them; their modes can't be changed, and nothing behind them is."""
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o750)
    tree = tmp_path / "tree"
    (tree / "locked" / "deeper").mkdir(parents=True)
    (tree / "out").symlink_to(victim)
    (tree / "locked").chmod(0)
    tree.chmod(0)
    remove_tree(tree)
    assert not tree.exists()
    assert stat.S_IMODE(victim.stat().st_mode) == 0o750
