"""Commits of what a call changed on a real view: what comes into the tree, and what does not."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from raw_exec.errors import ConfigError
from raw_exec.transactions import syscalls
from raw_exec.transactions.changes import ChangeSet
from raw_exec.transactions.commit import CommitLimits
from raw_exec.transactions.errors import CommitConflict, CommitRefused
from raw_exec.transactions.journal import hold_commit_lock, open_state_dir
from tests.transactions.lab import Lab, change, now_ns, on_tree, picture, summary, wait_for_tick


def compare_with_direct(lab: Lab, source: str) -> ChangeSet:
    """Commit what code does on a view, and see that the code itself does the same."""
    direct = lab.base / "direct"
    shutil.copytree(lab.root, direct, symlinks=True)
    found = lab.run(source)
    lab.commit(found)
    on_tree(direct, source)
    assert picture(lab.root) == picture(direct)
    return found


def assert_nothing_changed(lab: Lab, found: ChangeSet, error: type[Exception]) -> Exception:
    """See that a commit is refused and leaves the tree as it is, to the last time."""
    before, top = picture(lab.root, times=True), lab.root.stat().st_mtime_ns
    with pytest.raises(error) as caught:
        lab.commit(found)
    assert picture(lab.root, times=True) == before
    assert lab.root.stat().st_mtime_ns == top
    assert lab.leftovers() == []
    return caught.value


def test_every_kind_of_change_is_committed(lab: Lab) -> None:
    """Files, directories, links, modes, empty directories, moves, removals."""
    for path in ("a", "d/b", "d/e/f", "gone/1", "gone/s/2", "built/x", "built/y/z", "mode"):
        lab.write(path, f"{path}\n")
    (lab.root / "link").symlink_to("a")
    found = compare_with_direct(
        lab,
        """
        import shutil
        open('a', 'a').write('more\\n')
        os.makedirs('n/m/empty'); open('n/m/z', 'w').write('z\\n'); os.symlink('../a', 'n/link')
        shutil.rmtree('gone')
        shutil.rmtree('built'); os.mkdir('built'); open('built/new', 'w').write('n\\n')
        os.chmod('mode', 0o600); os.chmod('d/e', 0o700)
        os.rename('d/b', 'd/c')
        os.unlink('link'); os.symlink('d', 'link')
        open('sticky', 'w').close(); os.chmod('sticky', 0o1640)
        """,
    )
    assert ("delete", "gone") in summary(found)
    assert ("write", "built") in summary(found)


def test_things_may_become_things_of_another_kind(lab: Lab) -> None:
    """Rename over a directory, and every other such exchange."""
    for path in ("full/1", "full/s/2", "empty/x", "file", "other", "moved/in", "place/old"):
        lab.write(path, f"{path}\n")
    (lab.root / "empty/x").unlink()
    (lab.root / "link").symlink_to("full")
    compare_with_direct(
        lab,
        """
        import shutil
        os.mkdir('made'); open('made/x', 'w').write('x'); os.rename('made', 'empty')
        shutil.rmtree('full'); open('full', 'w').write('a file now\\n')
        os.unlink('file'); os.mkdir('file'); open('file/in', 'w').write('i')
        os.unlink('link'); os.mkdir('link')
        os.unlink('other'); os.symlink('file', 'other')
        shutil.rmtree('place'); shutil.move('moved', 'place')
        """,
    )


def test_times_holes_attributes_and_shared_names_are_kept(lab: Lab) -> None:
    """What a copy easily loses."""
    lab.write("a")
    wanted = 1_000_000_000_123_456_789
    found = lab.run(
        f"""
        open('a', 'w').write('new\\n'); os.utime('a', ns=({wanted}, {wanted}))
        os.symlink('a', 'l'); os.utime('l', ns=({wanted}, {wanted}), follow_symlinks=False)
        os.mkdir('d'); open('d/x', 'w').write('x'); os.utime('d', ns=({wanted}, {wanted}))
        os.link('d/x', 'second'); os.setxattr('d/x', 'user.note', b'kept')
        os.setxattr('d', 'user.note', b'kept too')
        """
    )
    lab.commit(found)
    root = lab.root
    for path in ("a", "l", "d"):
        assert os.lstat(root / path).st_mtime_ns == wanted
    assert os.path.samefile(root / "d/x", root / "second")
    assert os.getxattr(root / "second", "user.note") == b"kept"
    assert os.getxattr(root / "d", "user.note") == b"kept too"


def test_a_sparse_file_of_4_gib_stays_sparse(lab: Lab) -> None:
    """Holes are neither filled nor read."""
    found = lab.run(
        """
        fd = os.open('big', os.O_RDWR | os.O_CREAT)
        os.ftruncate(fd, 4 << 30)
        os.pwrite(fd, b'middle', 2 << 30)
        """
    )
    report = lab.commit(found)
    status = (lab.root / "big").stat()
    assert status.st_size == 4 << 30
    assert status.st_blocks * 512 < 1 << 20
    assert report.copied_bytes < 1 << 20
    fd = os.open(lab.root / "big", os.O_RDONLY)
    assert os.pread(fd, 8, (2 << 30) - 1) == b"\0middle\0"
    os.close(fd)


def test_names_of_any_bytes_are_kept(lab: Lab) -> None:
    """Newlines, bytes that are no UTF-8, control characters, 255 bytes."""
    names = [b"new\nline", b"\xff\xfe", b"tab\there", b"\x1b[31m", b"quote\"'\\", b"x" * 255]
    root = os.fsencode(lab.root)
    for name in names[:3]:
        with open(os.path.join(root, name), "wb") as file:
            file.write(b"old")
    found = lab.run(
        f"""
        for name in {names!r}:
            os.makedirs(b'dir-' + name[:200])
            open(b'dir-' + name[:200] + b'/' + name, 'w').write('in')
            if os.path.exists(name):
                os.unlink(name)
            else:
                open(name, 'w').write('new')
        """
    )
    lab.commit(found)
    there = set(os.listdir(root))
    assert there == {*names[3:], *(b"dir-" + name[:200] for name in names)}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("os.mkfifo('p')", "named pipe"),
        ("import socket; socket.socket(socket.AF_UNIX).bind('s')", "socket"),
        ("open('f', 'w').close(); os.chmod('f', 0o4755)", "set-user-id"),
        ("open('f', 'w').close(); os.chmod('f', 0o2755)", "set-group-id"),
        ("os.symlink('/etc/passwd', 'l')", "leads out of the tree"),
        ("os.symlink('../outside', 'l')", "leads out of the tree"),
        ("os.mkdir('d'); os.symlink('../../outside', 'd/l')", "leads out of the tree"),
        ("os.symlink('old/../../outside', 'l')", "'..' after a name"),
        ("os.mkdir('d'); os.mkdir('d/e'); os.mkfifo('d/e/p')", "named pipe"),
        ("open('.raw-commit-x', 'w').close()", "kept for commits"),
        ("os.mkdir('n'); os.setxattr('n', 'user.overlay.opaque', b'y')", "user.overlay"),
        ("os.setxattr('stays', 'user.note', b'y')", "attributes were changed"),
    ],
)
def test_what_must_not_be_committed_is_refused(lab: Lab, source: str, reason: str) -> None:
    """Named, and nothing else of the call is committed either."""
    lab.write("old")
    lab.write("stays/x")
    found = lab.run(f"open('also', 'w').close()\n{source}")
    error = assert_nothing_changed(lab, found, CommitRefused)
    assert isinstance(error, CommitRefused)
    assert reason in str(error)
    assert error.as_detail()["problem_count"] == len(error.paths) == 1


def test_a_device_node_is_refused(lab: Lab) -> None:
    """A user namespace makes none, so it is said of a layer that is made by hand."""
    found = lab.run("open('x', 'w').close()")
    by_hand = ChangeSet(found.root, found.upper, found.started_ns, (change("x", kind="special"),))
    error = assert_nothing_changed(lab, by_hand, CommitRefused)
    assert "device node" in str(error)


def test_what_was_seen_as_another_kind_is_refused(lab: Lab) -> None:
    """The list of changes and the layer must agree: kinds are looked at again."""
    found = lab.run("os.mkfifo('x')")
    wrong = (change("x", "create", "file"),)
    error = assert_nothing_changed(
        lab, ChangeSet(found.root, found.upper, found.started_ns, wrong), CommitRefused
    )
    assert "is not the file" in str(error)


def test_paths_that_leave_the_root_are_refused(lab: Lab) -> None:
    """Whoever made the list: no path is resolved outside."""
    found = lab.run("open('x', 'w').close()")
    for path in ("../x", "/etc/x", "a/../../x", "a//x", ""):
        wrong = (change(path, "create"),)
        assert_nothing_changed(
            lab, ChangeSet(found.root, found.upper, found.started_ns, wrong), CommitRefused
        )


def test_links_and_bits_that_do_no_harm_are_committed(lab: Lab) -> None:
    """The other half of the refusals: not everything like them is refused."""
    lab.write("d/e/f")
    compare_with_direct(
        lab,
        """
        os.symlink('d/e', 'in'); os.symlink('../../d', 'd/e/up'); os.symlink('nowhere', 'broken')
        os.mkdir('shared'); os.chmod('shared', 0o2775); os.symlink('./d/./e', 'dots')
        """,
    )
    absolute = lab.run(f"os.symlink({str(lab.root / 'd')!r}, 'absolute')")
    lab.commit(absolute)
    assert (lab.root / "absolute/e/f").read_text() == "old\n"


CONFLICTS: dict[str, tuple[str, str]] = {
    "changed": ("open('a', 'w').write('mine')", "open('a', 'w').write('theirs')"),
    "touched": ("open('a', 'w').write('mine')", "os.utime('a')"),
    "removed": ("open('a', 'w').write('mine')", "os.unlink('a')"),
    "created": ("open('n', 'w').write('mine')", "open('n', 'w').write('theirs')"),
    "deleted what was changed": ("os.unlink('a')", "open('a', 'w').write('theirs')"),
    "deleted twice": ("os.unlink('a')", "os.unlink('a')"),
    "in a directory that goes": (
        "import shutil; shutil.rmtree('d')",
        "open('d/deep/er/new', 'w').close()",
    ),
    "deep in a directory that is replaced": (
        "import shutil; shutil.rmtree('d'); os.mkdir('d')",
        "open('d/deep/er/f', 'a').write('x')",
    ),
    "folder removed": (
        "open('d/deep/n', 'w').close()",
        "import shutil; shutil.rmtree('d/deep')",
    ),
    "folder became a link": (
        "open('d/deep/n', 'w').close()",
        "os.rename('d/deep', 'aside'); os.symlink('../aside', 'd/deep')",
    ),
    "folder exchanged for an older one": (
        "open('d/deep/n', 'w').close()",
        "os.rename('d/deep', 'aside'); os.rename('older', 'd/deep')",
    ),
    "mode of a folder": ("os.chmod('d', 0o700)", "os.chmod('d', 0o711)"),
    "replaced by a folder": ("open('a', 'w').write('mine')", "os.unlink('a'); os.mkdir('a')"),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_a_change_by_somebody_else_is_a_conflict(lab: Lab, name: str) -> None:
    """What lay below when the call started must still be there."""
    for path in ("a", "d/deep/er/f", "older/x"):
        lab.write(path)
    mine, theirs = CONFLICTS[name]
    found = lab.run(f"open('also', 'w').close()\n{mine}", meanwhile=theirs)
    error = assert_nothing_changed(lab, found, CommitConflict)
    assert isinstance(error, CommitConflict)
    assert error.code == "commit_conflict"
    assert error.paths


def test_changes_elsewhere_are_no_conflict(lab: Lab) -> None:
    """The other half: only what the call touches must be as it was."""
    for path in ("a", "b", "d/x", "d/e/y", "gone/1", "kept/2"):
        lab.write(path)
    found = lab.run(
        "import shutil; open('a', 'w').write('mine'); open('d/n', 'w').write('mine');"
        "shutil.rmtree('gone'); open('d/e/y', 'w').write('mine')",
        meanwhile="open('b', 'w').write('theirs'); open('d/x', 'w').write('theirs');"
        "open('d/other', 'w').write('theirs'); os.unlink('kept/2'); os.mkdir('new')",
    )
    lab.commit(found)
    read = {p: (lab.root / p).read_text() for p in ("a", "b", "d/x", "d/n", "d/other", "d/e/y")}
    assert read == {
        "a": "mine", "b": "theirs", "d/x": "theirs", "d/n": "mine", "d/other": "theirs",
        "d/e/y": "mine",
    }  # fmt: skip
    assert not (lab.root / "gone").exists()
    assert not (lab.root / "kept/2").exists()


def test_a_call_right_after_a_commit_does_not_conflict_with_it(lab: Lab) -> None:
    """Our choice: a commit ends when its times can be told from those of the next call."""
    for turn in range(5):
        lab.commit(lab.run(f"open('a', 'w').write('{turn}'); open('d{turn}', 'w').close()"))
        started = now_ns()
        assert all(path.stat().st_ctime_ns < started for path in (lab.root, *lab.root.iterdir()))
    assert (lab.root / "a").read_text() == "4"


def test_of_two_calls_on_one_file_the_second_commit_conflicts(lab: Lab) -> None:
    """Two calls on the same tree at once."""
    lab.write("a")
    lab.write("d/b")
    other = Lab(lab.base / "other")
    other.root = lab.root
    first = lab.run("open('a', 'w').write('first'); open('d/one', 'w').close()")
    second = other.run("open('a', 'w').write('second'); open('d/two', 'w').close()")
    lab.commit(first)
    assert_nothing_changed(other, second, CommitConflict)
    assert (lab.root / "a").read_text() == "first"
    other.close()


def test_two_calls_on_different_files_both_commit(lab: Lab) -> None:
    """The other half, in one folder and deeper."""
    lab.write("d/b")
    lab.write("d/e/c")
    other = Lab(lab.base / "other")
    other.root = lab.root
    first = lab.run("open('d/one', 'w').close(); os.unlink('d/b'); open('d/e/1', 'w').close()")
    second = other.run("open('d/two', 'w').close(); open('d/e/c', 'w').close()")
    lab.commit(first)
    other.commit(second)
    assert sorted(os.listdir(lab.root / "d")) == ["e", "one", "two"]
    assert sorted(os.listdir(lab.root / "d/e")) == ["1", "c"]
    other.close()


def test_another_name_of_a_file_keeps_what_it_had(lab: Lab) -> None:
    """Our choice: a commit changes names, never the bytes behind a name it was not told of."""
    outside = lab.base / "outside"
    outside.write_text("old\n")
    os.link(outside, lab.root / "one")
    os.link(outside, lab.root / "two")
    lab.write("third")
    found = lab.run("open('one', 'w').write('new'); open('two', 'a').write('more')")
    lab.commit(found)
    assert outside.read_text() == "old\n"
    assert (lab.root / "one").read_text() == "new"
    assert (lab.root / "two").read_text() == "old\nmore"


@pytest.fixture
def at_call() -> Iterator[Callable[[str, int, Callable[[], object]], None]]:
    """Do something just before the n-th system call of a name."""

    def hook(name: str, count: int, action: Callable[[], object]) -> None:
        left = count

        def fault(called: str) -> None:
            nonlocal left
            left -= called == name
            if called == name and left == 0:
                action()

        syscalls.fault = fault

    yield hook
    syscalls.fault = None


@pytest.mark.parametrize("parent", ["d", "d/deep"])
def test_a_link_put_into_the_way_is_not_followed(
    lab: Lab, parent: str, at_call: Callable[[str, int, Callable[[], object]], None]
) -> None:
    """Attack: between the check and the renames a folder becomes a link that leads outside."""
    lab.write("d/deep/a")
    lab.write("b")
    outside = lab.base / "outside"
    (outside / "deep").mkdir(parents=True)
    found = lab.run("open('b', 'w').write('mine'); open('d/deep/a', 'w').write('mine')")

    def swap() -> None:
        os.rename(lab.root / parent, lab.base / "aside")
        os.symlink(outside / "deep" if "/" in parent else outside, lab.root / parent)

    at_call("exchange", 1, swap)
    with pytest.raises(CommitConflict):
        lab.commit(found)
    syscalls.fault = None
    assert (lab.root / "b").read_text() == "old\n"
    assert [p for p in outside.rglob("*") if p.is_file()] == []
    assert (lab.base / "aside").joinpath(*Path("d/deep/a").parts[parent.count("/") + 1 :]).exists()


def test_staged_content_that_was_exchanged_is_not_moved_in(
    lab: Lab, at_call: Callable[[str, int, Callable[[], object]], None]
) -> None:
    """Attack: another process that may write to the tree writes to the private folder."""
    lab.write("a")
    found = lab.run("open('a', 'w').write('mine')")

    def swap() -> None:
        slot = next(lab.root.glob(".raw-commit-*/0"))
        slot.unlink()
        slot.symlink_to("/etc/passwd")

    at_call("fsync", 5, swap)
    with pytest.raises(CommitRefused, match="staged content was changed"):
        lab.commit(found)
    assert (lab.root / "a").read_text() == "old\n"


def test_a_file_changed_between_check_and_rename_is_a_conflict(
    lab: Lab, at_call: Callable[[str, int, Callable[[], object]], None]
) -> None:
    """What was made by then is taken back."""
    for path in ("a", "b", "c"):
        lab.write(path)
    found = lab.run("os.unlink('a'); open('b', 'w').write('mine'); open('n', 'w').close()")
    at_call("exchange", 1, lambda: (lab.root / "a").write_text("theirs"))
    with pytest.raises(CommitConflict):
        lab.commit(found)
    assert sorted(p.name for p in lab.root.iterdir()) == ["a", "b", "c"]
    assert (lab.root / "b").read_text() == "old\n"
    assert (lab.root / "a").read_text() == "theirs"


def test_an_ordinary_user_can_change_what_it_could_change_itself(lab: Lab) -> None:
    """Files and folders without permissions are the owner's all the same."""
    lab.write("closed/a", mode=0o400)
    lab.write("closed/goes/x")
    lab.write("moved/y")
    (lab.root / "closed/goes").chmod(0o500)
    (lab.root / "moved").chmod(0o500)
    (lab.root / "closed").chmod(0o500)
    found = lab.run(
        """
        import shutil
        os.chmod('closed', 0o700); os.chmod('closed/goes', 0o700); os.chmod('moved', 0o700)
        shutil.rmtree('closed/goes'); shutil.rmtree('moved')
        open('closed/new', 'w').write('n'); os.chmod('closed/new', 0)
        os.unlink('closed/a'); open('closed/a', 'w').write('mine'); os.chmod('closed/a', 0o200)
        os.mkdir('sealed'); open('sealed/x', 'w').write('x'); os.chmod('sealed', 0o500)
        os.chmod('closed', 0o500)
        """
    )
    lab.commit(found)
    root = lab.root
    modes = {p: stat.S_IMODE((root / p).stat().st_mode) for p in ("closed", "sealed")}
    assert modes == {"closed": 0o500, "sealed": 0o500}
    assert sorted(os.listdir(root / "closed")) == ["a", "new"]
    assert stat.S_IMODE((root / "closed/a").stat().st_mode) == 0o200
    assert not (root / "moved").exists()
    (root / "closed/a").chmod(0o600)
    assert (root / "closed/a").read_text() == "mine"


def test_bounds_are_kept(lab: Lab) -> None:
    """Over a bound the commit is refused with the bound, not cut."""
    for number in range(20):
        lab.write(f"gone/{number}")
    found = lab.run("import shutil; shutil.rmtree('gone'); open('n', 'w').close()")
    with pytest.raises(CommitRefused, match="at most 1 are committed"):
        lab.commit(found, limits=CommitLimits(changes=1))
    with pytest.raises(CommitRefused, match="more than 10 files"):
        lab.commit(found, limits=CommitLimits(checked_entries=10))
    lab.commit(found, limits=CommitLimits(changes=2, checked_entries=20))
    assert os.listdir(lab.root) == ["n"]


def test_nothing_to_commit_touches_nothing(lab: Lab) -> None:
    """Not even the state directory is made."""
    lab.write("a")
    found = lab.run("open('a').read(); open('a', 'a').close()")
    assert lab.commit(found).steps == 0
    assert not lab.state.exists()


def test_a_state_directory_that_others_may_use_is_refused(lab: Lab) -> None:
    """Who can write journals can have files moved in the user's name."""
    found = lab.run("open('x', 'w').close()")
    lab.state.mkdir(mode=0o755)
    with pytest.raises(ConfigError) as caught:
        lab.commit(found)
    assert caught.value.code == "state_dir_unusable"
    lab.state.chmod(0o700)
    lab.commit(found)
    assert (lab.root / "x").exists()


@pytest.mark.parametrize("source", ["open('state/x.journal', 'w').close()", "os.rmdir('state')"])
def test_journals_in_the_tree_can_not_be_written_by_a_call(lab: Lab, source: str) -> None:
    """A home directory may be granted, and holds the journals; the rest of it can be changed."""
    lab.state = lab.root / "state"
    lab.state.mkdir(mode=0o700)
    found = lab.run(source)
    with pytest.raises(CommitRefused, match="journals of commits are kept"):
        lab.commit(found)
    lab.commit(lab.run("open('other', 'w').close()"))
    assert (lab.root / "other").exists()


def test_two_trees_are_committed_together_or_not_at_all(lab: Lab) -> None:
    """One journal, all or nothing over every tree of a call."""
    lab.write("a")
    other = Lab(lab.base / "second")
    other.write("b")
    first = lab.run("open('a', 'w').write('mine')")
    second = other.run("open('b', 'w').write('mine')", meanwhile="os.unlink('b')")
    with pytest.raises(CommitConflict):
        lab.commit(first, second)
    assert (lab.root / "a").read_text() == "old\n"
    assert other.leftovers() == []
    other.write("b")
    wait_for_tick()
    second = other.run("open('b', 'w').write('mine')")
    lab.commit(first, second)
    assert (lab.root / "a").read_text() == (other.root / "b").read_text() == "mine"
    other.close()


def test_commits_at_the_same_time_are_one_after_the_other(lab: Lab) -> None:
    """Of many calls on one file one wins; what is each one's own is committed."""
    lab.write("shared")
    labs = []
    for number in range(6):
        labs.append(Lab(lab.base / f"{number}"))
        labs[-1].root = lab.root
    found = [
        one.run(
            f"open('own{number}', 'w').close(); os.mkdir('dir{number}')"
            + ("; open('shared', 'w').write('won')" if number % 2 else "")
        )
        for number, one in enumerate(labs)
    ]
    barrier = threading.Barrier(len(labs))

    def attempt(changes: ChangeSet) -> bool:
        barrier.wait(timeout=30)
        try:
            lab.commit(changes)
        except CommitConflict:
            return False
        return True

    with ThreadPoolExecutor(len(labs)) as threads:
        won = list(threads.map(attempt, found))
    assert won[::2] == [True] * 3
    assert won[1::2].count(True) == 1
    assert (lab.root / "shared").read_text() == "won"
    there = {f"own{number}" for number, one in enumerate(won) if one}
    assert {p.name for p in lab.root.glob("own*")} == there
    for one in labs:
        one.close()


def test_a_commit_waits_for_another_no_longer_than_it_is_told(lab: Lab) -> None:
    """A supervisor that was stopped in the middle must not hold all others for ever."""
    found = lab.run("open('n', 'w').close()")
    lab.state.mkdir(mode=0o700)
    with open_state_dir(lab.state) as directory, hold_commit_lock(directory, 0) as held:
        assert held
        with pytest.raises(CommitConflict, match="another commit was not done after 0 s"):
            lab.commit(found, limits=CommitLimits(lock_seconds=0))
    lab.commit(found)
    assert (lab.root / "n").exists()
