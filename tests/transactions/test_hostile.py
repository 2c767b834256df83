"""What a call, or somebody beside it, does to its commit on purpose."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
import trio

from raw_exec.transactions import observe as observing
from raw_exec.transactions import recover, syscalls
from raw_exec.transactions.arrange import arrange, is_relative
from raw_exec.transactions.changes import ChangeSet
from raw_exec.transactions.coverage import not_done, uncovered
from raw_exec.transactions.diff import unified
from raw_exec.transactions.errors import CommitConflict, CommitRefused
from raw_exec.transactions.folders import Ancestors
from requires import require
from tests.transactions.lab import Lab, change, picture
from tests.transactions.world import open_world, tree
from toolbox import footprint


def _known(lab: Lab, found: ChangeSet) -> ChangeSet:
    status = lab.root.stat()
    identity = status.st_dev, status.st_ino
    return ChangeSet(found.root, found.upper, found.started_ns, found.changes, identity)


def test_a_tree_exchanged_while_a_person_looks_is_not_committed_to(lab: Lab) -> None:
    """Attack: whoever can rename a folder above the tree has the changes made elsewhere."""
    lab.write("keep")
    found = _known(lab, lab.run("open('new', 'w').close()"))
    victim = lab.base / "elsewhere"
    (victim / "tree").mkdir(parents=True)
    parent, aside = lab.base / "parent", lab.base / "aside"
    parent.mkdir()
    lab.root.rename(parent / "tree")
    moved = ChangeSet(
        str(parent / "tree"), found.upper, found.started_ns, found.changes, found.identity
    )
    parent.rename(aside)
    parent.symlink_to(victim)
    for use in (
        lab.commit,
        lambda one: unified([one], 1000),
        lambda one: uncovered([one], {}, "/"),
    ):
        with pytest.raises(CommitConflict, match="replaced by another"):
            use(moved)
    assert list((victim / "tree").iterdir()) == []
    parent.unlink()
    aside.rename(parent)
    lab.commit(moved)
    assert (parent / "tree" / "new").exists()
    (parent / "tree").rename(lab.root)


def test_the_folder_of_journals_keeps_its_mode(lab: Lab) -> None:
    """Attack: open to others, it is refused from then on, and no call on a view works any more."""
    lab.state = lab.root / "state" / "transactions"
    lab.state.mkdir(parents=True, mode=0o700)
    lab.state.chmod(0o700)
    before = picture(lab.root)
    for path in ("state/transactions", "state"):
        with pytest.raises(CommitRefused, match="journals"):
            lab.commit(lab.run(f"os.chmod({path!r}, 0o777)"))
    (lab.state / "commit.lock").unlink()
    assert picture(lab.root) == before


@pytest.mark.parametrize(
    "damage",
    [
        {"root": 7},
        {"root": -1},
        {"slot": "../../victim"},
        {"path": "../victim"},
        {"path": "/etc/victim"},
        {"new": ["1", 0]},
        {"state": "dancing"},
    ],
)
def test_a_journal_that_no_commit_wrote_is_told_and_nothing_of_it_done(
    lab: Lab, damage: dict[str, Any]
) -> None:
    """Attack: planted by a tool that may write to the folder of journals."""
    lab.write("old")
    victim = lab.base / "victim"
    victim.write_text("mine")
    staging = lab.root / ".raw-commit-1"
    staging.mkdir()
    inode = lab.root.stat().st_ino
    head = {"version": 1, "roots": [[str(lab.root), inode, staging.name, 0, 0]], "state": "staging"}
    step = {"root": 0, "path": "old", "slot": "0", "new": [0, 0], "old": None}
    lines = [head, {**step, **damage}, {"state": "committing"}]
    lab.state.mkdir(mode=0o700)
    journal = lab.state / "0123.journal"
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    report = recover(lab.state)
    assert [reason for _tree, reason in report.failed] == ["the journal 0123 can't be read"]
    assert (victim.read_text(), (lab.root / "old").read_text()) == ("mine", "old\n")
    journal.unlink()
    staging.rmdir()


def test_deep_folders_cost_as_much_as_they_are_many(lab: Lab) -> None:
    """Attack: each path once looked at all that is above it, which took minutes."""
    looked: list[bytes] = []
    above = Ancestors(lambda path: bool(looked.append(path)))
    deep = [b"/".join([b"d"] * depth) for depth in range(1, 3000)]
    assert {above.nearest(path) for path in deep} == {None}
    assert len(looked) < len(deep)
    changes = [change(path.decode(), "create", "dir") for path in deep]
    found = arrange(changes, lambda _path: False, root="/r")
    assert (list(found.placements), len(found.placements[b"d"].inside)) == ([b"d"], len(deep) - 1)
    with lab_depth(lab, 2000) as made:
        lab.commit(made)
        assert lab.root.joinpath(*["d"] * 20).is_dir()


def test_what_a_call_made_inherits_no_access_list(lab: Lab) -> None:
    """Attack: a default list on the tree's top would open new files, while they wait, to others."""
    found = lab.run(
        f"""
        open('made', 'w').close(); os.mkdir('folder'); open('own', 'w').close()
        os.setxattr('own', 'system.posix_acl_access', {_access_list(0)!r})
        """
    )
    os.setxattr(lab.root, "system.posix_acl_default", _access_list(12345))
    lab.commit(found)
    for name, has_one in (("made", False), ("folder", False), ("own", True)):
        lists = [one for one in os.listxattr(lab.root / name) if one.startswith("system.posix_acl")]
        assert bool(lists) is has_one, name


def _access_list(user: int) -> bytes:
    """Return a list that opens a thing to one more user, as the kernel keeps it."""
    nobody = 0xFFFFFFFF
    entries = [(1, 7, nobody), (2, 7, user), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


class lab_depth:  # noqa: N801  (reads as the function that it is)
    """A chain of folders in the view, removed from both sides without recursion."""

    def __init__(self, lab: Lab, depth: int) -> None:
        self._lab, self._depth = lab, depth

    def __enter__(self) -> ChangeSet:
        code = f"for _ in range({self._depth}):\n    os.mkdir('d'); os.chdir('d')\n"
        return self._lab.run(code)

    def __exit__(self, *_exc: object) -> None:
        for top in (self._lab.root, self._lab.upper):
            while (top / "d").exists():
                inner = top / "d" / "d"
                if inner.exists():
                    inner.rename(top / "inner")
                (top / "d").rmdir()
                if (top / "inner").exists():
                    (top / "inner").rename(top / "d")


def test_a_long_declared_path_costs_no_more_than_it_is_long(lab: Lab) -> None:
    """Attack: a megabyte of names in one effect, each looked at with all that are above it."""
    lab.write("a/b", "old\n")
    (lab.root / "link").symlink_to("a")
    found = lab.run("open('a/b', 'w').write('new')")
    names = "/".join(["d"] * 15_000)
    for path, done in (
        (f"{lab.root}/{names}", False),
        (f"{lab.root}/{'/'.join(['d'] * 500_000)}", False),
        (f"{lab.root}/link/b", True),
        (f"{lab.root}/link/b/{names}", False),
    ):
        for operation in ("write", "delete"):
            effects = {"files": [{"path": path, "operation": operation}]}
            covers = done and operation == "write"
            assert (uncovered([found], effects, "/") == ()) is covers
            assert (not_done([found], effects, "/") == ()) is covers


def test_paths_have_a_bound_together(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: files in a deep folder take no room for the quota, and gigabytes as paths here."""
    source = "os.makedirs('x' * 200 + '/' + 'y' * 200)\nfor n in range(10):\n"
    source += "    open('x' * 200 + '/' + 'y' * 200 + f'/{n}', 'w').close()\n"
    lab.run(source)
    monkeypatch.setattr(observing.Walk, "__init__", _bounded(observing.Walk.__init__, 4000))
    with pytest.raises(CommitRefused, match="bytes together"):
        lab.changes()
    monkeypatch.undo()
    assert len(lab.changes().changes) == 12


def _bounded(made: Any, left_bytes: int) -> Any:
    def init(self: Any, *args: Any) -> None:
        made(self, *args, left_bytes)

    return init


@pytest.mark.parametrize(
    ("path", "is_one"),
    [(b"a", True), (b"a/.b/..c", True), (b"", False), (b"/a", False), (b"a/", False),
     (b"a//b", False), (b"./a", False), (b"a/..", False), (b"a\0", False)],
)  # fmt: skip
def test_paths_in_a_tree_are_plain_names(path: bytes, is_one: bool) -> None:
    """Our choice: checked without a look at each name."""
    assert is_relative(path) is is_one


@pytest.mark.slow
async def test_a_call_given_up_while_it_commits_has_its_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack on the truth: "aborted" would say that nothing was changed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = footprint()

    async def hook(_call: Any, _result: Any) -> None:
        await trio.lowlevel.checkpoint()

    async with open_world(tmp_path) as world:
        # What comes after the commit can be cancelled, too.
        object.__setattr__(world.runtime._services, "post_hooks", hook)
        found = (await world.runtime.launcher.capabilities())["overlay"]
        require("overlay", found["works"], str(found["message"]))
        token = trio.lowlevel.current_trio_token()
        for point, changed in (("rename", True), ("never", False)):
            with trio.CancelScope() as scope:
                points = [point]

                def fault(
                    name: str, points: list[str] = points, scope: trio.CancelScope = scope
                ) -> None:
                    if name in points:
                        points.clear()
                        trio.from_thread.run_sync(scope.cancel, trio_token=token)

                monkeypatch.setattr(syscalls, "fault", fault)
                if not changed:
                    scope.cancel()
                result = await world.run("observed", "open('f','w').write('x')")
            monkeypatch.setattr(syscalls, "fault", None)
            assert scope.cancelled_caught is not changed
            assert (world.ws / "f").exists() is changed
            if changed:
                assert (result.code, result.committed) == (None, True)
                (world.ws / "f").unlink()
    assert footprint() == before


@pytest.mark.slow
async def test_what_an_outcome_lists_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: a thousand paths of kilobytes each; what is left out is counted."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    code = "for _ in range(20):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\n"
    code += "for n in range(600):\n    open(str(n), 'w').close()\n"
    async with open_world(tmp_path) as world:
        found = (await world.runtime.launcher.capabilities())["overlay"]
        require("overlay", found["works"], str(found["message"]))
        for profile, code_wanted in (("observed", None), ("enforced", "undeclared_effects")):
            result = await world.run(profile, code)
            assert result.code == code_wanted, result
            assert len(json.dumps(result.as_dict())) < 2_000_000
            assert len(result.text) < 20_000
            assert result.usage["changes"] == 620
            assert result.usage["changes_omitted"] == 620 - len(result.changes) > 0
            if profile == "observed":
                assert result.committed
                os.rename(world.ws / ("d" * 200), tmp_path / "aside")
        assert tree(world.ws) == {}
