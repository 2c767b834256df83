"""``raw mcp`` itself, and programs that nobody here wrote."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from raw_exec.cli.main import cli
from requires import require
from toolbox import write_tool

from .program import RAW, ROOT, command, http_server
from .support import ECHO, TEXT, write_tools

SDK_CLIENT = Path(__file__).parent / "sdk_client.py"
NAMES = ["echo", "hang", "progress", "ask", "data", "guarded"]


def _run_sdk(root: Path, *target: str) -> dict[str, Any]:
    require("mcp", importlib.util.find_spec("mcp") is not None, "mcp is not installed")
    done = subprocess.run(
        [sys.executable, str(SDK_CLIENT), "auto", "legacy", "--", *target],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "MCP_TEST_CWD": str(root / "cwd")},
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_official_python_client_does_everything(tmp_path: Path, transport: str) -> None:
    """List, call, progress, cancel, questions and approval, in both eras."""
    write_tools(tmp_path)
    if transport == "stdio":
        seen = _run_sdk(tmp_path, *command(tmp_path))
    else:
        with http_server(tmp_path) as server:
            seen = _run_sdk(tmp_path, server.url)
    same = {
        "tools": NAMES,
        "echo": "hi",
        "data": {"a": 1},
        "wrong": [True, "invalid_arguments"],
        "unknown": -32602,
        "progress": [True, 2],
        "ask": {"name": "typed", "size": "s", "tags": ["a", "b"]},
        "guarded": "ok",
        "cancelled": True,
        "after": "bye",
        "unasked": ["interaction_unavailable", "approval_required"],
    }
    assert seen == {
        "auto": {"version": "2026-07-28", **same},
        "legacy": {"version": "2025-11-25", **same},
    }


def _initialize(url: str, token: str | None, **headers: str) -> urllib.request.Request:
    message = {"protocolVersion": "2025-11-25", "capabilities": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": message}
    sent = {"content-type": "application/json", **headers}
    if token is not None:
        sent["authorization"] = f"Bearer {token}"
    return urllib.request.Request(url, json.dumps(body).encode(), sent)  # noqa: S310


def _post(url: str, token: str | None = None, **headers: str) -> tuple[int, Any]:
    request = _initialize(url, token, **headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310
            return response.status, json.load(response)
    except urllib.error.HTTPError as exc:
        return exc.code, json.load(exc)


@pytest.mark.slow
def test_a_token_is_needed_where_one_is_set(tmp_path: Path) -> None:
    """An optional bearer token; origins that were allowed pass with it."""
    write_tools(tmp_path)
    token = "secret-" * 5
    env = {**os.environ, "MCP_TOKEN": token}
    options = ["--token-env", "MCP_TOKEN", "--origin", "https://app.example"]
    with http_server(tmp_path, *options, env=env) as server:
        url = server.url
        assert _post(url)[0] == 401
        assert _post(url, token + "x")[0] == 401
        status, answer = _post(url, token)
        assert (status, answer["result"]["protocolVersion"]) == (200, "2025-11-25")
        assert _post(url, token, origin="https://other.example")[0] == 403
        # A page that may ask may read the answer.
        allowed = _initialize(url, token, origin="https://app.example")
        with urllib.request.urlopen(allowed, timeout=20) as response:  # noqa: S310
            assert response.headers["access-control-allow-origin"] == "https://app.example"
            assert response.headers["access-control-expose-headers"] == "mcp-session-id"
        # A browser asks first, without the token, and lets the page read what it may.
        asking = urllib.request.Request(url, method="OPTIONS")  # noqa: S310
        asking.add_header("origin", "https://app.example")
        asking.add_header("access-control-request-headers", "content-type,Mcp-Param-City,x-other")
        with urllib.request.urlopen(asking, timeout=20) as response:  # noqa: S310
            assert response.status == 204
            assert response.headers["access-control-allow-origin"] == "https://app.example"
            allowed_headers = response.headers["access-control-allow-headers"].split(", ")
            assert {"authorization", "content-type", "Mcp-Param-City"} <= {*allowed_headers}
            assert "x-other" not in allowed_headers


WAIT = """
import os, time


def handler(args, context):
    open(os.path.join(context.cwd, "running"), "w").close()
    while not os.path.exists(os.path.join(context.cwd, "go")):
        time.sleep(0.01)
    return {"content": [{"type": "text", "text": "finished"}]}
"""


@pytest.mark.slow
def test_a_call_under_way_finishes_after_sigterm(tmp_path: Path) -> None:
    """No new connection is taken, and what was begun is answered."""
    write_tool(tmp_path, "wait", WAIT, language="python")
    write_tools(tmp_path, "wait")
    with http_server(tmp_path) as server, ThreadPoolExecutor() as pool:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "wait", "arguments": {}, "_meta": meta}
        headers = {
            "content-type": "application/json",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "wait",
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        request = urllib.request.Request(server.url, json.dumps(body).encode(), headers)  # noqa: S310
        answer = pool.submit(lambda: urllib.request.urlopen(request, timeout=30).read())  # noqa: S310
        while not (tmp_path / "cwd" / "running").exists():
            assert not answer.done()
        server.stop()
        while _accepts(server.url):
            assert not answer.done()
        (tmp_path / "cwd" / "go").touch()
        assert json.loads(answer.result())["result"]["content"][0]["text"] == "finished"


def _accepts(url: str) -> bool:
    port = int(url.rpartition(":")[2].partition("/")[0])
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (["--token-env", "X"], 2, "need --http"),
        (["--http", "0", "--token-env", "RAW_NO_SUCH"], 2, "16 printable"),
        (["--http", "0", "--token-file", "/no/such"], 2, "can not be read"),
        (["--http", "0", "--host", "0.0.0.0"], 2, "--token-file"),
        (["--cwd", "/no/such"], 2, "/no/such"),
    ],
)
def test_what_can_not_be_served_is_said(
    tmp_path: Path, options: list[str], status: int, text: str
) -> None:
    """Security: other machines need a token. Every error says what to do."""
    write_tools(tmp_path)
    arguments = command(tmp_path, *options)[len(RAW) :]
    done = CliRunner().invoke(cli, arguments)
    assert (done.exit_code, text in done.stderr, done.stdout) == (status, True, ""), done.stderr


LOUD = """
import os, sys

print("printed at import")
os.write(1, b"written at import\\n")


def handler(args, context):
    print("printed")
    os.write(1, b"written\\n")
    os.write(2, b"written\\n")
    return {"content": [{"type": "text", "text": sys.stdin.read() or "nothing to read"}]}
"""


def _lines(*messages: dict[str, Any]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


INITIALIZE = {
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}},
}


def test_a_handler_can_neither_write_to_the_client_nor_read_from_it(tmp_path: Path) -> None:
    """A server that prints logs to standard output breaks its client."""
    write_tool(tmp_path, "loud", LOUD, language="python")
    write_tools(tmp_path, "loud")
    process = subprocess.Popen(
        command(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    call = {"id": 1, "method": "tools/call", "params": {"name": "loud", "arguments": {}}}
    process.stdin.write(_lines(INITIALIZE, call))
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    rest, log = process.communicate(timeout=30)  # closes its input
    assert (process.returncode, rest, log) == (0, "", "")
    assert answers[1]["result"]["content"] == [{"type": "text", "text": "nothing to read"}]


CLAIMING = """
import os, subprocess
from raw_exec.adapters.mcp_server.pipes import claimed_stdio

with claimed_stdio() as (incoming, outgoing):
    print("stray", flush=True)
    subprocess.run(["echo", "child"], check=True)
    os.write(outgoing, b"answer to " + os.read(incoming, 100) + os.read(0, 100))
print(" after")
"""


def test_nothing_else_in_the_server_reaches_its_client() -> None:
    """No library and no child: what they print is standard error, and they read nothing."""
    done = subprocess.run(
        [sys.executable, "-c", CLAIMING],
        input="request",
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("answer to request after\n", "stray\nchild\n")


@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
def test_the_server_ends_with_its_client_and_leaves_nothing(tmp_path: Path, how: str) -> None:
    """End of input aborts what runs, reaps it, and exits 0."""
    write_tools(tmp_path)
    process = subprocess.Popen(
        command(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    assert process.stdin is not None
    call = {"id": 1, "method": "tools/call", "params": {"name": "hang", "arguments": {}}}
    process.stdin.write(_lines(INITIALIZE, call))
    process.stdin.flush()
    while not (tmp_path / "cwd" / "running").exists():
        assert process.poll() is None
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    if how == "SIGTERM":
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == (0 if how == "end of input" else 130)
    assert len(out.splitlines()) == 1
    assert not [child for child in children if child.is_running()]


def test_requests_can_be_piped_in_from_a_file(tmp_path: Path) -> None:
    """Ours: for a look at what a client would be told."""
    write_tools(tmp_path)
    requests = tmp_path / "requests"
    requests.write_text(_lines(INITIALIZE, {"id": 1, "method": "tools/list"}))
    with requests.open() as source, (tmp_path / "answers").open("w+") as answers:
        done = subprocess.run(
            command(tmp_path), stdin=source, stdout=answers, cwd=ROOT, timeout=60, check=False
        )
        answers.seek(0)
        told = [json.loads(line) for line in answers]
    assert done.returncode == 0
    assert [tool["name"] for tool in told[1]["result"]["tools"]] == NAMES


def test_no_sdk_is_imported() -> None:
    """Ours: the official one takes over a second."""
    code = (
        "import sys\n"
        "import raw_exec.adapters.mcp_server, raw_exec.adapters.mcp_server.http_server\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('mcp', 'mcp_types')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.stdout == "[]\n", done.stderr


def test_history_keeps_what_clients_did(tmp_path: Path) -> None:
    """--history: every call, also of tools without panels."""
    write_tool(tmp_path, "echo", ECHO, language="python", schema=TEXT)
    write_tools(tmp_path)
    history = tmp_path / "history.db"
    process = subprocess.Popen(
        command(tmp_path, "--history", str(history)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    arguments = {"name": "echo", "arguments": {"text": "kept"}}
    process.stdin.write(_lines(INITIALIZE, {"id": 1, "method": "tools/call", "params": arguments}))
    process.stdin.flush()
    for _ in range(2):
        process.stdout.readline()
    process.communicate(timeout=30)
    with closing(sqlite3.connect(history)) as file:
        rows = file.execute("SELECT name, is_error FROM calls").fetchall()
    assert rows == [("echo", 0)]
