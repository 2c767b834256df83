"""``raw tools check``: everything about a tool but its handler's work."""

from __future__ import annotations

import json

import pytest

from requires import require_node

PLAIN = {"name": "t", "id": "t"}
EFFECTS = {
    "type": "object",
    "properties": {"files": {"type": "array", "items": {"type": "string"}}},
    "required": ["files"],
}


@pytest.fixture
def node():
    """For tests of ES modules."""
    require_node()


def checked(invoke, *args):
    """Return exit status and the JSON reports by target."""
    done = invoke("tools", "check", *args, "--json")
    data = json.loads(done.stdout)
    assert done.stderr == ""
    return done.exit_code, {report["target"]: report for report in data["tools"]}


def test_a_new_python_tool_passes_as_written(home, invoke):
    """Contract: ``raw tools new`` writes a tool that passes ``check`` as written."""
    invoke("tools", "new", "t", "--lang", "python")
    status, reports = checked(invoke, "local/t")
    report = reports["local/t"]
    assert (status, report["problems"], report["warnings"]) == (0, [], [])
    assert report["exports"] == ["handler", "validateArgs"]
    assert report["engine"] == "worker"
    assert "Python" in report["fallback"]


def test_a_new_esm_tool_passes_as_written(home, invoke, node):
    """Contract: the same for ES modules, whose descriptors run in process."""
    invoke("tools", "new", "t")
    status, reports = checked(invoke, "local/t")
    report = reports["local/t"]
    assert (status, report["problems"], report["warnings"]) == (0, [], [])
    assert report["exports"] == ["handler", "validateArgs"]
    assert (report["engine"], report["fallback"]) == ("wasm", None)


def test_people_read_one_line_per_fact(home, invoke):
    """The engine, and why it is not the fast one, are shown."""
    invoke("tools", "new", "t", "--lang", "python")
    done = invoke("tools", "check", "local/t")
    assert done.exit_code == 0
    assert done.stdout == (
        "ok    local/t 0.1.0 (python)\n"
        "      exports: handler, validateArgs\n"
        "      descriptors: in a descriptor worker: Python descriptors run in a descriptor "
        "worker\n"
    )


@pytest.mark.parametrize("form", ["path", "manifest", "relative", "identity", "id", "nothing"])
def test_a_target_can_be_named_in_several_ways(home, invoke, monkeypatch, form):
    """Contract: PATH is a folder anywhere; no target means every selected tool."""
    folder = home.add_append_notes()
    home.configure(["local/append_notes"])
    monkeypatch.chdir(home.tools)
    target = {
        "path": [str(folder)],
        "manifest": [str(folder / "tool.json")],
        "relative": ["./append_notes"],
        "identity": ["local/append_notes"],
        "id": ["append_notes"],
        "nothing": [],
    }[form]
    status, reports = checked(invoke, *target)
    assert (status, list(reports)) == (0, ["local/append_notes"])


def test_a_folder_outside_of_the_roots_is_checked_without_rules(home, invoke):
    """It has no identity yet."""
    home.configure(rules=[{"match": "*", "effect": "deny"}])
    invoke("tools", "new", "t", "--lang", "python", "--dir", "elsewhere")
    status, reports = checked(invoke, "elsewhere/t")
    assert (status, list(reports)) == (0, [str(home.work / "elsewhere" / "t")])


def test_a_target_that_does_not_exist_is_a_usage_error(home, invoke):
    """Exit status 2, not 3: nothing was checked."""
    done = invoke("tools", "check", "nope")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "'nope' is neither a tool folder nor a selected tool" in done.stderr


def test_every_problem_of_a_manifest_is_reported_with_its_place(home, invoke):
    """Contract: line and column, all at once; exit status 3."""
    folder = home.add_append_notes(version="1", surplus=True)
    status, reports = checked(invoke, str(folder))
    problems = reports["local/append_notes"]["problems"]
    assert status == 3
    assert {(p["stage"], p["pointer"]) for p in problems} == {
        ("manifest", "/version"),
        ("manifest", "/surplus"),
    }
    assert all(p["line"] and p["column"] and p["where"] for p in problems)
    done = invoke("tools", "check", str(folder))
    assert done.exit_code == 3
    for problem in problems:
        place = f"{problem['where']}:{problem['line']}:{problem['column']}"
        assert f"{place}: {problem['pointer']} " in done.stdout


def test_one_bad_tool_does_not_hide_the_others(home, invoke):
    """All selected tools are checked, whatever the first is like."""
    home.add_append_notes(version="1")
    invoke("tools", "new", "good", "--lang", "python")
    home.configure(["local/append_notes", "local/good", "local/missing"])
    status, reports = checked(invoke)
    assert status == 3
    assert {name: report["ok"] for name, report in reports.items()} == {
        "local/append_notes": False,
        "local/good": True,
        "local/missing": False,
    }


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("def other(a, c): pass", "handler"),
        ("handler = 7", "handler"),
        ("def handler(a, c)", "SyntaxError"),
        ("import no_such_module_here\ndef handler(a, c): pass", "no_such_module_here"),
    ],
)
def test_a_module_that_cannot_be_used_is_a_problem(home, invoke, source, word):
    """Contract: exports are checked."""
    folder = home.add_append_notes()
    (folder / "index.py").write_text(source + "\n")
    status, reports = checked(invoke, str(folder))
    assert status == 3
    (problem,) = reports["local/append_notes"]["problems"]
    assert word in problem["message"]


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("export const other = 1", "handler"),
        ("export const handler = 7", "handler"),
        ("export function handler( {", "SyntaxError"),
        ("import 'no-such-package'; export function handler() {}", "no-such-package"),
        ("export function validateArgs( {", "load"),
    ],
)
def test_an_es_module_that_cannot_be_used_is_a_problem(home, invoke, node, source, word):
    """Contract: the same for ES modules."""
    folder = home.add_append_notes(entry="./index.mjs")
    (folder / "index.mjs").write_text(source + "\n")
    status, reports = checked(invoke, str(folder))
    assert status == 3
    problems = reports["local/append_notes"]["problems"]
    assert any(word in problem["message"] for problem in problems)


def test_declared_effects_without_a_function_are_a_problem(home, invoke):
    """Every call would be refused."""
    folder = home.add_append_notes(effects_schema=EFFECTS)
    status, reports = checked(invoke, str(folder))
    assert status == 3
    (problem,) = reports["local/append_notes"]["problems"]
    assert (problem["stage"], "describeEffects" in problem["message"]) == ("effects", True)


def test_a_function_without_declared_effects_is_a_warning(home, invoke):
    """It is never called."""
    folder = home.add_append_notes()
    with (folder / "index.py").open("a") as file:
        file.write("def describe_effects(args, options):\n    return {}\n")
    status, reports = checked(invoke, str(folder))
    assert status == 0
    (warning,) = reports["local/append_notes"]["warnings"]
    assert "never called" in warning


def test_a_schema_that_is_not_portable_is_a_warning(home, invoke):
    """Contract: legal here, refused by some model providers."""
    schema = {"type": "object", "properties": {"path": {}, "text": {"type": ["string", "null"]}}}
    folder = home.add_append_notes(input_schema=schema)
    status, reports = checked(invoke, str(folder))
    warnings = reports["local/append_notes"]["warnings"]
    assert status == 0
    assert any(w.startswith("/input_schema/properties/path: ") for w in warnings)
    assert any("(open_object)" in w for w in warnings)


def test_a_rule_that_does_not_fit_is_a_problem(home, invoke):
    """Contract: an unknown path is a load error."""
    when = {"source": "arguments", "any": "nope", "regex": "x"}
    home.configure(["local/append_notes"], [{"match": "local/*", "effect": "ask", "when": when}])
    home.add_append_notes()
    status, reports = checked(invoke)
    assert status == 3
    (problem,) = reports["local/append_notes"]["problems"]
    assert problem["stage"] == "rules"


def test_the_handler_is_never_run_and_the_import_can_do_no_harm(home, invoke):
    """Contract: CI may check a tool it does not trust."""
    folder = home.add_append_notes()
    trace = home.work / "trace"
    (folder / "index.py").write_text(
        "def leave(name):\n"
        "    try:\n"
        f"        open({str(trace)!r} + name, 'w').close()\n"
        "    except OSError:\n"
        "        pass\n"
        "leave('import')\n"
        "def handler(args, context):\n"
        "    leave('handler')\n"
    )
    status, _ = checked(invoke, str(folder))
    assert status == 0
    assert list(home.work.iterdir()) == []


def test_a_selected_mcp_tool_is_not_passed_over(home, invoke):
    """What was not checked must not look as if it had been."""
    servers = {"server": {"command": "no-such-program-4711"}}
    home.configure(["mcp/server/thing"], mcp={"servers": servers})
    done = invoke("tools", "check")
    assert done.exit_code == 3
    assert "there is no program 'no-such-program-4711'" in done.stdout
    done = invoke("tools", "verify")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "'mcp/server/thing' can't be verified" in done.stderr


def test_an_agent_with_hooks_can_have_its_tools_checked(home, invoke):
    """No handler runs in a check, so no gate is missing."""
    home.add_append_notes()
    agent = {"tools": {"use": ["local/append_notes"]}, "hooks": {"use": ["local/gate"]}}
    home.configure(agents={"main": agent})
    status, _ = checked(invoke)
    assert status == 0
    done = invoke("tools", "verify")
    assert done.exit_code == 0  # there are no cases
