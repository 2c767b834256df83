"""``raw vars``: names, exit codes, and what is never printed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import raw_exec
from tests.variables.support import TOKEN, configure, provider, variable

ENTRY = [sys.executable, "-m", "raw_exec", "--config", "raw.json"]
PACKAGE = str(Path(raw_exec.__file__).parent.parent)


def raw(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run ``raw --config raw.json`` in a folder."""
    return subprocess.run(
        [*ENTRY, *args],
        cwd=root,
        env={**os.environ, "PYTHONPATH": PACKAGE},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A configuration with variables of every access and luck."""
    configure(
        tmp_path,
        {
            "open": variable("literal", value={"a": [1]}, type="object"),
            "key": variable("literal", "use", value=TOKEN),
            "other": variable("literal", value=TOKEN),
            "asked": variable("provider", name="good", type="number"),
            "broken": variable("provider", name="bad"),
        },
        {
            "good": provider(tmp_path, "good", "print('{\"value\":7}')"),
            "bad": provider(tmp_path, "bad", f"print({TOKEN!r}); raise SystemExit(2)"),
        },
        select=["open", "key", "asked", "broken"],
    )
    return tmp_path


def test_list_shows_what_is_selected_and_runs_nothing(root: Path) -> None:
    """Design: ``raw vars list``; names, types and access, no value."""
    done = raw(root, "vars", "list", "--json")
    rows = json.loads(done.stdout)["vars"]
    assert (done.returncode, [(row["name"], row["type"], row["access"]) for row in rows]) == (
        0,
        [
            ("open", "object", "read"),
            ("key", "json", "use"),
            ("asked", "number", "read"),
            ("broken", "json", "read"),
        ],
    )
    table = raw(root, "vars", "list")
    assert table.stdout.splitlines()[0].split() == ["NAME", "TYPE", "ACCESS", "DESCRIPTION"]
    assert TOKEN not in done.stdout + table.stdout + table.stderr


@pytest.mark.parametrize(("name", "value"), [("open", {"a": [1]}), ("asked", 7)])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_get_prints_one_json_object(root: Path, name: str, value: Any, options: list[str]) -> None:
    """The acceptance script reads ``value`` from it."""
    done = raw(root, "vars", "get", name, *options)
    shown = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert shown | {"observed_at": ""} == {
        "name": name,
        "value": value,
        "observed_at": "",
        "cached": False,
    }


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("key", "access_denied"),
        ("other", "not_selected"),
        ("missing", "not_selected"),
        ("broken", "nonzero_exit"),
    ],
)
def test_a_value_that_can_not_be_had_is_exit_one(root: Path, name: str, code: str) -> None:
    """Contract: resolution or access failures 1, and no value in any output."""
    done = raw(root, "vars", "get", name)
    as_json = raw(root, "vars", "get", name, "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: variable ")
    assert (as_json.returncode, json.loads(as_json.stdout)["error"]["code"]) == (1, code)
    assert TOKEN not in done.stderr + as_json.stdout + as_json.stderr


def test_a_wrong_configuration_is_exit_two(root: Path) -> None:
    """Contract: config errors 2; its secret is not echoed."""
    (root / "raw.json").write_text(json.dumps({"vars": {"v": {"sorce": TOKEN}}}))
    for args in (["vars", "list"], ["vars", "get", "v"]):
        done = raw(root, *args)
        assert (done.returncode, done.stdout) == (2, "")
        assert TOKEN not in done.stderr


def test_an_interrupt_is_exit_130_and_leaves_no_provider(tmp_path: Path) -> None:
    """Contract: cancellation 130."""
    source = "import os\nopen('up').read()\nimport time; time.sleep(999)"
    os.mkfifo(tmp_path / "up")
    configure(
        tmp_path,
        {"v": variable("provider", name="p")},
        {"p": provider(tmp_path, "p", source, timeout_ms=60_000)},
    )
    process = subprocess.Popen(
        [*ENTRY, "vars", "get", "v", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PACKAGE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        (tmp_path / "up").write_text("")  # returns once the provider has opened its end
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, json.loads(out)["error"]["code"]) == (130, "aborted")
    assert len(family) >= 2  # the launcher and the provider
    assert [child for child in family if child.is_running()] == []
