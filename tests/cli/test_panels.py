"""Panels and questions of ``raw tools call``, and ``raw panels``."""

from __future__ import annotations

import io
import json
import os
import re
import sqlite3

import pytest
import trio
from rich.console import Console

from raw_exec.cli.panel_screen import PanelScreen
from raw_exec.manifest import PanelDeclaration
from raw_exec.panels import PanelBoard
from requires import require_node

WHY = {"questions": [{"id": "why", "label": "Why?", "kind": "text"}]}
ANSWERED = {"status": "answered", "answers": {"why": "because"}}
STEPS = {
    "api_version": 2,
    "id": "steps",
    "version": "1.0.0",
    "name": "steps",
    "description": "Show steps. Example call: {}",
    "input_schema": {"type": "object"},
    "entry": "./index.py",
    "panels": [{"id": "p", "title": "Steps"}],
}
# Waits for whoever opens the other end: what was shown before was shown while it ran.
GATED = """
import os

def show(context, text):
    block = {'id': 'b', 'kind': 'markdown', 'text': text}
    context.panels.update('p', {'op': 'replace', 'document': {'blocks': [block]}})

def wait(context, name):
    with open(os.path.join(context.cwd, name)) as gate:
        gate.read()

def handler(args, context):
    show(context, 'first')
    wait(context, 'gate')
    show(context, 'second')
    return {'content': [{'type': 'text', 'text': 'done'}]}
"""
ASKING = """
import threading

def show(context, text):
    block = {'id': 'b', 'kind': 'markdown', 'text': text}
    context.panels.update('p', {'op': 'replace', 'document': {'blocks': [block]}})

def handler(args, context):
    show(context, 'before')
    got = []
    form = {'id': 'f', 'kind': 'form', 'fields': [{'id': 'a', 'label': 'Sure?', 'kind': 'text'}]}
    question = {'panel': 'p', 'document': {'blocks': [form]}}
    asking = threading.Thread(
        target=lambda: got.append(context.interactions.request(question)['answers']['a'])
    )
    asking.start()
    with open(context.cwd + '/gate') as gate:
        gate.read()
    show(context, 'meanwhile')
    with open(context.cwd + '/shown', 'w') as gate:
        gate.write('it is')
    asking.join()
    return {'content': [{'type': 'text', 'text': got[0]}]}
"""


def ask(*options: str) -> tuple[str, ...]:
    """Return the arguments of a question."""
    return ("tools", "call", "ask_user", "--args", json.dumps(WHY), *options)


def todo(todos: list[object], *options: str, mode: str = "replace") -> tuple[str, ...]:
    """Return the arguments of a call of ``todo``."""
    args = json.dumps({"mode": mode, "todos": todos})
    return ("tools", "call", "todo", "--args", args, *options)


@pytest.fixture
def builtin(home):
    """The two built-in tools that use sessions."""
    home.configure(["builtin/todo", "builtin/ask_user"])
    return home


def own_tool(home, source, **changes):
    """Select one tool with a panel ``p``."""
    home.add_tool(STEPS | changes, index__py=source)
    home.configure(["local/steps"])


# ---------------------------------------------------------------- questions


def test_ask_user_is_answered_at_the_terminal(builtin, at_terminal):
    """The answer is the tool's result; the question itself stays off standard output."""
    with at_terminal(*ask()) as terminal:
        shown = terminal.read_until("  > ")
        terminal.type("because\n")
        status, stdout = terminal.finish()
    assert "Question from builtin/ask_user" in shown
    assert "Why?" in shown
    assert (status, json.loads(stdout)) == (0, ANSWERED)


def test_ctrl_d_declines_the_question(builtin, at_terminal):
    """A declined question is the tool's own failure."""
    with at_terminal(*ask("--json")) as terminal:
        terminal.read_until("  > ")
        terminal.type("\x04")
        status, stdout = terminal.finish()
    assert (status, json.loads(stdout)["code"]) == (1, "interaction_cancelled")


def test_ctrl_c_at_a_question_takes_it_back_and_is_kept_as_cancelled(builtin, at_terminal):
    """Exit status 130; nothing pending is left behind."""
    with at_terminal(*ask("--history", "h.db", "--session", "s")) as terminal:
        terminal.read_until("  > ")
        terminal.type("\x03")
        assert terminal.finish() == (130, "")
    assert "(the question was taken back)" in terminal.shown
    with sqlite3.connect(builtin.work / "h.db") as db:
        assert db.execute("SELECT state FROM interactions").fetchall() == [("cancelled",)]


def test_a_piped_question_is_unavailable_at_once(builtin, raw):
    """Contract: nobody can be asked, exit status 4, whatever deadline the question has."""
    done = raw(*ask("--json"), stdin="because\n")
    result = json.loads(done.stdout)
    assert (done.returncode, result["code"]) == (4, "interaction_unavailable")
    assert result["detail"] == {"unanswered": "interaction_unavailable"}
    assert (done.returncode, raw(*ask()).returncode) == (4, 4)


def test_a_tool_that_only_says_interaction_unavailable_has_failed_by_itself(home, raw):
    """Security: a handler can return any code; only a question that we refused is status 4."""
    source = (
        "def handler(args, context):\n"
        "    return {'content': [], 'isError': True, 'code': 'interaction_unavailable'}\n"
    )
    own_tool(home, source)
    assert raw("tools", "call", "steps").returncode == 1


# ---------------------------------------------------------------- panels, live


def test_a_panel_is_drawn_while_the_handler_runs_and_then_in_its_place(home, at_terminal):
    """Live in place; standard output has only the result."""
    own_tool(home, GATED)
    os.mkfifo(home.work / "gate")
    with at_terminal("tools", "call", "steps") as terminal:
        terminal.read_until("first")
        assert terminal.process.poll() is None
        (home.work / "gate").write_text("go")
        between = terminal.read_until("second")
        assert terminal.finish() == (0, "done\n")
    assert re.search(r"\x1b\[1A", between), "the cursor went back up to the first line"
    assert "\x1b[2K" in between
    assert "first" not in between


def test_ctrl_c_leaves_the_terminal_and_the_history_in_order(home, at_terminal):
    """Exit status 130; the cursor was never hidden, and the panel that was shown is kept."""
    own_tool(home, GATED)
    os.mkfifo(home.work / "gate")
    with at_terminal("tools", "call", "steps", "--history", "h.db") as terminal:
        first = terminal.read_until("first")
        terminal.type("\x03")
        assert terminal.finish() == (130, "")
    assert "\x1b[?25l" not in first + terminal.shown
    with sqlite3.connect(home.work / "h.db") as db:
        assert db.execute("SELECT code FROM calls").fetchall() == [("aborted",)]
        assert db.execute("SELECT revision FROM panels").fetchall() == [(1,)]


def test_a_todo_list_is_drawn_at_the_terminal(builtin, at_terminal):
    """With what is done and what runs."""
    items = [
        {"label": "Read", "status": "done"},
        {"label": "Write", "status": "in_progress", "subtasks": [{"label": "Test"}]},
    ]
    with at_terminal(*todo(items)) as terminal:
        terminal.read_until("1/3")
        terminal.read_until("[x] Read")
        terminal.read_until("[>] Write")
        terminal.read_until("[ ] Test")
        status, stdout = terminal.finish()
    assert (status, json.loads(stdout)["total"]) == (0, 3)


def test_nothing_is_drawn_without_a_terminal(builtin, raw):
    """Standard error that is piped belongs to messages."""
    done = raw(*todo([{"label": "Read"}]))
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_is_drawn_when_quiet(builtin, at_terminal):
    """``-q``: the result only."""
    with at_terminal(*todo([{"label": "Read"}], "-q")) as terminal:
        status, _ = terminal.finish()
    assert (status, terminal.shown) == (0, "")


def test_nothing_is_drawn_over_a_question(home, at_terminal):
    """What is updated while somebody types is drawn when they are done."""
    own_tool(home, ASKING)
    for gate in ("gate", "shown"):
        os.mkfifo(home.work / gate)
    with at_terminal("tools", "call", "steps") as terminal:
        terminal.read_until("before")
        terminal.read_until("  > ")
        (home.work / "gate").write_text("go")
        assert (home.work / "shown").read_text() == "it is"
        terminal.type("yes\n")
        typed = terminal.read_until("meanwhile")
        assert terminal.finish() == (0, "yes\n")
    assert typed.startswith("yes\n"), "the next thing after the prompt is what was typed"


def test_a_panel_higher_than_the_terminal_is_cut_until_the_end(home, at_terminal):
    """What has scrolled away can't be drawn over; the last state is drawn whole."""
    own_tool(home, GATED.replace("show(context, 'first')", r"show(context, 'first\n' * 60)"))
    os.mkfifo(home.work / "gate")
    with at_terminal("tools", "call", "steps") as terminal:
        terminal.read_until("...")
        (home.work / "gate").write_text("go")
        between = terminal.read_until("second")
        terminal.finish()
    assert 10 < between.count("\x1b[1A") < 25


def test_a_paused_screen_draws_nothing_and_then_the_newest_state():
    """Whatever happens while somebody types, also in two panels."""
    board = PanelBoard({"local/t": [PanelDeclaration(n, n.title()) for n in "ab"]}, lambda: 0)
    call = board.open_call("local/t", "c")

    def view(panel, text):
        block = {"id": "b", "kind": "markdown", "text": text}
        call.update(panel, {"op": "replace", "document": {"blocks": [block]}})
        return board.view(f"local/t#{panel}")

    out = io.StringIO()
    screen = PanelScreen(Console(file=out, force_terminal=True, width=40))
    trio.run(screen.show, view("a", "one"))
    with screen.paused():
        before = out.getvalue()
        trio.run(screen.show, view("a", "two"))
        trio.run(screen.show, view("b", "three"))
        trio.run(screen.show, view("a", "four"))
        assert out.getvalue() == before
    screen.stop()
    drawn = out.getvalue().removeprefix(before)
    assert [word for word in ("one", "two", "three", "four") if word in drawn] == ["three", "four"]


def test_a_hostile_panel_can_not_move_the_cursor(home, at_terminal):
    """Security: bidi and other invisible characters are shown as what they are."""
    source = (
        "def handler(args, context):\n"
        "    text = 'a\\u202eb\\u200b\\u2066c'\n"
        "    block = {'id': 'b', 'kind': 'markdown', 'text': text}\n"
        "    context.panels.update('p', {'op': 'replace', 'document': {'blocks': [block]}})\n"
        "    return {'content': []}\n"
    )
    own_tool(home, source)
    with at_terminal("tools", "call", "steps") as terminal:
        terminal.read_until("a\\u{202e}b\\u{200b}\\u{2066}c")
        terminal.finish()
    assert [c for c in "\u202e\u200b\u2066" if c in terminal.shown] == []


# ---------------------------------------------------------------- kept sessions


def test_a_session_is_taken_up_where_it_was_left(builtin, raw):
    """The list of the first call is there for the second, in another process."""
    kept = ("--history", "h.db", "--session", "s")
    assert raw(*todo([{"label": "Read"}], *kept)).returncode == 0
    done = raw(*todo([{"id": "t1", "status": "done"}], *kept, mode="merge"))
    assert json.loads(done.stdout)["finished"] == 1
    assert ((builtin.work / "h.db").stat().st_mode & 0o777) == 0o600


def test_a_session_needs_a_history(builtin, raw):
    """A usage error, before anything runs."""
    done = raw(*todo([], "--session", "s"))
    assert done.returncode == 2
    assert "--history" in done.stderr


@pytest.mark.parametrize("what", ["newer", "not ours", "no database", "readable by others"])
def test_a_history_that_can_not_be_used_is_one_clear_error(builtin, raw, what):
    """Exit status 2, no traceback, and the call does not run."""
    path = builtin.work / "h.db"
    kept = ("--history", "h.db", "--session", "s", "--json")
    if what == "no database":
        path.write_bytes(b"x" * 5000)
        path.chmod(0o600)
    elif what == "not ours":
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE other (x)")
        path.chmod(0o600)
    else:
        assert raw(*todo([], *kept)).returncode == 0
        with sqlite3.connect(path) as db:
            if what == "newer":
                db.execute("PRAGMA user_version = 999")
        if what == "readable by others":
            path.chmod(0o644)
    codes = {
        "newer": "history_version",
        "not ours": "history_foreign",
        "no database": "history_corrupt",
        "readable by others": "history_not_private",
    }
    for done in (raw(*todo([], *kept)), raw("panels", "list", "--history", "h.db", "--json")):
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, codes[what])


def test_a_session_of_a_running_host_is_refused(builtin, raw, at_terminal):
    """Two hosts in one session would overwrite each other's panels."""
    kept = ("--history", "h.db", "--session", "s")
    with at_terminal(*ask(*kept)) as terminal:
        terminal.read_until("  > ")
        done = raw(*todo([], *kept, "--json"))
        terminal.type("because\n")
        assert terminal.finish()[0] == 0
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "session_in_use")


# ---------------------------------------------------------------- raw panels


@pytest.fixture
def kept(builtin, raw):
    """A history with a todo list in session ``s``."""
    items = [{"label": "Read the\tparser", "status": "in_progress"}, {"label": "Write"}]
    assert raw(*todo(items, "--history", "h.db", "--session", "s")).returncode == 0
    return builtin


def test_panels_are_listed(kept, raw):
    """As a table, and as JSON."""
    rows = raw("panels", "list", "--history", "h.db").stdout.splitlines()
    assert rows[0].split() == ["PANEL", "REVISION", "STATE", "STATUS", "SUMMARY"]
    assert rows[1].split()[:4] == ["builtin/todo#todo", "1", "open", "active"]
    value = json.loads(raw("panels", "list", "--history", "h.db", "--json").stdout)
    (row,) = value["panels"]
    assert (value["session"], row["id"], row["revision"]) == ("s", "builtin/todo#todo", 1)


@pytest.mark.parametrize("name", [(), ("todo",), ("builtin/todo#todo",)])
def test_a_panel_is_shown_as_text(kept, raw, name):
    """All of them, one by its short name, or one by its full ID."""
    done = raw("panels", "show", *name, "--history", "h.db", "--session", "s", "--width", "40")
    assert done.returncode == 0
    assert "[>] Read the" in done.stdout
    assert "[ ] Write" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 40


def test_a_panel_is_shown_as_json(kept, raw):
    """The document with derived values, as clients get it."""
    done = raw("panels", "show", "todo", "--history", "h.db", "--json")
    (panel,) = json.loads(done.stdout)["panels"]
    assert panel["document"]["progress"] == {"done": 0, "total": 2}
    assert [i["id"] for i in panel["document"]["blocks"][0]["items"]] == ["t1", "t2"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "nope", "--history", "h.db"),
        ("show", "--history", "h.db", "--session", "nope"),
        ("list", "--history", "nope.db"),
        ("list",),
        ("show", "--history", "h.db", "--width", "3"),
    ],
)
def test_what_is_not_there_is_a_usage_error(kept, raw, arguments):
    """Exit status 2, with what there is."""
    done = raw("panels", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")


def test_looking_makes_no_file(builtin, raw):
    """A mistyped path must not become an empty history."""
    assert raw("panels", "list", "--history", "nope.db").returncode == 2
    assert list(builtin.work.iterdir()) == []


def test_panels_of_an_esm_tool_are_drawn_too(home, at_terminal):
    """Both languages."""
    require_node()
    source = (
        "export async function handler(args, context) {\n"
        "  const block = { id: 'b', kind: 'progress', value: 3, max: 4, label: 'Copying' };\n"
        "  const document = { blocks: [block] };\n"
        "  await context.panels.update('p', { op: 'replace', document });\n"
        "  return { content: [{ type: 'text', text: 'done' }] };\n"
        "}\n"
    )
    home.add_tool(STEPS | {"entry": "./index.mjs"}, index__mjs=source)
    home.configure(["local/steps"])
    with at_terminal("tools", "call", "steps") as terminal:
        terminal.read_until("Copying")
        assert terminal.finish() == (0, "done\n")
