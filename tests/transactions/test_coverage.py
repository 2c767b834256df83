"""Which changes declared effects cover: one row for each thing that a call may do."""

from __future__ import annotations

import os
from typing import Any

import pytest

from raw_exec.transactions.coverage import not_done, uncovered
from tests.transactions.lab import Lab

TREE = ("a", "b", "d/x", "d/y", "d/e/z", "s/in")


def effects(lab: Lab, *items: str) -> dict[str, Any]:
    """Return described effects: ``"write a"`` and the like."""
    files = []
    for item in items:
        operation, path = item.split(" ", 1)
        files.append({"path": os.path.join(lab.root, path), "operation": operation})
    return {"files": files}


def bare(lab: Lab, found: Any, *items: str) -> list[str]:
    told = uncovered([found], effects(lab, *items), "/")
    assert all(any(change is one for one in found.changes) for change in told)
    return [f"{change.action} {os.fsdecode(change.path)}" for change in told]


# What is done; effects that cover it and are each needed; then effects that don't cover it, and
# what is left bare.
ROWS: dict[str, tuple[str, list[str], list[tuple[list[str], list[str]]]]] = {
    "write": (
        "open('a', 'w').write('n')",
        ["write a"],
        [(["delete a"], ["write a"]), (["write b"], ["write a"]), ([], ["write a"])],
    ),
    "create below new folders": (
        "os.makedirs('n/m'); open('n/m/f', 'w').close()",
        ["write n/m/f"],
        [
            (["write n"], ["create n/m", "create n/m/f"]),
            (["delete n/m/f"], ["create n", "create n/m", "create n/m/f"]),
        ],
    ),
    "make an empty folder": (
        "os.mkdir('n')",
        ["write n"],
        [(["write a"], ["create n"]), (["rename_source n"], ["create n"])],
    ),
    "one file more than declared": (
        "open('a', 'w').close(); open('a2', 'w').close()",
        ["write a", "write a2"],
        [(["write a"], ["create a2"])],
    ),
    "mode": ("os.chmod('a', 0o600)", ["write a"], [(["write b"], ["metadata a"])]),
    "mode of a folder": (
        "os.chmod('d', 0o700)",
        ["write d"],
        [(["write d/x"], ["metadata d"])],
    ),
    "delete": ("os.unlink('a')", ["delete a"], [(["write a"], ["delete a"])]),
    "delete a tree": (
        "import shutil; shutil.rmtree('d')",
        ["delete d"],
        [(["delete d/x", "delete d/y", "delete d/e/z"], ["delete d"])],
    ),
    "delete in a folder": (
        "os.unlink('d/x')",
        ["delete d/x"],
        [(["delete d"], []), (["delete d/y"], ["delete d/x"]), (["write d/x"], ["delete d/x"])],
    ),
    "move": (
        "os.rename('a', 'c')",
        ["rename_source a", "rename_destination c"],
        [(["rename_source c", "rename_destination a"], ["delete a", "create c"])],
    ),
    "move over a file": (
        "os.rename('a', 'b')",
        ["rename_source a", "rename_destination b"],
        [(["rename_source a"], ["write b"])],
    ),
    "move a new folder": (
        "os.mkdir('n'); open('n/x', 'w').close(); os.rename('n', 'm')",
        ["rename_destination m"],
        [(["rename_destination n"], ["create m", "create m/x"])],
    ),
    "rebuild a folder, file by file": (
        "import shutil; shutil.rmtree('d'); os.mkdir('d'); open('d/x', 'w').write('again')",
        ["delete d/y", "delete d/e", "write d/x"],
        [
            (["write d/x"], ["write d"]),
            (["delete d/y", "write d/x"], ["write d"]),
            (["delete d/e/z", "delete d/y", "write d/x"], ["write d"]),
        ],
    ),
    "rebuild a folder as a whole": (
        "import shutil; shutil.rmtree('d'); os.mkdir('d'); open('d/new', 'w').close()",
        ["delete d", "write d/new"],
        [(["rename_destination d"], ["write d"])],
    ),
    "rebuild an inner folder of one that is rebuilt": (
        "import shutil; shutil.rmtree('d'); os.makedirs('d/e'); open('d/e/n', 'w').close()",
        ["delete d/x", "delete d/y", "delete d/e/z", "write d/e/n"],
        [(["delete d/x", "delete d/y", "write d/e/n"], ["write d"])],
    ),
    "rebuild a folder with another mode": (
        "import shutil; shutil.rmtree('s'); os.mkdir('s'); os.chmod('s', 0o700)",
        ["delete s/in", "write s"],
        [(["delete s/in"], ["write s"])],
    ),
    "a file in the place of a folder": (
        "import shutil; shutil.rmtree('s'); open('s', 'w').close()",
        ["delete s", "write s"],
        [(["delete s/in", "write s"], ["write s"])],
    ),
    "a folder in the place of a file": (
        "os.unlink('a'); os.mkdir('a'); open('a/in', 'w').close()",
        ["delete a", "write a/in"],
        [(["write a/in"], ["write a"]), (["delete a"], ["write a", "create a/in"])],
    ),
    "an empty folder in the place of a file": (
        "os.unlink('a'); os.mkdir('a')",
        ["delete a", "write a"],
        [(["write a"], ["write a"]), (["delete a"], ["write a"])],
    ),
    "other kinds in a folder that is rebuilt": (
        "import shutil; shutil.rmtree('d'); os.makedirs('d/x'); open('d/x/n', 'w').close();"
        "open('d/e', 'w').close()",
        ["delete d/x", "delete d/y", "delete d/e", "write d/x/n", "write d/e"],
        [(["delete d/y", "delete d/e/z", "write d/x/n", "write d/e"], ["write d"])],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_changes_are_covered_by_just_these_effects(lab: Lab, name: str) -> None:
    """Each effect of a full set is needed, and others don't help."""
    for path in TREE:
        lab.write(path, path)
    source, full, rows = ROWS[name]
    found = lab.run(source)
    assert bare(lab, found, *full) == []
    assert not_done([found], effects(lab, *full), "/") == ()
    for left_out in full:
        assert bare(lab, found, *(item for item in full if item != left_out)), left_out
    for items, wanted in rows:
        assert bare(lab, found, *items) == wanted


def test_a_tool_without_effects_may_change_nothing(lab: Lab) -> None:
    """Nothing declared covers nothing."""
    lab.write("a")
    found = lab.run("open('a', 'a').close(); open('n', 'w').close()")
    for nothing in (None, {}, {"files": []}, {"files": "no list"}, {"files": [3, {}]}):
        assert [change.path for change in uncovered([found], nothing, "/")] == [b"n"]


def test_a_declared_path_also_covers_where_a_link_leads(lab: Lab) -> None:
    """Rules judge names; a write through a link is to what it leads to, a removal to itself."""
    lab.write("d/x")
    (lab.root / "link").symlink_to("d")
    (lab.root / "direct").symlink_to("d/x")
    found = lab.run("open('link/x', 'w').write('new')")
    assert bare(lab, found, "write link/x") == []
    assert bare(lab, found, "write direct") == []
    assert bare(lab, found, "rename_destination direct") == ["write d/x"]
    found = lab.run("os.unlink('direct')")
    assert bare(lab, found, "delete direct") == []
    found = lab.run("os.unlink('d/x')")
    assert bare(lab, found, "delete direct") == ["delete d/x"]
    assert bare(lab, found, "delete link/x") == []


@pytest.mark.parametrize("absolute", [False, True])
def test_a_link_needs_that_its_target_may_be_written(lab: Lab, absolute: bool) -> None:
    """Else one call makes a link of the name that it may write, and the next writes through it."""
    (lab.root / "secret").write_text("s")
    (lab.root / "notes").mkdir()
    target = str(lab.root / "secret") if absolute else "../secret"
    found = lab.run(f"os.symlink({target!r}, 'notes/a')")
    assert bare(lab, found, "write notes/a") == ["create notes/a"]
    assert bare(lab, found, "write secret") == ["create notes/a"]
    assert bare(lab, found, "write notes/a", "write secret") == []
    assert not_done([found], effects(lab, "write notes/a", "write secret"), str(lab.root)) == ()


def test_a_link_that_the_call_made_itself_covers_nothing(lab: Lab) -> None:
    """Attack: what a declared name leads to is looked up in the tree, not in the view."""
    lab.write("d/x")
    found = lab.run("os.symlink('d', 'link'); open('link/x', 'w').write('new')")
    assert bare(lab, found, "write link/x", "write link") == ["write d/x", "create link"]
    assert bare(lab, found, "write link/x", "write link", "write d") == ["write d/x"]


def test_paths_are_matched_by_whole_names(lab: Lab) -> None:
    """``a`` does not cover ``ab``; the root covers what is in it, for what works on folders."""
    lab.write("ab")
    found = lab.run("open('ab', 'w').write('n'); open('a', 'w').close()")
    assert bare(lab, found, "write a") == ["write ab"]
    assert bare(lab, found, "rename_destination .") == []
    assert bare(lab, lab.run("os.unlink('ab')"), "delete .") == []
    relative = {"files": [{"path": "ab", "operation": "write"}]}
    found = lab.run("open('ab', 'w').write('m')")
    assert uncovered([found], relative, str(lab.root)) == ()


def test_names_that_are_no_text_are_never_covered_by_accident(lab: Lab) -> None:
    """Effects are text; a lone surrogate or a NUL names no file."""
    found = lab.run("open(b'\\xff', 'w').close()")
    for path in ("\ud800", "\udcff\0", "\udcfe", ""):
        listed = {"files": [{"path": f"{lab.root}/{path}", "operation": "write"}]}
        assert len(uncovered([found], listed, "/")) == 1
    listed = {"files": [{"path": f"{lab.root}/\udcff", "operation": "write"}]}
    assert uncovered([found], listed, "/") == ()


def test_what_was_declared_and_not_done_is_told(lab: Lab) -> None:
    """Drift in the other direction."""
    for path in TREE:
        lab.write(path, path)
    found = lab.run("open('a', 'w').write('n'); open('b', 'a').close(); os.unlink('d/x')")
    declared = effects(lab, "write a", "write b", "delete d/x", "delete d/y", "rename_source d/x")
    outside = {"path": "/elsewhere/x", "operation": "write"}
    declared["files"].append(outside)
    assert not_done([found], declared, "/") == (
        {"path": str(lab.root / "b"), "operation": "write"},
        {"path": str(lab.root / "d/y"), "operation": "delete"},
        outside,
    )
