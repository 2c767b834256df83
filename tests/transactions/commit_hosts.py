"""Commits on hosts that are made for it: mounts in the tree, a full disk, a read-only one.

A program of its own, run in namespaces of its own. Arguments: the name of a case, and a folder.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from raw_exec.transactions.changes import Change, ChangeSet  # noqa: E402
from raw_exec.transactions.commit import commit  # noqa: E402
from raw_exec.transactions.errors import CommitRefused  # noqa: E402
from tests.transactions.lab import change, now_ns, picture, wait_for_tick  # noqa: E402

READ_ONLY, REMOUNT, BIND = 1, 32, 4096


def mount(source: str, target: Path, kind: str, flags: int = 0, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = (source.encode(), os.fsencode(target), kind.encode())
    if libc.mount(*words, ctypes.c_ulong(flags), options.encode()) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(target))


def drop_capabilities() -> None:
    """Be held by permissions from here on, whoever this process is."""
    header = struct.pack("=Ii", 0x20080522, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


class World:
    """A tree on a small file system, and an upper layer that is made by hand."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.disk, self.upper = base / "disk", base / "upper"
        for folder in (self.disk, self.upper):
            folder.mkdir()
        mount("tmpfs", self.disk, "tmpfs", 0, "size=1m,mode=755")
        self.root = self.disk / "tree"
        self.root.mkdir()

    def put(self, path: str, size: int = 4) -> None:
        target = self.upper / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"n" * size)

    def refused(self, *changes: Change) -> str:
        """Commit; return why it was refused, when nothing was changed."""
        wait_for_tick()
        before = picture(self.root, times=True)
        upper = os.open(self.upper, os.O_RDONLY)
        found = ChangeSet(str(self.root), upper, now_ns(), changes)
        try:
            commit([found], state_dir=self.base / "state")
        except CommitRefused as exc:
            assert picture(self.root, times=True) == before
            assert not list(self.root.glob(".raw-commit-*"))
            assert not list((self.base / "state").glob("*.journal"))
            return str(exc)
        finally:
            os.close(upper)
        return ""


def full_disk(world: World) -> None:
    """The content does not fit."""
    (world.root / "a").write_text("old\n")
    world.put("a")
    world.put("big", 3 << 20)
    assert "the disk is full" in world.refused(change("a"), change("big", "create"))
    assert world.refused(change("a")) == ""
    assert (world.root / "a").read_text() == "nnnn"


def read_only_disk(world: World) -> None:
    """And the same tree once it may be written again."""
    world.put("x")
    mount("none", world.disk, "none", READ_ONLY | REMOUNT | BIND)
    assert "read-only" in world.refused(change("x", "create"))
    mount("none", world.disk, "none", REMOUNT | BIND)
    assert world.refused(change("x", "create")) == ""


def folder_without_permission(world: World) -> None:
    """And the same folder once it may be written again."""
    world.put("x")
    drop_capabilities()
    world.root.chmod(0o500)
    assert "may not be written" in world.refused(change("x", "create"))
    world.root.chmod(0o700)
    assert world.refused(change("x", "create")) == ""


def nested_mounts(world: World) -> None:
    """Refused before anything changes: at a mount, below it, and above it."""
    root = world.root
    for path in ("d/mnt/in", "d/file", "d/plain/x", "other"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("old\n")
    mount("tmpfs", root / "d/mnt", "tmpfs")
    mount(str(root / "other"), root / "d/file", "none", BIND)
    (root / "d/mnt/in").write_text("mounted\n")
    for path in ("d/mnt/in", "d/file", "d/plain/x", "d/mnt/new"):
        world.put(path)
    for one in (
        change("d/mnt/in"),
        change("d/mnt/new", "create"),
        change("d/file"),
        change("d/file", "delete"),
        change("d", "delete", "dir"),
        change("d/mnt", "delete", "dir"),
        change("d", "write", "dir", opaque=True),
    ):
        assert "mounted there" in world.refused(change("d/plain/x"), one), one
    assert world.refused(change("d/plain/x")) == ""
    assert (root / "d/plain/x").read_text() == "nnnn"
    assert (root / "d/mnt/in").read_text() == "mounted\n"


def bind_of_the_same_file_system(world: World) -> None:
    """A mount of the same device has the same device number, and is refused all the same."""
    root = world.root
    (world.disk / "outside").mkdir()
    (world.disk / "outside/x").write_text("old\n")
    (root / "d").mkdir()
    mount(str(world.disk / "outside"), root / "d", "none", BIND)
    world.put("d/x")
    assert "mounted there" in world.refused(change("d/x"))
    assert (world.disk / "outside/x").read_text() == "old\n"


def container_image(world: World) -> None:
    """A tree that is itself an overlay: files are committed, moving a directory is undone."""
    image, over, work = (world.disk / name for name in ("image", "over", "work"))
    for folder in (image / "d/e", over, work):
        folder.mkdir(parents=True)
    for path in ("a", "b", "d/x"):
        (image / path).write_text("old\n")
    options = f"userxattr,lowerdir={image},upperdir={over},workdir={work}"
    mount("overlay", world.root, "overlay", 0, options)
    for path in ("a", "d/x", "n/new"):
        world.put(path)
    new = (change("n", "create", "dir"), change("n/new", "create"))
    gone = change("d", "delete", "dir")
    said = world.refused(change("a"), change("b", "delete"), gone, *new)
    assert "can't move a directory of a lower layer" in said, said
    assert world.refused(change("a"), change("b", "delete"), change("d/x"), *new) == ""
    assert sorted(os.listdir(world.root)) == ["a", "d", "n"]
    assert (world.root / "d/x").read_text() == "nnnn"


def whiteout_in_the_layer(world: World) -> None:
    """A whiteout that is taken for a file is no file."""
    os.mknod(world.upper / "x", stat.S_IFCHR, 0)
    assert "is not the file" in world.refused(change("x", "create"))


CASES = {
    case.__name__: case
    for case in (
        full_disk, read_only_disk, folder_without_permission, nested_mounts,
        bind_of_the_same_file_system, container_image, whiteout_in_the_layer,
    )
}  # fmt: skip

if __name__ == "__main__":
    CASES[sys.argv[1]](World(Path(sys.argv[2])))
