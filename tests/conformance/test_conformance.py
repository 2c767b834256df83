"""MCP's own conformance suite, against fixture tools that the whole executor runs."""

from __future__ import annotations

import json
import shlex
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.adapters.mcp_server.program import ROOT, command, http_server

from .conftest import HERE

EXPECTED = HERE / "expected-failures"
INSPECTOR_FAILED = 5
"""The inspector's exit status when a tool says that it failed."""


def _warm_up(url: str, name: str) -> None:
    """Have a worker started: the suite gives some tools half a second, however busy we are."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": name, "arguments": {}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
    }
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        assert "result" in json.load(response)


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_what_a_revision_requires_is_met_but_for_what_is_listed(
    revision: str, node: Path, clients: Path, root: Path, tmp_path: Path
) -> None:
    """The run equals the list; an unexpected pass is a failure too."""
    suite = clients / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    with http_server(root) as server:
        for name in ("test_logging_tool", "test_streaming_elicitation"):
            _warm_up(server.url, name)
        done = subprocess.run(
            [
                *(node, suite, "server", "--url", server.url, "--requirements", revision),
                *("--expected-failures", EXPECTED / f"{revision}.yaml", "-o", tmp_path / "out"),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=110,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    # Enough was run that this means something.
    total = next(line for line in done.stdout.splitlines() if line.startswith("Total:"))
    assert int(total.split()[1]) >= {"2025-11-25": 50, "2026-07-28": 120}[revision], total


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_lists_and_calls(
    transport: str, node: Path, clients: Path, root: Path, tmp_path: Path
) -> None:
    """The tool that people look at servers with."""
    cli = clients / "node_modules" / ".bin" / "mcp-inspector"

    def inspect(*options: str, target: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [node, cli.resolve(), "--cli", *target, *options],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=60,
            env={"PATH": f"{node.parent}:/usr/bin:/bin"},
        )

    def check(target: list[str]) -> None:
        listed = inspect("--method", "tools/list", target=target)
        assert listed.returncode == 0, listed.stdout + listed.stderr
        names = [tool["name"] for tool in json.loads(listed.stdout)["tools"]]
        assert "test_simple_text" in names
        call = ["--method", "tools/call", "--tool-name"]
        called = inspect(*call, "test_header_tool", "--tool-arg", "region=eu", target=target)
        assert called.returncode == 0, called.stdout + called.stderr
        assert json.loads(called.stdout)["content"][0]["text"] == "eu: nothing"
        if transport == "http":
            failed = inspect(*call, "test_error_handling", target=target)
            assert failed.returncode == INSPECTOR_FAILED, failed.stdout + failed.stderr

    if transport == "stdio":
        # It takes --config for one of its own, wherever it stands.
        script = tmp_path / "serve"
        script.write_text(f"#!/bin/sh\nexec {shlex.join(command(root))}\n")
        script.chmod(0o755)
        check([str(script)])
    else:
        with http_server(root) as server:
            check([server.url, "--transport", "http"])


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_typescript_client_lists_and_calls(
    transport: str, node: Path, clients: Path, root: Path
) -> None:
    """The SDK that most applications use."""

    def run(target: list[str]) -> dict[str, object]:
        done = subprocess.run(
            [node, clients / "client.mjs", *target],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        seen: dict[str, object] = json.loads(done.stdout)
        return seen

    if transport == "stdio":
        seen = run(command(root))
    else:
        with http_server(root) as server:
            seen = run([server.url])
    document = json.loads((HERE / "config.json").read_text())
    selected = document["agents"]["conformance"]["tools"]["use"]
    assert seen == {
        "server": "raw-exec",
        "tools": [ref.removeprefix("agent/") for ref in selected],
        "text": "This is a simple text response for testing.",
        "image": "image/png",
        "failed": True,
        "data": {"email": "a@b.test"},
        "progress": [0, 50, 100],
    }
