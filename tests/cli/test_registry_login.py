"""The same commands against a real server: log in, author, install, log out."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator

import pytest

TOOL, PROMPT = "@acme/fetch-page", "@acme/daily-brief"


@pytest.fixture(params=["sqlite", "postgres"])
def server(request, home, invoke) -> Iterator[tuple[str, str]]:
    """A registry with one user, served; its URL and its database, of each kind in turn."""
    if request.param == "postgres":
        db = str(request.getfixturevalue("postgres_url"))
    else:
        db = str(home.root / "served.db")
    for args in (
        ("user", "add", "ann@example.com"),
        ("workspace", "add", "acme", "--owner", "ann@example.com"),
    ):
        assert invoke("registry", *args, "--db", db).exit_code == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "raw_exec", "registry", "serve", "--db", db, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=home.env,
        cwd=home.work,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), db
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.slow
def test_everything_works_against_a_server_after_a_login(home, invoke, run, server) -> None:
    """Contract: device flow, then every command as with the file."""
    url, db = server

    login = subprocess.Popen(
        [sys.executable, "-m", "raw_exec", "registry", "login", url, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=home.env,
        cwd=home.work,
    )
    assert login.stderr is not None
    found = re.fullmatch(r"code: (\S+)\n", login.stderr.readline())
    assert found
    run("registry", "device", "approve", "--user", "ann@example.com", found[1], "--db", db)
    out, _ = login.communicate(timeout=30)
    assert (login.returncode, json.loads(out)["registry"]) == (0, url)
    kept = home.config_dir / "registry-credentials.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "token" not in json.loads(out)

    who = run("registry", "whoami")
    assert (who["registry"], who["user"]["email"]) == (url, "ann@example.com")
    assert who["user"]["memberships"] == [{"workspace": "acme", "role": "OWNER"}]
    assert invoke("registry", "whoami").stdout.endswith("@acme: owner\n")

    run("contract", "create", TOOL)
    (home.work / "s.json").write_text('{"type": "object", "properties": {}}')
    run("contract", "schema", "set", f"{TOOL}@draft", "--file", "s.json")
    refused = invoke("contract", "version", "publish", TOOL, "1.0.0", "--json")
    assert (refused.exit_code, json.loads(refused.stdout)["error"]["code"]) == (
        4,
        "CLI_PUBLISHING_DISABLED",
    )
    run("registry", "workspace", "set", "acme", "--cli-publishing", "on", "--db", db)
    run("contract", "version", "publish", TOOL, "1.0.0")
    run("prompt", "create", PROMPT)
    run("prompt", "tools", "add", f"{PROMPT}@draft", f"{TOOL}@^1")
    run("prompt", "version", "publish", PROMPT, "1.0.0")
    run("contract", "dump", f"{TOOL}@1.0.0", "--to", "d")
    run("prompt", "version", "dump", f"{PROMPT}@1.0.0", "--to", "p")
    run("add", PROMPT, "--output", "prompts.py")
    run("generate")
    lock = (home.work / "raw-contracts.lock.json").read_text()
    # The file and the server are one registry: the same digest.
    (home.work / "raw-contracts.lock.json").unlink()
    run("install", "--registry", db)
    assert (home.work / "raw-contracts.lock.json").read_text() == lock

    again = invoke("registry", "login", url)
    assert (again.exit_code, "logout" in again.stderr) == (2, True)
    assert run("registry", "logout")["key"] == "revoked"
    assert json.loads(kept.read_text()) == {"registries": {}}
    assert invoke("registry", "logout").exit_code == 2
    gone = invoke("contract", "get", TOOL, "--registry", url, "--json")
    assert json.loads(gone.stdout)["error"]["code"] == "tool_unknown"
    # Whoever is logged out is told why there is so little, and how to see more.
    assert f"raw registry login {url}" in gone.stderr
    assert "raw registry login" not in invoke("contract", "list", "@acme", "--registry", db).stderr


def test_a_login_to_another_machine_without_encryption_is_refused(invoke) -> None:
    """Security: unless it is asked for."""
    done = invoke("registry", "login", "http://192.0.2.1:1", "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["code"]) == (3, "plain_http")


def test_a_server_that_is_gone_is_told(invoke, monkeypatch) -> None:
    """And logging out of it is possible all the same."""
    from raw_exec.cli.registry_access import credentials
    from raw_exec.contracts.client import Credential

    url = "http://127.0.0.1:9"
    done = invoke("contract", "list", "@acme", "--registry", url, "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["code"]) == (
        8,
        "registry_unreachable",
    )
    credentials().add(url, Credential("k", "u", "key_1"))
    kept = invoke("registry", "logout")
    assert (kept.exit_code, "--force" in kept.stderr) == (8, True)
    assert credentials().find(url) is not None
    done = invoke("registry", "logout", "--force", "--json")
    assert json.loads(done.stdout) == {"registry": url, "key": "not revoked"}
    assert credentials().load() == {}
