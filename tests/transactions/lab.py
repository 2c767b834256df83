"""Folders with a copy-on-write view, and pictures of a tree that can be compared."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import textwrap
import time
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from raw_exec.transactions.changes import Change, ChangeSet
from raw_exec.transactions.commit import CommitReport, commit
from raw_exec.transactions.observe import observe

SCRIPT = Path(__file__).with_name("overlay_script.py")
Picture = dict[bytes, tuple[Any, ...]]


def wait_for_tick() -> None:
    """Return when a file changed from now on has a later time than any changed before."""
    start = time.time_ns()
    while now_ns() <= start:
        pass


def now_ns() -> int:
    """Return the time that a file changed now is stamped with, to a tick."""
    return time.clock_gettime_ns(5)  # CLOCK_REALTIME_COARSE


@cache
def has_views() -> str:
    """Return why this host has no views for the user that runs the tests; empty if it has."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return "there is no unshare"
    done = subprocess.run([unshare, "-Urm", "true"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no user namespaces: {done.stderr.strip()}"


@dataclass
class Lab:
    """A tree, the upper layer over it, and a place for journals."""

    base: Path

    def __post_init__(self) -> None:
        self.root = self.base / "tree"
        self.state = self.base / "state"
        self.upper = self.base / "upper"
        self.root.mkdir(parents=True)
        self.upper_fd = -1
        self.started_ns = 0

    def close(self) -> None:
        if self.upper_fd >= 0:
            os.close(self.upper_fd)
            self.upper_fd = -1

    def write(self, path: str, content: str | bytes = "old\n", mode: int | None = None) -> Path:
        """Put a file into the tree."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            target.chmod(mode)
        return target

    def run(self, source: str, *, meanwhile: str = "") -> ChangeSet:
        """Run Python code on a view of the tree; return what it changed there.

        Args:
            source: The code; it finds itself in the view.
            meanwhile: Code that changes the tree itself before the view is looked at.
        """
        self.close()
        shutil.rmtree(self.upper, ignore_errors=True)
        work, target = self.base / "work", self.base / "view"
        shutil.rmtree(work, ignore_errors=True)
        for folder in (self.upper, work, target):
            folder.mkdir(exist_ok=True)
        self.upper.chmod(stat.S_IMODE(self.root.stat().st_mode))
        script = self.base / "script.py"
        script.write_text(textwrap.dedent(source))
        wait_for_tick()
        self.started_ns = now_ns()
        command = ["unshare", "-Urm", sys.executable, "-S", "-E", str(SCRIPT)]
        arguments = [str(path) for path in (self.root, self.upper, work, target, script)]
        done = subprocess.run(
            command + arguments, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        if meanwhile:
            on_tree(self.root, meanwhile)
        self.upper_fd = os.open(self.upper, os.O_RDONLY | os.O_DIRECTORY)
        return self.changes()

    def changes(self) -> ChangeSet:
        """Look at the upper layer."""
        found = observe(self.upper_fd, str(self.root), started_ns=self.started_ns)
        return ChangeSet(str(self.root), self.upper_fd, self.started_ns, found)

    def commit(self, *sets: ChangeSet, **limits: Any) -> CommitReport:
        """Commit, with this lab's journals."""
        return commit(sets, state_dir=self.state, **limits)

    def leftovers(self) -> list[str]:
        """Return journals, and private folders anywhere in the tree."""
        found = [str(path) for path in self.root.rglob(".raw-commit-*")]
        if self.state.exists():
            found += [p.name for p in self.state.iterdir() if p.name != "commit.lock"]
        return found


def on_tree(root: Path, source: str) -> None:
    """Run Python code in a folder itself."""
    before = Path.cwd()
    os.chdir(root)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the code is as short as it can be
            exec(compile(textwrap.dedent(source), "script", "exec"), {"os": os})  # noqa: S102
    finally:
        os.chdir(before)


def picture(root: Path, *, times: bool = False) -> Picture:
    """Return everything in a tree, by path: kind, mode, content, and times if asked.

    Args:
        times: Also modification times of what is below the tree's own directory.
    """
    out: Picture = {}
    top = os.fsencode(root)
    for folder, folders, files in os.walk(top):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            info = os.lstat(path)
            facts: tuple[Any, ...] = (stat.S_IFMT(info.st_mode), info.st_uid, info.st_gid)
            if stat.S_ISLNK(info.st_mode):
                facts += (os.readlink(path),)
            else:
                facts += (stat.S_IMODE(info.st_mode), _xattrs(path))
            if stat.S_ISREG(info.st_mode):
                with open(path, "rb") as file:
                    facts += (info.st_size, hashlib.file_digest(file, "sha256").hexdigest())
            if times:
                facts += (info.st_mtime_ns,)
            out[os.path.relpath(path, top)] = facts
    return out


def _xattrs(path: bytes) -> tuple[tuple[str, bytes], ...]:
    names = sorted(os.listxattr(path, follow_symlinks=False))
    return tuple((name, os.getxattr(path, name)) for name in names if name.startswith("user."))


def summary(changes: ChangeSet) -> list[tuple[str, str]]:
    """Return action and path of each change."""
    return [(change.action, os.fsdecode(change.path)) for change in changes.changes]


def change(path: str, action: str = "write", kind: str = "file", **fields: Any) -> Change:
    """Make a change by hand."""
    existed = fields.pop("existed", action != "create")
    return Change(path.encode(), action, kind, existed, **fields)
