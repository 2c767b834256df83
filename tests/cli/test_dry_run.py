"""``raw tools call --dry-run``: what a call would change, and nothing changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from requires import require
from tests.transactions.lab import has_views

GOOD = '{"path":"notes.txt","text":"second\\n"}'
EFFECTS = {
    "type": "object",
    "properties": {
        "files": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "operation": {"type": "string"}},
            },
        }
    },
}


@pytest.fixture
def notes(home):
    """The seed's tool, selected, with a note in its folder."""
    require("userns", not has_views(), has_views())
    home.add_append_notes()
    home.configure(["local/append_notes"])
    (home.work / "notes.txt").write_text("first\n")
    return home


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_dry_run_shows_changes_and_commits_nothing(notes, raw):
    """The handler ran for real; the tree is as it was."""
    before = files_of(notes.work)
    done = raw("tools", "call", "append_notes", "--args", GOOD, "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Appended 7 bytes to notes.txt",
        "dry run: 1 change to files, none committed",
        f"  write    {notes.work / 'notes.txt'} (file)",
        "changed file notes.txt",
        "--- a/notes.txt",
        "+++ b/notes.txt",
        "@@ -1,1 +1,2 @@",
        " first",
        "+second",
    ]
    assert files_of(notes.work) == before
    done = raw("tools", "call", "append_notes", "--args", GOOD)
    assert (done.returncode, done.stdout) == (0, "Appended 7 bytes to notes.txt\n")
    assert (notes.work / "notes.txt").read_text() == "first\nsecond\n"


def test_json_holds_changes_and_diff(notes, raw):
    """One value."""
    done = raw("tools", "call", "append_notes", "--args", GOOD, "--dry-run", "--json")
    data = json.loads(done.stdout)
    path = str(notes.work / "notes.txt")
    assert data["changes"] == [{"path": path, "action": "write", "kind": "file", "declared": False}]
    assert data["committed"] is False
    assert data["diff"].splitlines()[-1] == "+second"
    assert (notes.work / "notes.txt").read_text() == "first\n"


def test_a_call_that_changes_nothing_says_so(notes, raw):
    """A refused call has nothing to show; one that only reads has an empty list."""
    entry = notes.tools / "append_notes" / "index.py"
    entry.write_text("def handler(args, context):\n    return {'content': []}\n")
    done = raw("tools", "call", "append_notes", "--args", GOOD, "--dry-run")
    assert (done.returncode, done.stdout) == (0, "dry run: no changes to files, none committed\n")
    done = raw("tools", "call", "append_notes", "--args", "{}", "--dry-run")
    assert (done.returncode, done.stdout) == (3, "")


def test_what_was_not_declared_is_marked(notes, raw):
    """Drift, before it happens to anyone."""
    folder = notes.tools / "append_notes"
    manifest = json.loads((folder / "tool.json").read_text())
    manifest["effects_schema"] = EFFECTS
    (folder / "tool.json").write_text(json.dumps(manifest))
    (folder / "index.py").write_text(
        "import os\n"
        "def describe_effects(args, context):\n"
        "    path = os.path.join(context['cwd'], 'notes.txt')\n"
        "    return {'files': [{'path': path, 'operation': 'write'}]}\n"
        "def handler(args, context):\n"
        "    for name in ('notes.txt', 'hidden\\x1b.txt'):\n"
        "        with open(os.path.join(context.cwd, name), 'w') as file:\n"
        "            file.write('x')\n"
        "    return {'content': []}\n"
    )
    done = raw("tools", "call", "append_notes", "--args", GOOD, "--dry-run")
    assert done.stderr == ""
    assert done.stdout.splitlines()[:3] == [
        "dry run: 2 changes to files, none committed",
        f"  create   {notes.work}/hidden\\x1b.txt (file, not declared)",
        f"  write    {notes.work}/notes.txt (file)",
    ]


def test_a_dry_run_without_a_sandbox_is_refused(notes, raw):
    """There is nothing that could hold the files back: exit status 7, and nothing is run."""
    notes.configure(
        ["local/append_notes"],
        sandbox={"profiles": {"off": {"sandbox": "none"}}, "default": "off"},
    )
    done = raw("tools", "call", "append_notes", "--args", GOOD, "--dry-run")
    assert done.returncode == 7
    assert "hint:" in done.stderr
    assert (notes.work / "notes.txt").read_text() == "first\n"
