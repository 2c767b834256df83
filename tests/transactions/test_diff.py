"""What a person is shown of changes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from raw_exec.transactions.changes import ChangeSet
from raw_exec.transactions.diff import unified
from requires import require
from tests.transactions.lab import Lab


def shown(found: ChangeSet, max_bytes: int = 100_000) -> list[str]:
    text = unified([found], max_bytes)
    assert len(text.encode()) <= max_bytes + 60  # and the line that says what is missing
    return text.splitlines()


def test_each_kind_of_change_is_told(lab: Lab) -> None:
    """Text as a diff, everything else as a line."""
    for path, content in {
        "text": "one\ntwo\nthree\n", "gone": "bye\n", "mode": "m\n", "bin": "a\0b", "d/x": "x\n",
        "r/y": "y\n", "end": "no newline",
    }.items():  # fmt: skip
        lab.write(path, content)
    (lab.root / "link").symlink_to("text")
    found = lab.run(
        """
        import shutil
        open('text', 'w').write('one\\n2\\nthree\\n'); os.unlink('gone'); os.chmod('mode', 0o600)
        open('bin', 'w').write('a\\0cd'); shutil.rmtree('d')
        shutil.rmtree('r'); os.mkdir('r')
        os.unlink('link'); os.symlink('mode', 'link'); os.symlink('x', 'new-link')
        open('end', 'w').write('no newline still'); os.mkdir('empty')
        open('new', 'w').write('hello\\n')
        """
    )
    assert shown(found) == [
        "changed file bin (3 bytes, binary before, 4 bytes, binary now)",
        "deleted directory d, with all that was in it",
        "created directory empty mode 755",
        "changed file end",
        "--- a/end",
        "+++ b/end",
        "@@ -1,1 +1,1 @@",
        "-no newline",
        "\\ no newline at the end",
        "+no newline still",
        "\\ no newline at the end",
        "deleted file gone",
        "--- a/gone",
        "+++ /dev/null",
        "@@ -1,1 +0,0 @@",
        "-bye",
        "changed link link from text to mode",
        "mode of mode 644 to 600",
        "created file new mode 644",
        "--- /dev/null",
        "+++ b/new",
        "@@ -0,0 +1,1 @@",
        "+hello",
        "created link new-link -> x",
        "replaced directory r, with all that was in it",
        "changed file text",
        "--- a/text",
        "+++ b/text",
        "@@ -1,3 +1,3 @@",
        " one",
        "-two",
        "+2",
        " three",
    ]


def test_hunks_apply_with_patch(lab: Lab, tmp_path: Path) -> None:
    """The line numbers are right: another program can apply the text."""
    patch = shutil.which("patch")
    require("patch", patch is not None, "there is no patch program")
    before = "".join(f"line {number}\n" for number in range(200))
    lab.write("f", before)
    found = lab.run(
        """
        lines = open('f').read().splitlines(True)
        lines[3] = 'changed\\n'; del lines[60:64]; lines[100:100] = ['new\\n', 'new too\\n']
        lines[-1] = 'last\\n'
        open('f', 'w').writelines(lines)
        """
    )
    text = unified([found], 100_000)
    target = tmp_path / "f"
    target.write_text(before)
    subprocess.run(
        [str(patch), "-p1"], input=text, text=True, check=True, cwd=tmp_path, capture_output=True
    )
    lab.commit(found)
    assert target.read_text() == (lab.root / "f").read_text()


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\rb", "\u202eright", "\u200bzero", "\x9bcsi"])
def test_control_characters_of_names_and_lines_are_escaped(lab: Lab, text: str) -> None:
    """Attack: what is shown to an approver must not move the cursor or turn text around."""
    lab.write("f", "plain\n")
    found = lab.run(
        f"open('f', 'w').write({text!r} + '\\n'); open({text!r}, 'w').close();"
        f"os.symlink({text!r}, 'l'); open('n\\n--- fake', 'w').close()"
    )
    for line in shown(found):
        assert line.isprintable()
        assert not line.startswith("--- fake")


def test_a_line_of_a_file_is_not_taken_for_the_head_of_another(lab: Lab) -> None:
    """Attack: ``-- a/x`` and ``++ b/x`` look like a head once they have their marks."""
    lab.write("f", "-- a/safe\n")
    found = lab.run("open('f', 'w').write('++ b/safe\\n')")
    lines = shown(found)
    assert lines[:3] == ["changed file f", "--- a/f", "+++ b/f"]
    assert lines[4:] == ["--- a/safe", "+++ b/safe"]
    assert sum(line.startswith("changed file ") for line in lines) == 1


def test_attributes_are_told_beside_content_and_alone(lab: Lab) -> None:
    """Attack: what is committed with a file, and is in none of its lines."""
    for name in ("both", "alone"):
        lab.write(name, "old\n")
    found = lab.run(
        """
        open('both', 'w').write('new\\n'); open('made', 'w').close(); os.mkdir('folder')
        for name in ('both', 'alone', 'made', 'folder'):
            os.setxattr(name, 'user.told', b'x')
        """
    )
    lines = shown(found)
    for name in ("both", "alone", "made", "folder"):
        assert f"attributes of {name} that differ: user.told" in lines
    assert "changed file alone: mode or attributes" in lines


def test_a_change_that_looks_the_same_escaped_is_still_shown(lab: Lab) -> None:
    """Attack: a real control character where the file had its escaped form."""
    lab.write("f", "a\\x0db\n")
    found = lab.run("open('f', 'w', newline='').write('a\\rb\\n')")
    assert shown(found)[3:] == ["@@ -1,1 +1,1 @@", "-a\\x0db", "+a\\x0db"]


def test_long_text_is_cut_with_a_mark(lab: Lab) -> None:
    """Nothing is left out without saying so."""
    found = lab.run("open('f', 'w').write('line\\n' * 1000); open('g', 'w').close()")
    lines = shown(found, 1000)
    assert lines[0] == "created file f mode 644"
    assert lines[-1].startswith("… [")
    assert lines[-1].endswith("lines not shown]")
    assert len(lines) > 100


def test_large_files_are_named_only(lab: Lab) -> None:
    """And never read whole: this one has 4 GiB."""
    lab.write("f", "x" * 300_000)
    found = lab.run("open('f', 'a').write('y'); os.truncate(os.open('s', 66), 4 << 30)")
    assert shown(found) == [
        "changed file f (300000 bytes before, 300001 bytes now)",
        "created file s mode 755 (4294967296 bytes)",
    ]


def test_files_that_are_costly_to_compare_are_shown_as_replaced(lab: Lab) -> None:
    """Attack: comparing lines takes time in proportion to old times new lines at best."""
    old = [f"{number % 90}\n" for number in range(8000)]
    lab.write("f", "first\n" + "".join(old))
    found = lab.run(
        "lines = open('f').read().splitlines(True)\n"
        "open('f', 'w').writelines(lines[:1] + lines[:0:-1])"
    )
    lines = shown(found, 1_000_000)
    assert lines[3:5] == ["@@ -1,8001 +1,8001 @@", "-first"] or lines[3:6] == [
        "@@ -1,8001 +1,8001 @@", "-first", "-0",
    ]  # fmt: skip
    assert len(lines) == 4 + 2 * 8001


def test_comparing_has_one_bound_for_all_files(lab: Lab) -> None:
    """Attack: many files, each just cheap enough; the second one is shown as replaced."""
    lines = [f"{number}\n" for number in range(900)]
    for name in ("f", "g"):
        lab.write(name, "".join(lines))
    found = lab.run(
        "for name in ('f', 'g'):\n"
        "    lines = open(name).read().splitlines(True)\n"
        "    open(name, 'w').writelines(['first\\n', *lines[1:-1], 'last\\n'])"
    )
    whole = shown(found)
    second = whole.index("changed file g")
    removed = [sum(line.startswith("-") for line in part) - 1 for part in (
        whole[:second], whole[second:])]  # fmt: skip
    assert removed == [2, 900]


def test_trees_are_named_when_there_are_several(lab: Lab) -> None:
    """Paths are relative to their tree."""
    other = Lab(lab.base / "second")
    one, two = lab.run("open('x', 'w').close()"), other.run("open('x', 'w').close()")
    assert unified([one, two], 10_000).splitlines() == [
        f"tree {lab.root}",
        "created file x mode 644",
        f"tree {other.root}",
        "created file x mode 644",
    ]
    other.close()
