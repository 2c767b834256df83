"""``raw`` with tools of MCP servers: list, check, explain, call, definitions, config list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raw_exec.cli.main import cli
from tests.mcp_client.support import FIXTURE, fixture_server, mcp_config

SECRET = "literal-4711-secret"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Two servers, one of which fails; and a folder tool between them."""
    servers = {
        "s": fixture_server("bad-tools", env={"KEY": SECRET}, sandbox="readonly"),
        "bad": fixture_server("exit"),
    }
    tools = ["mcp/s/echo", "builtin/read_file", "mcp/bad/echo", "mcp/s/remote_ref", "mcp/s/add"]
    config = mcp_config(tmp_path, tools, servers)
    assert config.path is not None
    return config.path


def raw(config: Path, *args: str) -> Result:
    result = CliRunner().invoke(cli, ["--config", str(config), *args], prog_name="raw")
    assert SECRET not in result.output
    return result


def raw_json(config: Path, *args: str) -> Any:
    return json.loads(raw(config, "--json", *args).stdout)


def test_list_shows_what_is_there_and_why_the_rest_is_not(config: Path) -> None:
    """The order is that of the configuration; a reason is a warning and a field."""
    data = raw_json(config, "tools", "list")
    assert data["tools"][0]["identity"] == "mcp/s/echo", data["missing"]
    assert [tool["identity"] for tool in data["tools"]] == [
        *("mcp/s/echo", "builtin/read_file", "mcp/s/add")
    ]
    echo = data["tools"][0]
    assert (echo["name"], echo["language"], echo["profile"]) == ("s__echo", "mcp", "readonly")
    assert (echo["version"], echo["folder"]) == ("9.8.7", "mcp.servers.s")
    reasons = {tool["identity"]: tool["reason"] for tool in data["missing"]}
    assert "exited with status 3" in reasons["mcp/bad/echo"]
    assert "/inputSchema/properties/x/$ref" in reasons["mcp/s/remote_ref"]


def test_list_prints_a_table_and_warns(config: Path) -> None:
    """For people: the reason on standard error, beside the table."""
    shown = raw(config, "tools", "list")
    assert "unavailable" in shown.stdout
    assert "mcp/bad/echo is withheld" in shown.stderr
    assert shown.exit_code == 0


def test_check_reports_each_selected_tool(config: Path) -> None:
    """Exit status 3; the definition's problems have pointers."""
    done = raw(config, "--json", "tools", "check")
    assert done.exit_code == 3
    reports = {report["target"]: report for report in json.loads(done.stdout)["tools"]}
    assert list(reports) == [
        *("mcp/s/echo", "builtin/read_file", "mcp/bad/echo", "mcp/s/remote_ref", "mcp/s/add")
    ]
    assert reports["mcp/s/echo"]["ok"]
    assert reports["mcp/s/echo"]["providers"]["anthropic"]["ok"]
    (problem,) = reports["mcp/s/remote_ref"]["problems"]
    assert problem["pointer"] == "/inputSchema/properties/x/$ref"
    assert "status 3" in reports["mcp/bad/echo"]["problems"][0]["message"]


def test_explain_prints_the_plan_of_the_server(config: Path, tmp_path: Path) -> None:
    """What the server's process may do, its own files, and the rules about the tool."""
    options = ("--cwd", str(tmp_path), "--path", "/etc/shadow", "--path", str(FIXTURE))
    data = raw_json(config, "tools", "explain", "s__echo", *options)
    assert data["plan"]["profile"] == "readonly"
    assert data["plan"]["read"] == [str(tmp_path)]
    assert data["plan"]["network"] == "none"
    assert data["server"]["name"] == "s"
    assert str(FIXTURE) in data["server"]["files"]
    assert [path["read"] for path in data["paths"]] == [False, True]
    shown = raw(config, "tools", "explain", "mcp/s/echo", "--args", '{"text": 5}')
    assert "server:   s, stdio" in shown.stdout
    assert "invalid_arguments" in shown.stdout
    refused = raw(config, "tools", "explain", "bad__echo")
    assert refused.exit_code == 2
    assert "exited with status 3" in refused.stderr


def test_call_makes_a_real_call_and_says_what_is_unavailable(config: Path) -> None:
    """By model-visible name or identity; exit status 5 for a server that failed."""
    done = raw(config, "tools", "call", "mcp/s/echo", "--args", '{"text": "hi"}')
    assert (done.exit_code, done.stdout) == (0, "hi\n")
    refused = raw(config, "--json", "tools", "call", "bad__echo")
    assert refused.exit_code == 5
    assert json.loads(refused.stdout)["code"] == "mcp_unavailable"


def test_definitions_are_what_servers_say_now(config: Path) -> None:
    """Exit status 3, since tools are withheld; the others are printed."""
    done = raw(config, "tools", "definitions", "--for", "openai")
    assert done.exit_code == 3
    names = [tool["function"]["name"] for tool in json.loads(done.stdout)]
    assert names == ["s__echo", "read_file", "s__add"]
    assert "mcp/bad/echo is withheld" in done.stderr


def test_config_list_starts_no_server(tmp_path: Path) -> None:
    """Everything is checked statically; names are known without asking."""
    mark = tmp_path / "started"
    program = tmp_path / "server"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    server = {
        "command": "./server",
        "args": [SECRET],
        "env": {"KEY": SECRET, "TOKEN": {"var": "t"}},
    }
    web = {"url": "https://127.0.0.1:1/mcp", "headers": {"Authorization": SECRET}}
    source = {"kind": "literal", "value": SECRET}
    config = mcp_config(
        tmp_path,
        ["mcp/s/a.b", "mcp/web/x"],
        {"s": server, "web": web},
        vars={"t": {"description": "d", "access": "use", "source": source}},
    )
    assert config.path is not None
    data = raw_json(config.path, "config", "list")
    assert [tool["name"] for tool in data["tools"]] == ["s__a_b_4a2a26a5", "web__x"]
    assert [tool["profile"] for tool in data["tools"]] == ["mcp-server", "remote"]
    assert data["mcp_servers"]["s"]["env"] == ["KEY", "TOKEN"]
    assert data["warnings"] == []
    assert "server not asked" in raw(config.path, "config", "list").stdout
    assert not mark.exists()
