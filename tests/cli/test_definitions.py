"""``raw tools definitions`` and what ``raw tools check`` says about providers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from raw_exec.cli.main import cli
from raw_exec.profiles import LINT_PROFILES, PROFILES
from toolbox import write_config, write_tool

CLOSED = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
BRANCHES = {**CLOSED, "required": [], "anyOf": [{"required": ["text"]}]}


def _run(config: Path, *args: str) -> Any:
    return CliRunner().invoke(cli, ["--config", str(config), "tools", *args])


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_definitions_are_printed_as_they_are_sent(tmp_path: Path, profile: str) -> None:
    """Exactly what to send, JSON on standard output."""
    write_tool(tmp_path, "echo", "", language="python", schema=CLOSED)
    done = _run(write_config(tmp_path, ["echo"]), "definitions", "--for", profile)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "echo" in json.dumps(json.loads(done.stdout))


def test_without_a_provider_they_are_those_of_the_library(tmp_path: Path) -> None:
    """``runtime.registry.definitions()``."""
    write_tool(tmp_path, "echo", "", language="python", schema=CLOSED)
    done = _run(write_config(tmp_path, ["echo"]), "definitions")
    (definition,) = json.loads(done.stdout)
    assert sorted(definition) == ["description", "input_schema", "name"]


def test_a_withheld_tool_is_explained_and_the_rest_are_printed(tmp_path: Path) -> None:
    """One bad schema must not sink the request."""
    write_tool(tmp_path, "echo", "", language="python", schema=CLOSED)
    write_tool(tmp_path, "cases", "", language="python", schema=BRANCHES)
    config = write_config(tmp_path, ["echo", "cases"])
    done = _run(config, "definitions", "--for", "anthropic")
    assert [tool["name"] for tool in json.loads(done.stdout)] == ["echo"]
    assert done.exit_code == 3
    assert "agent/cases is withheld from anthropic" in done.stderr
    assert "/input_schema/anyOf" in done.stderr


def test_an_unknown_provider_is_a_usage_error(tmp_path: Path) -> None:
    """The known ones are listed."""
    done = _run(write_config(tmp_path, []), "definitions", "--for", "antropic")
    assert done.exit_code == 2
    assert "openai-strict" in done.stderr


def test_check_says_how_a_tool_fits_every_provider(tmp_path: Path) -> None:
    """The lint; what a provider can't be told does not fail the check."""
    source = "def handler(args, context):\n    return {'content': []}\n"
    write_tool(tmp_path, "cases", source, language="python", schema=BRANCHES)
    config = write_config(tmp_path, ["cases"])
    done = CliRunner().invoke(cli, ["--config", str(config), "--json", "tools", "check"])
    (report,) = json.loads(done.stdout)["tools"]
    assert (done.exit_code, tuple(report["providers"])) == (0, LINT_PROFILES)
    assert {name: fit["ok"] for name, fit in report["providers"].items()} == {
        "anthropic": False,
        "openai": False,
        "openai-strict": False,
        "gemini": False,
        "mcp": True,
    }
    assert report["providers"]["anthropic"]["problems"][0]["pointer"] == "/input_schema/anyOf"
    assert "withheld from anthropic: /input_schema/anyOf: " in _run(config, "check").stdout
