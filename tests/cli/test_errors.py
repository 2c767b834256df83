"""A user's mistake is one line with a place and a hint, and the right exit status."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from raw_exec.cli import config as config_module
from raw_exec.cli.failures import Interrupted, exit_status_of, only_cause
from raw_exec.errors import (
    CallRefused,
    ConfigError,
    ContractError,
    InternalError,
    ManifestError,
    PolicyError,
    SandboxError,
    SchemaError,
    WorkerBroken,
    WorkerError,
)


@pytest.mark.parametrize(
    ("exc", "status"),
    [
        (ConfigError("config_invalid", "x"), 2),
        (PolicyError("rule_invalid", "x"), 2),
        (ManifestError("manifest_invalid", "x"), 3),
        (SchemaError("schema_invalid", "x"), 3),
        (CallRefused("tool_denied", "x", stage="rules"), 4),
        (WorkerBroken("worker_crashed", "x"), 5),
        (WorkerBroken("timeout", "x"), 6),
        (WorkerBroken("memory_limit", "x"), 6),
        (SandboxError("sandbox_unavailable", "x"), 7),
        (WorkerError("node_missing", "x"), 7),
        (ContractError("conflict", "x"), 8),
        (InternalError("internal", "x"), 70),
        (ValueError("x"), 70),
        (Interrupted(), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_kind_of_error_has_its_exit_status(exc, status):
    """Contract: design, "Command line"."""
    assert exit_status_of(exc) == status


def test_a_group_of_one_error_is_that_error():
    """Nurseries wrap what they raise, twice when nested."""
    inner = ConfigError("config_invalid", "x")
    assert only_cause(ExceptionGroup("", [ExceptionGroup("", [inner])])) is inner


def test_an_interrupt_in_a_group_beats_the_other_errors():
    """The user's Ctrl-C is why the others happened."""
    interrupt = KeyboardInterrupt()
    group = BaseExceptionGroup("", [ValueError("x"), interrupt])
    assert only_cause(group) is interrupt


def test_a_group_of_several_bugs_stays_a_group():
    """None of them may be lost."""
    group = ExceptionGroup("", [ValueError("x"), TypeError("y")])
    assert only_cause(group) is group


def test_one_problem_is_one_line_with_file_line_and_column(home, invoke):
    """Editors can follow ``file:line:column``."""
    home.config_file.write_text('{"agents":{"a":{"tols":{}}}}')
    done = invoke("config", "list")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"error: {home.config_file}:1:17: /agents/a/tols: unknown field 'tols'; "
        "did you mean 'tools'?\n"
    )


def test_several_problems_are_listed_each_with_its_place(home, invoke):
    """All at once, so that one edit can fix all of them."""
    home.config_file.write_text('{"agents":{"a":{"tols":{}}},\n "limit":{}}')
    done = invoke("config", "list")
    assert done.exit_code == 2
    first, *rest = done.stderr.splitlines()
    assert first == f"error: {home.config_file}: 2 problems"
    assert [line.split(": ")[0] for line in rest] == ["  1:17 /agents/a/tols", "  2:2 /limit"]


def test_json_errors_are_one_value_on_standard_output(home, invoke):
    """Contract: the same exit status, and nothing else on standard output."""
    home.config_file.write_text('{"agents":{"a":{"tols":{}}}}')
    done = invoke("--json", "config", "list")
    assert (done.exit_code, done.stderr) == (2, "")
    error = json.loads(done.stdout)["error"]
    assert sorted(error) == ["code", "hint", "message", "problems", "where"]
    assert error["code"] == "config_invalid"
    assert error["problems"][0] == {
        "pointer": "/agents/a/tols",
        "message": "unknown field 'tols'; did you mean 'tools'?",
        "line": 1,
        "column": 17,
    }


@pytest.mark.parametrize("args", [["tols"], ["tools", "cal"], ["--jsn"], ["tools", "call"]])
def test_a_mistake_in_the_command_line_says_where_to_look(invoke, args):
    """Exit status 2, one error line and one hint."""
    done = invoke(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("  hint: see: raw")


@pytest.mark.parametrize("args", [["--json", "tols"], ["tools", "call", "--json"]])
def test_a_mistake_in_the_command_line_is_json_when_asked(invoke, args):
    """Wherever ``--json`` stands, even after the mistake."""
    done = invoke(*args)
    assert (done.exit_code, done.stderr) == (2, "")
    assert json.loads(done.stdout)["error"]["code"] == "usage"


def test_a_wrong_command_name_gets_a_suggestion(invoke):
    """Our choice."""
    assert "did you mean 'tools'?" in invoke("tols").stderr


def _raise(*_args, **_kwargs):
    raise ZeroDivisionError("boom")


def test_a_bug_is_one_line_that_asks_for_a_report(invoke, monkeypatch):
    """Never a traceback, unless asked for."""
    monkeypatch.setattr(config_module.init, "callback", _raise)
    done = invoke("config", "init")
    assert (done.exit_code, done.stdout) == (70, "")
    assert done.stderr == (
        "error: internal error: ZeroDivisionError: boom\n"
        "  hint: this is a bug; please report it with what RAW_EXEC_DEBUG=1 prints\n"
    )


def test_a_bug_shows_its_traceback_when_asked(invoke, monkeypatch):
    """``RAW_EXEC_DEBUG=1`` is for the report."""
    monkeypatch.setenv("RAW_EXEC_DEBUG", "1")
    monkeypatch.setattr(config_module.init, "callback", _raise)
    done = invoke("config", "init")
    assert done.exit_code == 70
    assert "Traceback (most recent call last)" in done.stderr


def test_a_bug_is_json_when_asked(invoke, monkeypatch):
    """Programs never have to parse words."""
    monkeypatch.setattr(config_module.init, "callback", _raise)
    done = invoke("config", "init", "--json")
    assert done.exit_code == 70
    assert json.loads(done.stdout)["error"]["code"] == "internal"


def test_control_characters_in_an_error_are_escaped(invoke):
    """Security: a file name must not be able to move the cursor."""
    done = invoke("--config", "/nonexistent/\x1b[2J\u202e.json", "config", "list")
    assert done.exit_code == 2
    assert "\\x1b[2J\\u{202e}" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_closed_standard_output_is_not_a_traceback(home):
    """``raw … | head`` is normal."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m raw_exec completion bash | true"],
        capture_output=True,
        text=True,
        env=home.env,
        timeout=60,
    )
    assert done.stderr == ""


def in_shell(home, command, **env):
    """Run ``raw`` with its streams as a shell sets them up."""
    return subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m raw_exec {command}"],
        capture_output=True,
        text=True,
        env=home.env | env,
        timeout=60,
    )


@pytest.mark.parametrize("command", ["version --json", "version", "--version", "--help"])
def test_no_standard_output_at_all_is_no_bug(home, command):
    """A daemon's child may have none; nobody asked to be told."""
    done = in_shell(home, f"{command} <&- >&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("command", ["tols", "version --json"])
def test_no_standard_error_at_all_is_no_bug(home, command):
    """The exit status still says what happened."""
    done = in_shell(home, f"{command} 2>&-")
    assert done.returncode == (2 if command == "tols" else 0)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command", ["version --json", "version", "--version", "--json tols", "config list", "--help"]
)
def test_a_full_disk_under_standard_output_is_one_line(home, command, unbuffered):
    """Not a bug, not a traceback, and not success."""
    done = in_shell(home, f"{command} >/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("error: standard output: can not be written: No space left on device\n")
