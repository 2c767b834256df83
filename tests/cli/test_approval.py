"""The approval prompt, at a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios

import pytest

ASK = {"match": "local/append_notes", "effect": "ask"}
PROMPT = "run it? [y]es / [n]o: "
DESCRIBE = """

def describe_effects(args, options):
    path = os.path.normpath(os.path.join(options["cwd"], args["path"]))
    return {"files": [{"path": path, "operation": "write"}]}
"""
EFFECTS = {
    "type": "object",
    "properties": {
        "files": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "operation": {"type": "string"}},
                "required": ["path", "operation"],
            },
        }
    },
    "required": ["files"],
}


@pytest.fixture
def notes(home):
    """The seed's tool, which a rule sends to approval."""
    home.add_append_notes()
    home.configure(["local/append_notes"], [ASK])
    return home


def call(text="first\n", path="notes.txt", *options):
    """Return the arguments of a call."""
    args = json.dumps({"path": path, "text": text})
    return ("tools", "call", "append_notes", "--args", args, *options)


def test_yes_runs_the_call(notes, at_terminal):
    """Contract: answers allow and deny."""
    with at_terminal(*call()) as terminal:
        terminal.read_until(PROMPT)
        assert not (notes.work / "notes.txt").exists()
        terminal.type("y\n")
        assert terminal.finish() == (0, "Appended 6 bytes to notes.txt\n")
    assert (notes.work / "notes.txt").read_text() == "first\n"


def test_no_refuses_the_call(notes, at_terminal):
    """Contract: exit status 4, nothing ran."""
    with at_terminal(*call()) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("n\n")
        terminal.read_until("was not approved: denied at the terminal")
        assert terminal.finish() == (4, "")
    assert not (notes.work / "notes.txt").exists()


def test_anything_else_asks_again_and_the_end_of_input_refuses(notes, at_terminal):
    """Security: only a clear yes runs it."""
    with at_terminal(*call()) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("yep\n")
        terminal.read_until(PROMPT)
        terminal.type("\n")
        terminal.read_until(PROMPT)
        terminal.type("\x04")
        assert terminal.finish() == (4, "")
    assert not (notes.work / "notes.txt").exists()


@pytest.mark.parametrize("where", ["before", "after"])
def test_dash_y_does_not_pass_an_ask(notes, at_terminal, where):
    """Contract: ``-y`` never overrides an explicit ``ask``: the person is still asked."""
    args = ("-y", *call()) if where == "before" else call("first\n", "notes.txt", "-y")
    with at_terminal(*args) as terminal:
        terminal.read_until(PROMPT)
        assert not (notes.work / "notes.txt").exists()
        terminal.type("n\n")
        assert terminal.finish() == (4, "")


def test_identity_arguments_and_effects_are_shown_apart(home, at_terminal):
    """Contract: the interface shows intended effects apart from the raw arguments."""
    folder = home.add_append_notes(effects_schema=EFFECTS)
    with (folder / "index.py").open("a") as file:
        file.write(DESCRIBE)
    home.configure(["local/append_notes"], [ASK])
    with at_terminal(*call("first\n", "a/../notes.txt")) as terminal:
        lines = terminal.read_until(PROMPT).splitlines()
        terminal.type("n\n")
        terminal.finish()
    assert [line.rstrip() for line in lines] == [
        "Approve local/append_notes (called as append_notes)?",
        "  asked by rule 0: match 'local/append_notes'",
        "  arguments, as the model sent them:",
        "    {",
        '      "path": "a/../notes.txt",',
        '      "text": "first\\n"',
        "    }",
        "  intended effects, as the tool describes them:",
        "    {",
        '      "files": [',
        "        {",
        f'          "path": "{home.work}/notes.txt",',
        '          "operation": "write"',
        "        }",
        "      ]",
        "    }",
        "",
    ]


def test_control_and_bidi_characters_are_escaped_in_the_question(notes, at_terminal):
    """Security: the approval text is an attack surface."""
    hostile = "x\x1b[2J\x9b1A\u202egnp.exe\u200b\n"
    with at_terminal(*call(hostile)) as terminal:
        shown = terminal.read_until(PROMPT)
        terminal.type("n\n")
        terminal.finish()
    assert "gnp.exe" in shown
    assert [c for c in shown if not (c.isprintable() or c == "\n")] == []


def test_what_was_typed_before_the_question_does_not_answer_it(notes, at_terminal):
    """Security: a line typed ahead was not an answer to this question."""
    with at_terminal(*call()) as terminal:
        terminal.type("y\n")
        terminal.read_until(PROMPT)
        terminal.type("n\n")
        assert terminal.finish() == (4, "")
    assert not (notes.work / "notes.txt").exists()


def test_with_json_the_question_does_not_touch_standard_output(notes, at_terminal):
    """Contract: exactly one JSON value there."""
    with at_terminal(*call("first\n", "notes.txt", "--json")) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("y\n")
        status, stdout = terminal.finish()
    assert (status, json.loads(stdout)["code"]) == (0, None)


def test_ctrl_c_at_the_question_cancels_the_call(notes, at_terminal):
    """Contract: exit status 130, nothing ran."""
    with at_terminal(*call()) as terminal:
        terminal.read_until(PROMPT)
        terminal.type("\x03")
        terminal.read_until("error:")
        assert terminal.finish() == (130, "")
    assert not (notes.work / "notes.txt").exists()


def test_a_fixed_answer_does_not_ask(notes, at_terminal):
    """``--approve deny`` decides without a person, even where there is one."""
    with at_terminal(*call("first\n", "notes.txt", "--approve", "deny")) as terminal:
        terminal.read_until("was not approved: denied by --approve deny")
        assert terminal.finish() == (4, "")
    assert PROMPT not in terminal.shown


def test_a_background_job_is_refused_instead_of_stopped(notes, at_terminal):
    """Reading the terminal from the background would stop the process for ever."""
    script = (
        "import os, signal, subprocess, sys\n"
        "done = subprocess.run([sys.executable, '-m', 'raw_exec', *sys.argv[1:]],\n"
        "                      process_group=0, stderr=subprocess.DEVNULL)\n"
        "sys.exit(done.returncode)\n"
    )
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", script, *call()],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=notes.work,
        env=notes.env,
        preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0), None)[2],
    ) as process:
        os.close(theirs)
        try:
            assert process.wait(timeout=60) == 4
        finally:
            os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
            os.close(ours)
