"""``raw hooks``, and where other commands speak of hooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raw_exec.cli.hooks_test import _EVENTS
from raw_exec.cli.main import cli
from raw_exec.manifest.hook import EVENTS
from tests.hooks.support import DENY, ECHO, configure, write_hook

WHEN = {"source": "arguments", "any": "text", "regex": "^rm"}
GUARD = [{"name": "PreToolUse", "match": "agent/t", "when": WHEN}]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A guard and an echo that are selected, one folder that is not."""
    guard = write_hook(tmp_path, "guard", DENY, GUARD)
    echo = write_hook(tmp_path, "echo", ECHO, [{"name": n} for n in ("PostToolUse", "Stop")])
    write_hook(tmp_path, "spare", "raise SystemExit(7)", [{"name": n} for n in EVENTS])
    configure(tmp_path, [guard, echo])
    return tmp_path


def raw(root: Path, *args: str) -> Result:
    """Run ``raw`` with the configuration of the test."""
    return CliRunner().invoke(cli, ["--config", str(root / "config.json"), *args])


def as_json(root: Path, *args: str) -> tuple[int, Any]:
    done = raw(root, *args, "--json")
    return done.exit_code, json.loads(done.stdout)


def test_the_command_knows_every_event() -> None:
    """The list is repeated so that help imports nothing heavy."""
    assert _EVENTS == EVENTS


def test_list_shows_the_selected_hooks_in_order(root: Path) -> None:
    """Issue: ``raw hooks list``."""
    status, data = as_json(root, "hooks", "list", "--all")
    assert (status, [row["hook"] for row in data["hooks"]]) == (0, ["agent/guard", "agent/echo"])
    assert data["unselected"] == ["agent/spare"]
    assert data["hooks"][0]["events"] == [
        {"index": 0, "event": "PreToolUse", "gate": True, "match": "agent/t", "when": WHEN}
    ]
    shown = raw(root, "hooks", "list").stdout
    assert "PreToolUse agent/t when arguments text matches '^rm'" in shown


def test_list_says_what_is_wrong(root: Path) -> None:
    """Everything is bound before anything is listed."""
    write_hook(root, "guard", DENY, [{"name": "PreToolUse", "when": {**WHEN, "any": "nope"}}])
    status, data = as_json(root, "hooks", "list")
    assert (status, data["error"]["code"]) == (2, "hooks_invalid")
    assert data["error"]["problems"][0]["pointer"] == "/agents/a/hooks/use/0"


def test_check_passes_good_hooks_and_names_what_is_wrong(root: Path) -> None:
    """Issue: ``raw hooks check``; 3 as for tools."""
    status, data = as_json(root, "hooks", "check")
    assert (status, data["ok"], [h["ok"] for h in data["hooks"]]) == (0, True, [True, True])
    write_hook(root, "spare", "", [{"name": "Stop"}], command="no-such-program-here")
    status, data = as_json(root, "hooks", "check", "agent/spare", "agent/gone", "agent/guard")
    assert (status, [h["ok"] for h in data["hooks"]]) == (3, [False, False, True])
    assert "no program 'no-such-program-here'" in data["hooks"][0]["problems"][0]
    assert data["hooks"][0]["warnings"] == ["agent 'a' does not select it"]
    assert "there is no such hook" in data["hooks"][1]["problems"][0]
    assert raw(root, "hooks", "check", "agent/gone").exit_code == 3


@pytest.mark.slow
def test_test_really_runs_the_hook_and_shows_what_it_is_told(root: Path) -> None:
    """Issue: payload, decision, time."""
    args = ("hooks", "test", "agent/guard", "--event", "PreToolUse", "--tool", "t")
    status, data = as_json(root, *args, "--args", '{"text":"rm x"}')
    elapsed = data.pop("elapsed_ms")
    assert elapsed > 0
    assert (status, data["payload"]["tool"]["arguments"]) == (4, {"text": "rm x"})
    del data["payload"]
    assert data == {
        "hook": "agent/guard",
        "event": "PreToolUse",
        "matches": True,
        "outcome": "denied",
        "decision": "deny",
        "message": "no",
        "error": None,
    }
    shown = raw(root, *args, "--args", '{"text":"rm x"}').stdout
    assert "decision: deny (denied)" in shown
    assert " ms" in shown


@pytest.mark.slow
def test_test_does_not_run_what_would_not_be_told_unless_forced(root: Path) -> None:
    """Our choice: the answer to "why does it not fire" is that it does not match."""
    args = ("hooks", "test", "agent/guard", "--event", "PreToolUse", "--tool", "agent/t")
    status, data = as_json(root, *args, "--args", '{"text":"ls"}')
    assert (status, data["matches"], data["outcome"]) == (0, False, None)
    assert "no entry of its events matches" in raw(root, *args).stdout
    status, data = as_json(root, *args, "--args", '{"text":"ls"}', "--force")
    assert (status, data["matches"], data["outcome"]) == (4, False, "denied")


@pytest.mark.slow
def test_test_makes_up_results_and_session_events(root: Path) -> None:
    """Every event can be tried."""
    result = '{"content":[],"isError":false}'
    status, data = as_json(
        root, "hooks", "test", "agent/echo", "--event", "PostToolUse", "--tool", "t",
        "--result", result, "--source", "user_action",
    )  # fmt: skip
    assert (status, json.loads(data["message"])) == (0, data["payload"])
    assert data["payload"]["tool"]["result"] == json.loads(result)
    assert data["payload"]["tool"]["source"] == "user_action"
    status, data = as_json(
        root, "hooks", "test", "agent/echo", "--event", "Stop", "--payload", '{"why":"done"}'
    )
    assert (status, data["payload"]["why"]) == (0, "done")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "status", "outcome"),
    [("UserPromptSubmit", 4, "blocked"), ("SessionEnd", 1, "warned")],
)
def test_test_tells_a_failing_gate_from_a_failing_notification(
    root: Path, event: str, status: int, outcome: str
) -> None:
    """A hook that is not selected can be tried too."""
    got, data = as_json(root, "hooks", "test", "agent/spare", "--event", event)
    assert (got, data["outcome"], data["error"]) == (status, outcome, "nonzero_exit")


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (("agent/guard",), 2),
        (("agent/guard", "--event", "PreToolUse"), 2),
        (("agent/guard", "--event", "Nope"), 2),
        (("agent/guard", "--event", "Stop", "--payload", "[]"), 2),
        (("agent/guard", "--event", "PostToolUse", "--tool", "t", "--result", "1"), 2),
        (("agent/gone", "--event", "Stop"), 2),
        (("guard", "--event", "Stop"), 2),
        (("agent/guard", "--event", "PreToolUse", "--tool", "nope"), 2),
        (("agent/guard", "--event", "PreToolUse", "--tool", "t", "--args", '{"x":1}'), 3),
    ],
)
def test_test_refuses_mistakes(root: Path, args: tuple[str, ...], status: int) -> None:
    """Exit status: 2 usage and configuration, 3 arguments; nothing runs."""
    assert raw(root, "hooks", "test", *args).exit_code == status


def test_config_list_shows_hooks_and_checks_them(root: Path) -> None:
    """Issue: ``raw config list`` shows hooks."""
    status, data = as_json(root, "config", "list")
    assert (status, [hook["hook"] for hook in data["hooks"]]) == (0, ["agent/guard", "agent/echo"])
    assert "agent/echo (profile hook): PostToolUse; Stop" in raw(root, "config", "list").stdout
    (root / "hooks" / "guard" / "hook.json").write_text("{}")
    assert as_json(root, "config", "list")[1]["error"]["code"] == "hooks_invalid"


@pytest.mark.slow
def test_explain_says_which_hooks_would_run(root: Path) -> None:
    """Issue: ``raw tools explain`` shows which hooks would run."""
    found = []
    for args in ((), ("--args", '{"text":"rm x"}'), ("--args", '{"text":"ls"}')):
        _, data = as_json(root, "tools", "explain", "t", *args)
        found.append([(hook["hook"], hook["event"], hook["runs"]) for hook in data["hooks"]])
    echo = ("agent/echo", "PostToolUse", True)
    assert found == [
        [("agent/guard", "PreToolUse", None), echo],
        [("agent/guard", "PreToolUse", True), echo],
        [("agent/guard", "PreToolUse", False), echo],
    ]
    shown = raw(root, "tools", "explain", "t", "--args", '{"text":"rm x"}').stdout
    assert "unless a hook denies it: agent/guard" in shown


@pytest.mark.slow
def test_call_prints_the_denial_and_its_json_has_the_receipts(root: Path) -> None:
    """Contract: exit 4 and code hook_denied."""
    args = ("tools", "call", "t", "--args", '{"text":"rm x"}')
    done = raw(root, *args)
    assert done.exit_code == 4
    assert "agent/t was denied by hook agent/guard: no" in done.stderr
    status, data = as_json(root, *args)
    assert (status, data["code"], len(data["hooks"])) == (4, "hook_denied", 1)


@pytest.mark.slow
def test_call_shows_messages_escaped_and_warnings(root: Path) -> None:
    """Text of plugins reaches a terminal only escaped."""
    say = "import json; print(json.dumps({'decision': 'continue', 'message': 'a\\x1b[2Jb'}))"
    write_hook(root, "say", say, [{"name": "PostToolUse"}])
    write_hook(root, "bad", "raise SystemExit(9)", [{"name": "PostToolUse"}])
    configure(root, ["agent/say", "agent/bad"])
    done = raw(root, "tools", "call", "t")
    assert (done.exit_code, done.stdout) == (0, "ran\n")
    assert "[hook agent/say] a\\x1b[2Jb" in done.stderr
    assert "hook agent/bad (PostToolUse): exited with status 9" in done.stderr


@pytest.mark.slow
def test_verify_asks_the_gates(root: Path) -> None:
    """A case runs a handler, so what guards handlers guards it."""
    write_hook(root, "guard", DENY, [{"name": "PreToolUse", "when": WHEN}])
    cases = root / "tools" / "t" / "cases"
    cases.mkdir()
    for name, text, expect in (
        ("stopped", "rm", {"is_error": True, "code": "hook_denied"}),
        ("runs", "ls", {"is_error": False}),
    ):
        case = {"args": {"text": text}, "expect": expect}
        (cases / f"{name}.json").write_text(json.dumps(case))
    done = raw(root, "tools", "verify", "agent/t")
    assert done.exit_code == 0, done.output
