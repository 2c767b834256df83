"""``raw serve`` as people run it: start, keys, signals, mistakes."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from click.testing import CliRunner, Result

from raw_exec.cli.main import cli

ROOT = Path(__file__).parents[3]


def _invoke(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args), prog_name="raw")


def _error(*args: str) -> tuple[int, str, str | None]:
    result = _invoke(*args, "--json")
    error = json.loads(result.stdout)["error"]
    return result.exit_code, error["code"], error["hint"]


@contextmanager
def _running(root: Path, *args: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    (root / "cwd").mkdir(exist_ok=True)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "raw_exec", "--config", str(root / "config.json")),
            *("serve", "--http", "0", "--cwd", str(root / "cwd"), *args),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        yield process, line.strip()
    finally:
        process.kill()
        process.communicate(timeout=60)


def _ask(
    url: str, method: str, path: str, body: Any = None, token: str | None = None
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(str(urlsplit(url).netloc), timeout=60)
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        connection.close()


ECHO = {"name": "echo", "arguments": {"text": "x"}}


def test_a_key_is_made_up_and_shown_once_and_sigterm_leaves_nothing(write, tmp_path) -> None:
    """Without --keys, a token on standard error; SIGTERM drains and ends with 0."""
    write("echo", "wait")
    with _running(tmp_path, "-q", "--drain-seconds", "0") as (process, url):
        assert process.stderr is not None
        token = process.stderr.readline().removeprefix("key: ").strip()
        assert _ask(url, "POST", "/v1/call", ECHO)[0] == 401
        status, result = _ask(url, "POST", "/v1/call", ECHO, token)
        assert (status, result["is_error"]) == (200, False)
        wait = {"name": "wait", "arguments": {"name": "a"}, "async": True}
        assert _ask(url, "POST", "/v1/call", wait, token)[0] == 202
        marker = tmp_path / "cwd" / "started-a"
        while not (marker.exists() and marker.read_text()):
            pass
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 2
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, output, errors) == (0, "", "")
        assert not any(child.is_running() for child in family)


def test_a_second_signal_ends_the_service_at_once(write, tmp_path) -> None:
    """Second signal; the launcher kills what runs."""
    write("wait")
    with _running(tmp_path, "--no-auth", "--drain-seconds", "600") as (process, url):
        wait = {"name": "wait", "arguments": {"name": "a"}, "async": True}
        assert _ask(url, "POST", "/v1/call", wait)[0] == 202
        marker = tmp_path / "cwd" / "started-a"
        while not (marker.exists() and marker.read_text()):
            pass
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        while _ask(url, "GET", "/readyz")[0] != 503:
            pass
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 130
        gone, alive = psutil.wait_procs(family, timeout=60)
        assert (len(gone), alive) == (len(family), [])


def test_keys_are_made_listed_and_removed(write, tmp_path) -> None:
    """``raw serve key new`` prints a key once; only its digest is kept."""
    write("echo")
    path = str(tmp_path / "keys.json")
    made = json.loads(_invoke("serve", "key", "new", "anna", "--keys", path, "--json").stdout)
    assert made["principal"] == "anna"
    assert made["token"] not in Path(path).read_text()
    plain = _invoke("serve", "key", "new", "ben", "--keys", path)
    assert plain.stdout.startswith("rxs_")
    listed = json.loads(_invoke("serve", "key", "list", "--keys", path, "--json").stdout)["keys"]
    assert [one["principal"] for one in listed] == ["anna", "ben"]
    assert "sha256" not in listed[0]
    assert "anna" in _invoke("serve", "key", "list", "--keys", path).stdout
    with _running(tmp_path, "--keys", path, "--json") as (process, line):
        told = json.loads(line)
        assert told["auth"] == "keys"
        assert _ask(told["url"], "POST", "/v1/call", ECHO, made["token"])[0] == 200
        removed = _invoke("serve", "key", "remove", "anna", "--keys", path)
        assert removed.stdout == f"removed {made['id']} of anna\n"
        assert _ask(told["url"], "POST", "/v1/call", ECHO, made["token"])[0] == 401
        assert _ask(told["url"], "POST", "/v1/call", ECHO, plain.stdout.strip())[0] == 200
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "rxs_" not in errors


def test_mistakes_are_told_before_anything_listens(write, tmp_path) -> None:
    """--no-auth on another host, keys that others read, an address that is taken."""
    write("echo")
    base = ("--config", str(tmp_path / "config.json"), "serve")
    assert _error(*base, "--no-auth")[:2] == (2, "usage")
    assert _error(*base, "--http", "0", "--keys", "x", "--no-auth")[:2] == (2, "usage")
    for more in (("--no-auth",), ()):
        status, code, hint = _error(*base, "--http", "0", "--host", "0.0.0.0", *more)
        assert (status, code) == (2, "keys_required")
        assert hint == "make one with: raw serve key new NAME --keys FILE"
    missing = str(tmp_path / "no.json")
    assert _error(*base, "--http", "0", "--keys", missing)[:2] == (2, "keys_unreadable")
    path = tmp_path / "keys.json"
    _invoke("serve", "key", "new", "anna", "--keys", str(path))
    path.chmod(0o644)
    assert _error(*base, "--http", "0", "--keys", str(path)) == (
        2,
        "keys_not_private",
        f"chmod 600 {path}",
    )
    path.chmod(0o600)
    host = ("--host", "192.0.2.1", "--keys", str(path))
    assert _error(*base, "--http", "0", *host)[:2] == (2, "address_unusable")
    where = str(tmp_path / "nowhere")
    assert _error(*base, "--http", "0", "--no-auth", "--cwd", where)[:2] == (2, "cwd_invalid")
    (tmp_path / "tools" / "echo" / "tool.json").write_text("{")
    wrong = _error(*base, "--http", "0", "--no-auth", "--cwd", str(tmp_path))
    assert wrong[:2] == (2, "tools_invalid")


@pytest.mark.parametrize(
    "args", [["serve", "--http", "0"], ["serve", "key", "list", "--keys", "x"]]
)
def test_a_missing_package_is_told_with_what_to_install(monkeypatch, args) -> None:
    """HTTP is an extra."""
    monkeypatch.setitem(sys.modules, "raw_exec.adapters.http", None)
    error = json.loads(_invoke(*args, "--json").stdout)["error"]
    assert (error["code"], error["hint"]) == ("extra_missing", "pip install 'raw-exec[http]'")


def test_help_imports_nothing_heavy() -> None:
    """``raw serve --help`` starts as quickly as ``raw --help``."""
    code = (
        "import sys\n"
        "from raw_exec.cli.main import cli\n"
        "for args in (['serve', '--help'], ['serve', 'key', 'new', '--help']):\n"
        "    try: cli.main(args)\n"
        "    except SystemExit as exc: assert exc.code == 0, exc.code\n"
        "heavy = {'starlette', 'hypercorn', 'trio', 'prometheus_client'}\n"
        "print('loaded', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.splitlines()[-1] == "loaded []"
