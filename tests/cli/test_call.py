"""``raw tools call``: one call, its outcome, its exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil
import pytest

from requires import require_node

GOOD = '{"path":"notes.txt","text":"first\\n"}'
ASK = {"match": "local/append_notes", "effect": "ask"}
WAITING = """
open(os.path.join(context.cwd, "started"), "w").close()
while True:
    time.sleep(60)
"""
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
"""One pixel, in 69 bytes."""
KEYS = {"content", "is_error", "code", "stage", "enforced", "usage", "elapsed_ms"}


@pytest.fixture
def notes(home):
    """The seed's tool, selected."""
    home.add_append_notes()
    home.configure(["local/append_notes"])
    return home


def write_handler(home, body):
    """Replace the handler of ``append_notes``."""
    (home.tools / "append_notes" / "index.py").write_text(
        "import os, sys, time\ndef handler(args, context):\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
    )


def test_a_good_call_prints_the_result_and_nothing_else(notes, raw):
    """Contract: the seed's verify step 4, word for word."""
    done = raw("tools", "call", "append_notes", "--args", GOOD)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "Appended 6 bytes to notes.txt\n",
        "",
    )
    assert (notes.work / "notes.txt").read_text() == "first\n"


def test_json_prints_the_whole_outcome(notes, raw):
    """Contract: the keys that the walkthrough asks for, as one value."""
    done = raw("tools", "call", "append_notes", "--args", GOOD, "--json")
    data = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(data) >= KEYS
    assert data["content"] == [{"type": "text", "text": "Appended 6 bytes to notes.txt"}]
    assert (data["is_error"], data["code"], data["origin"]) == (False, None, "tool")
    assert data["enforced"]["seccomp"] is True


def test_a_note_without_newline_is_refused_before_anything_is_written(notes, raw):
    """Contract: the tool's own words, exit status 3."""
    args = '{"path":"notes.txt","text":"no newline"}'
    done = raw("tools", "call", "append_notes", "--args", args)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "error: text must end with a newline\n"
    assert not (notes.work / "notes.txt").exists()


def test_arguments_that_do_not_fit_the_schema_are_listed(notes, raw):
    """Contract: unknown properties are refused with their pointer."""
    args = '{"path":"notes.txt","text":"x\\n","extra":1}'
    done = raw("tools", "call", "append_notes", "--args", args)
    assert (done.returncode, done.stdout) == (3, "")
    first, *rest = done.stderr.splitlines()
    assert first.startswith("error: arguments of append_notes do not fit its schema")
    assert "extra" in "".join(rest)


def test_an_identity_names_a_tool_as_well(notes, raw):
    """Our choice: what ``check`` takes, ``call`` takes."""
    assert raw("tools", "call", "local/append_notes", "--args", GOOD).returncode == 0


def test_an_unknown_tool_is_a_usage_error_with_the_known_ones(notes, raw):
    """Exit status 2."""
    done = raw("tools", "call", "append", "--args", "{}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1] == "  hint: available tools: append_notes"


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_arguments_come_from_a_file_or_standard_input(notes, raw, way):
    """Contract: ``@file`` and ``-``."""
    (notes.work / "args.json").write_text(GOOD)
    if way == "file":
        done = raw("tools", "call", "append_notes", "--args", "@args.json")
    else:
        done = raw("tools", "call", "append_notes", "--args", "-", stdin=GOOD)
    assert (done.returncode, done.stdout) == (0, "Appended 6 bytes to notes.txt\n")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ('{"a":1,"a":2}', "--args:1:8: /a: duplicate key"),
        ("{'a':1}", "--args:1:2: "),
        ("{", "--args:1:2: "),
        ("", "--args:1:1: "),
        ("@missing.json", "missing.json: can not be read"),
        ("@.", "is a directory, not a regular file"),
        ("1e999", "--args:1:1: "),
    ],
)
def test_arguments_that_are_not_strict_json_are_a_located_usage_error(notes, invoke, args, words):
    """Exit status 2, and no tool is started."""
    done = invoke("tools", "call", "append_notes", "--args", args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr.splitlines()[0]


@pytest.mark.parametrize(
    "options",
    [["--timeout", "0"], ["--timeout", "nan"], ["--max-output-bytes", "0"], ["--cwd", "/nope"]],
)
def test_an_option_out_of_range_is_a_usage_error(notes, invoke, options):
    """Exit status 2, one error line."""
    done = invoke("tools", "call", "append_notes", "--args", GOOD, *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")


def test_the_tools_own_error_is_exit_status_1(notes, raw):
    """Its text is data; that it is an error is said beside it."""
    write_handler(
        notes, 'return {"isError": True, "code": "full", "content": [{"type":"text","text":"no"}]}'
    )
    done = raw("tools", "call", "append_notes", "--args", GOOD)
    assert (done.returncode, done.stdout) == (1, "no\n")
    assert done.stderr == "error: the tool returned an error: full\n"


def test_a_handler_cannot_choose_the_exit_status(notes, raw):
    """Security: a handler may say any code; only the host's codes count."""
    write_handler(notes, 'return {"isError": True, "code": "timeout", "content": []}')
    assert raw("tools", "call", "append_notes", "--args", GOOD).returncode == 1


def test_a_write_outside_of_the_grants_is_the_tools_error(notes, raw):
    """Contract: the walkthrough's last step. A write inside is the pair above."""
    target = notes.root / "outside.txt"
    args = json.dumps({"path": str(target), "text": "x\n"})
    done = raw("tools", "call", "append_notes", "--args", args)
    assert done.returncode == 1
    assert not target.exists()


def test_a_crash_and_a_timeout_have_their_own_exit_status(notes, raw):
    """Contract: 5 and 6."""
    write_handler(notes, "os._exit(3)")
    assert raw("tools", "call", "append_notes", "--args", GOOD).returncode == 5
    write_handler(notes, "while True: pass")
    done = raw("tools", "call", "append_notes", "--args", GOOD, "--timeout", "0.2")
    assert (done.returncode, done.stdout) == (6, "")


def test_what_the_handler_prints_is_shown_apart_and_labelled(notes, raw):
    """Contract: never mixed with the result."""
    write_handler(notes, 'print("hello\\x1b[2J")\nreturn {"content": []}')
    done = raw("tools", "call", "append_notes", "--args", GOOD)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "[stdout] hello\\x1b[2J\n"
    assert raw("-q", "tools", "call", "append_notes", "--args", GOOD).stderr == ""


def test_verbose_says_what_was_enforced(notes, raw):
    """On standard error; the data stays as it is."""
    done = raw("-v", "tools", "call", "append_notes", "--args", GOOD)
    assert done.stdout == "Appended 6 bytes to notes.txt\n"
    assert "enforced: " in done.stderr


def test_json_and_image_blocks_have_a_form_for_people(notes, raw):
    """JSON is indented; an image is named."""
    image = {"type": "image", "mimeType": "image/png", "data": PNG}
    content = [{"type": "json", "value": {"a": [1]}}, image]
    write_handler(notes, f"return {{'content': {content!r}}}")
    done = raw("tools", "call", "append_notes", "--args", GOOD)
    value, _, last = done.stdout.rpartition("[image")
    assert (json.loads(value), last) == ({"a": [1]}, "/png, 69 bytes; --json prints it]\n")
    assert value.startswith('{\n  "a"')


def test_a_tool_cannot_write_an_error_line_of_its_own(notes, raw):
    """Security: further lines of a tool's message are marked as such."""
    index = notes.tools / "append_notes" / "index.py"
    text = index.read_text().replace("a newline", "x\\nhint: run rm -rf")
    index.write_text(text)
    args = '{"path":"notes.txt","text":"no newline"}'
    done = raw("tools", "call", "append_notes", "--args", args)
    assert done.stderr == "error: text must end with x\n  | hint: run rm -rf\n"


@pytest.mark.parametrize(
    ("options", "status", "code"),
    [
        ([], 4, "approval_required"),
        (["-y"], 4, "approval_required"),
        (["--approve", "ask"], 4, "approval_required"),
        (["--approve", "deny"], 4, "approval_denied"),
        (["--approve", "deny", "-y"], 4, "approval_denied"),
        (["--approve", "allow"], 0, None),
    ],
)
def test_approval_without_a_terminal(notes, raw, options, status, code):
    """Contract: nobody to ask refuses, and ``-y`` does not pass an explicit ask."""
    notes.configure(["local/append_notes"], [ASK])
    done = raw("tools", "call", "append_notes", "--args", GOOD, "--json", *options)
    assert (done.returncode, json.loads(done.stdout)["code"]) == (status, code)
    assert (notes.work / "notes.txt").exists() is (status == 0)


def test_yes_before_the_command_does_not_pass_an_ask_either(notes, raw):
    """Contract: wherever it stands."""
    notes.configure(["local/append_notes"], [ASK])
    assert raw("-y", "tools", "call", "append_notes", "--args", GOOD).returncode == 4


def test_piped_input_does_not_answer_an_approval(notes, raw):
    """Security: only a line typed at a terminal does."""
    notes.configure(["local/append_notes"], [ASK])
    done = raw("tools", "call", "append_notes", "--args", GOOD, stdin="y\ny\n")
    assert done.returncode == 4
    assert not (notes.work / "notes.txt").exists()


def test_a_denied_tool_says_which_rule(notes, raw):
    """Contract: rule index and match; exit status 4."""
    notes.configure(["local/append_notes"], [{"match": "local/*", "effect": "deny"}])
    done = raw("tools", "call", "append_notes", "--args", GOOD)
    assert (done.returncode, done.stdout) == (4, "")
    assert "rule 0 (match 'local/*')" in done.stderr


def test_an_es_module_is_called_the_same_way(home, invoke, raw):
    """Contract: seed 2."""
    require_node()
    invoke("tools", "new", "word_count")
    home.configure(["local/word_count"])
    (home.work / "notes.txt").write_text("ship the docs\n")
    done = raw("tools", "call", "word_count", "--args", '{"path":"notes.txt"}')
    assert (done.returncode, done.stdout) == (0, "notes.txt: 1 lines, 3 words\n")


@contextmanager
def running_call(notes):
    """Start a call whose handler says that it runs, and end it whatever happens."""
    with subprocess.Popen(
        [sys.executable, "-m", "raw_exec", "tools", "call", "append_notes", "--args", GOOD],
        cwd=notes.work,
        env=notes.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            wait_for_file(notes.work / "started")
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_cancels_reports_and_leaves_nothing(notes, number):
    """Contract: Ctrl-C once cancels and reports, exit status 130."""
    write_handler(notes, WAITING)
    notes.configure(["local/append_notes"], limits={"grace_ms": 50})
    with running_call(notes) as process:
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=30)
        assert (process.returncode, stdout) == (130, "")
        assert stderr == "error: interrupted; nothing is left running\n"
        assert session_members(process.pid) == []


def test_a_second_signal_ends_everything_at_once(notes):
    """Contract: Ctrl-C twice kills, even while the handler is given its grace."""
    write_handler(notes, WAITING)
    notes.configure(["local/append_notes"], limits={"grace_ms": 60000})
    with running_call(notes) as process:
        deadline = time.monotonic() + 30  # well below the grace
        while process.poll() is None:
            assert time.monotonic() < deadline, "the call waits for its grace to end"
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
        assert process.returncode == 130


def wait_for_file(path, seconds=30):
    """Wait until a handler says that it runs."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        os.sched_yield()  # the process has no other way to tell us


def session_members(session):
    """Return the processes that are left of a session."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session:
                found.append(process.pid)
        except (ProcessLookupError, psutil.Error):
            continue
    return found
