"""Interrupted commits: whatever the moment, the tree is the old one or the new one."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from raw_exec.errors import ConfigError
from raw_exec.transactions import syscalls
from raw_exec.transactions.commit import commit
from raw_exec.transactions.errors import CommitRefused
from raw_exec.transactions.journal import read_journal
from raw_exec.transactions.recover import recover, recover_at_start
from requires import require
from tests.transactions.lab import Lab, has_views, picture

PROGRAM = Path(__file__).with_name("kill_points.py")


class Killed(BaseException):
    """Stands for the end of the process: nothing in between may catch it."""


@pytest.fixture
def die_at() -> Iterator[Callable[[str, int], None]]:
    """End at the n-th system call of a name; every later one ends, too, as none would come."""

    def hook(name: str, count: int) -> None:
        left = count

        def fault(called: str) -> None:
            nonlocal left
            left -= called == name
            if left <= 0:
                raise Killed

        syscalls.fault = fault

    yield hook
    syscalls.fault = None


def interrupt(lab: Lab, die_at: Callable[[str, int], None], name: str, count: int) -> None:
    """Commit what the view has and be killed on the way."""
    found = lab.changes()
    die_at(name, count)
    with pytest.raises(Killed):
        commit([found], state_dir=lab.state)
    syscalls.fault = None


def interrupt_and_take_away(lab: Lab, die_at: Callable[[str, int], None]) -> Path:
    """Be killed while a changed file is put in place, and lose the tree; return where it is."""
    lab.write("a")
    lab.run("open('a', 'w').write('mine')")
    interrupt(lab, die_at, "exchange", 1)
    elsewhere = lab.base / "elsewhere"
    lab.root.rename(elsewhere)
    return elsewhere


def points(folder: Path, mode: str) -> dict[str, Any]:
    require("userns", not has_views(), has_views())
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder / mode), mode],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_a_commit_and_a_recovery_may_be_killed_before_any_system_call(
    memory_folder: Path,
) -> None:
    """Exactly old, with every time, or exactly new; and never old after new."""
    found = points(memory_folder, "kill")
    assert found["wrong"] == {}
    assert found["ordered"]
    assert found["points"] > 200
    assert found["old"] > 50
    assert found["new"] > 50
    assert found["recoveries"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["once", "on"])
def test_any_system_call_of_a_commit_may_fail(memory_folder: Path, mode: str) -> None:
    """A full disk, alone or for good: refused with the tree as it was, or committed."""
    found = points(memory_folder, mode)
    assert found["wrong"] == {}
    assert found["points"] > 200
    assert found["old"] > 100


def test_a_running_commit_is_left_alone(lab: Lab) -> None:
    """Recovery tells a live process from a dead one by the lock on its journal."""
    lab.write("a")
    found = lab.run("open('a', 'w').write('mine'); open('n', 'w').close()")
    seen: list[bool] = []

    def fault(name: str) -> None:
        if name in ("chmod", "rename"):  # new content is put together; the tree is changed
            syscalls.fault = None
            seen.append(name == "chmod")
            report = recover(lab.state, wait_seconds=0)
            held = [(str(lab.state), "a running commit holds the lock")]
            assert report.failed == ([] if name == "chmod" else held)
            assert not report.finished + report.undone
            syscalls.fault = fault

    syscalls.fault = fault
    try:
        lab.commit(found)
    finally:
        syscalls.fault = None
    assert set(seen) == {True, False}
    assert (lab.root / "a").read_text() == "mine"


def test_a_commit_brings_an_interrupted_one_to_its_end_first(
    lab: Lab, die_at: Callable[[str, int], None]
) -> None:
    """Otherwise it would be checked against a tree that is in between."""
    for path in ("a", "b", "c"):
        lab.write(path)
    lab.run("open('a', 'w').write('first'); open('b', 'w').write('first')")
    interrupt(lab, die_at, "exchange", 2)
    assert (lab.root / "a").read_text() != (lab.root / "b").read_text()
    report = lab.commit(lab.run("open('c', 'w').write('second')"))
    assert report.recovered.finished == [str(lab.root)]
    assert [(lab.root / p).read_text() for p in "abc"] == ["first", "first", "second"]


def test_what_somebody_changed_after_the_kill_is_left(
    lab: Lab, die_at: Callable[[str, int], None]
) -> None:
    """Our choice: as if it had come after the commit, which is finished around it."""
    for path in ("a", "b", "c"):
        lab.write(path)
    lab.run("open('a', 'w').write('mine'); open('b', 'w').write('mine'); os.unlink('c')")
    interrupt(lab, die_at, "exchange", 2)
    (lab.root / "b").write_text("theirs")
    report = recover(lab.state)
    assert report.left == [os.fsencode(lab.root / "b")]
    assert report.finished == [str(lab.root)]
    assert (lab.root / "a").read_text() == "mine"
    assert (lab.root / "b").read_text() == "theirs"
    assert not (lab.root / "c").exists()


def test_a_commit_whose_new_content_is_gone_is_undone(
    lab: Lab, die_at: Callable[[str, int], None]
) -> None:
    """What can't be finished is taken back."""
    lab.write("a")
    lab.write("b")
    before = picture(lab.root, times=True)
    lab.run("open('a', 'w').write('mine'); open('b', 'w').write('mine')")
    interrupt(lab, die_at, "exchange", 2)
    next(lab.root.glob(".raw-commit-*/1")).unlink()
    report = recover(lab.state)
    assert report.undone == [str(lab.root)]
    assert picture(lab.root, times=True) == before


def test_a_tree_that_is_gone_is_told_and_its_journal_kept(
    lab: Lab, die_at: Callable[[str, int], None]
) -> None:
    """It may be a disk that is not mounted just now."""
    elsewhere = interrupt_and_take_away(lab, die_at)
    report = recover(lab.state)
    assert [path for path, _reason in report.failed] == [str(lab.root)]
    elsewhere.rename(lab.root)
    assert recover(lab.state).finished == [str(lab.root)]
    assert (lab.root / "a").read_text() == "mine"


def test_another_directory_under_the_name_of_a_tree_is_not_touched(
    lab: Lab, die_at: Callable[[str, int], None]
) -> None:
    """The journal knows the directory, not only its path."""
    elsewhere = interrupt_and_take_away(lab, die_at)
    lab.root.mkdir()
    (lab.root / "a").write_text("another")
    assert recover(lab.state).failed
    assert (lab.root / "a").read_text() == "another"
    (lab.root / "a").unlink()
    lab.root.rmdir()
    elsewhere.rename(lab.root)
    assert recover(lab.state).finished == [str(lab.root)]


def test_a_commit_waits_for_a_recovery_of_its_own_tree_only(
    lab: Lab, die_at: Callable[[str, int], None]
) -> None:
    """A tree that is in between is not committed to; another with a name like it is."""
    elsewhere = interrupt_and_take_away(lab, die_at)
    own, beside, within = lab.root, lab.base / "tree2", lab.root / "inner"
    for lab.root in (own, within, beside):
        lab.root.mkdir()
        found = lab.run("open('n', 'w').close()")
        if lab.root == beside:
            assert [tree for tree, _reason in lab.commit(found).recovered.failed] == [str(own)]
            continue
        with pytest.raises(CommitRefused, match="neither be finished nor undone"):
            lab.commit(found)
    assert os.listdir(beside) == ["n"]
    lab.root = own
    within.rmdir()
    own.rmdir()
    elsewhere.rename(own)
    assert recover(lab.state).finished == [str(own)]


def test_a_journal_that_can_not_be_read_is_kept_and_told(lab: Lab) -> None:
    """Nothing is concluded from half of it."""
    lab.state.mkdir(mode=0o700)
    journal = lab.state / "0123.journal"
    for data in (b'{"version":99,"roots":[],"state":"staging"}\n', b"garbage\n", b"[1]\n"):
        journal.write_bytes(data)
        report = recover(lab.state)
        assert "can't be read" in report.failed[0][1]
        assert journal.read_bytes() == data
    journal.write_bytes(b'{"version":1,"roots":[["/tr')  # killed while it was begun
    assert not recover(lab.state)
    assert not journal.exists()


def test_states_are_read_up_to_the_last_complete_line() -> None:
    """A line that was not finished is as good as not written; padding is no line."""
    head = b'{"version":1,"roots":[["/t",5,".raw-commit-x",1,2]],"state":"staging"}\n'
    step = b'{"root":0,"path":"a\\udcff","slot":"0","new":[7,8],"old":[1,2,33188]}\n'
    state = b'{"state":"committing"}         \n'
    for cut in range(len(step)):
        text, at = read_journal(head + step[:cut])
        assert (text.state, text.steps, text.damaged, at) == ("staging", [], False, len(head))
    text, at = read_journal(head + step + state + b" " * 99)
    assert (text.state, text.damaged, at) == ("committing", False, len(head + step + state))
    assert text.steps[0].path == b"a\xff"
    text, _at = read_journal(head + step + b"\x00\x00\n" + state)
    assert text.damaged


def test_a_state_directory_of_somebody_else_is_not_trusted(lab: Lab) -> None:
    """Recovery does what journals say."""
    lab.state.mkdir(mode=0o777)
    lab.state.chmod(0o777)
    with pytest.raises(ConfigError) as caught:
        recover(lab.state)
    assert caught.value.code == "state_dir_unusable"
    lab.state.chmod(0o700)
    assert not recover(lab.state)


async def test_a_runtime_recovers_before_its_first_call_and_says_so(
    lab: Lab, die_at: Callable[[str, int], None], caplog: pytest.LogCaptureFixture
) -> None:
    """A supervisor killed in the middle finishes or undoes at the next start."""
    lab.write("a")
    lab.run("open('a', 'w').write('mine')")
    interrupt(lab, die_at, "exchange", 1)
    with caplog.at_level(logging.WARNING):
        await recover_at_start(lab.state)
    assert (lab.root / "a").read_text() == "mine"
    assert "an interrupted commit was finished" in caplog.text
    await recover_at_start(lab.base / "not there")
