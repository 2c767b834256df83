"""``raw registry``: administration on the database itself, and the server as a process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raw_exec.cli.main import cli
from raw_exec.cli.registry_database import shown_database
from raw_exec.contracts import service as registry
from raw_exec.contracts.errors import Unauthenticated
from raw_exec.contracts.store import open_store

Run = Callable[..., Result]


@pytest.fixture
def run(url: str) -> Run:
    """Run ``raw registry …`` on an empty database, of each kind in turn."""

    def run(*args: str) -> Result:
        return CliRunner().invoke(cli, ["registry", *args, "--db", url], prog_name="raw")

    return run


def _json(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.output
    value: dict[str, object] = json.loads(result.stdout)
    return value


def _set_up(run: Run) -> None:
    for args in (
        ("user", "add", "me@acme.test"),
        ("user", "add", "You@acme.test"),
        ("workspace", "add", "@acme", "--owner", "me@acme.test", "--display-name", "Acme"),
    ):
        result = run(*args)
        assert result.exit_code == 0, result.output


def test_a_registry_is_set_up_from_nothing(run: Run) -> None:
    """Each command with --db, names of workspaces with and without the @."""
    _set_up(run)
    listed = _json(run("workspace", "list", "--json"))["workspaces"]
    assert [(one["name"], one["cli_publishing"], one["display_name"]) for one in listed] == [
        ("acme", False, "Acme")
    ]
    changed = run("workspace", "set", "acme", "--cli-publishing", "on", "--display-name", "")
    assert changed.stdout == "workspace @acme: publishing from command lines is on\n"
    (after,) = _json(run("workspace", "list", "--json"))["workspaces"]
    assert (after["cli_publishing"], after["display_name"]) == (True, None)
    _json(run("workspace", "set", "@acme", "--cli-publishing", "off", "--json"))
    assert "off" in run("workspace", "list").stdout

    joined = run("member", "set", "@acme", "you@acme.test", "--role", "admin")
    assert joined.stdout == "you@acme.test is admin of @acme\n"
    members = _json(run("member", "list", "acme", "--json"))["members"]
    assert [(one["user"]["email"], one["role"]) for one in members] == [
        ("me@acme.test", "OWNER"),
        ("you@acme.test", "ADMIN"),
    ]
    assert _json(run("member", "remove", "acme", "you@acme.test", "--json")) == {"removed": True}
    assert "was no member" in run("member", "remove", "acme", "you@acme.test").stdout
    assert "me@acme.test" in run("member", "list", "acme").stdout
    users = _json(run("user", "list", "--json"))["users"]
    assert [one["email"] for one in users] == ["me@acme.test", "you@acme.test"]
    assert "you@acme.test" in run("user", "list").stdout


def test_keys_are_shown_once_and_revoked_by_id(run: Run, url: str) -> None:
    """The token alone on standard output, so that a script can take it."""
    _set_up(run)
    made = run("key", "create", "--user", "me@acme.test", "--label", "ci", "--days", "1")
    token = made.stdout.strip()
    assert token.startswith("rxu_")
    other = _json(run("key", "create", "--workspace", "@acme", "--json"))
    assert str(other["token"]).startswith("rxw_")
    with open_store(url) as store:
        who = store.read(lambda s: registry.authenticate(s, token, client="cli"))
        assert who.user_id is not None
    listed = run("key", "list")
    assert token not in listed.stdout
    keys = _json(run("key", "list", "--json"))["keys"]
    (mine,) = [one for one in keys if one["label"] == "ci"]
    assert mine["expires_at"] is not None
    assert run("key", "revoke", mine["id"]).stdout == "revoked\n"
    assert run("key", "revoke", mine["id"]).stdout == "this key was revoked already\n"
    assert "revoked" in run("key", "list").stdout
    only = _json(run("key", "list", "--workspace", "acme", "--json"))["keys"]
    assert [one["id"] for one in only] == [other["id"]]
    with open_store(url) as store, pytest.raises(Unauthenticated):
        store.read(lambda s: registry.authenticate(s, token, client="cli"))


def test_device_logins_are_answered(run: Run, url: str) -> None:
    """The code in any spelling a person may type."""
    _set_up(run)
    with open_store(url) as store:
        first = store.write(lambda s: registry.start_device_login(s, "x"))
        second = store.write(lambda s: registry.start_device_login(s, "y"))
        typed = first.user_code.lower().replace("-", " ")
        done = run("device", "approve", "--user", "me@acme.test", typed)
        assert done.exit_code == 0, done.output
        assert _json(run("device", "deny", second.user_code, "--json")) == {"denied": True}
        polled = [
            store.write(lambda s, code=one.device_code: registry.poll_device(s, code)).status
            for one in (first, second)
        ]
    assert polled == ["granted", "access_denied"]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("user", "add", "me@acme.test"), "name_taken"),
        (("user", "add", "not an address"), "email"),
        (("workspace", "add", "Acme", "--owner", "me@acme.test"), "workspace_name"),
        (("workspace", "add", "acme", "--owner", "me@acme.test"), "name_taken"),
        (("workspace", "add", "b", "--owner", "nobody@acme.test"), "user_unknown"),
        (("workspace", "set", "gone", "--cli-publishing", "on"), "workspace_unknown"),
        (("workspace", "set", "acme"), "usage"),
        (("member", "set", "acme", "me@acme.test", "--role", "member"), "last_owner"),
        (("member", "remove", "acme", "me@acme.test"), "last_owner"),
        (("device", "approve", "--user", "me@acme.test", "BCDF-GHJK"), "device_code_unknown"),
        (("device", "approve", "BCDF-GHJK"), "usage"),
        (("key", "create"), "usage"),
        (("key", "create", "--user", "me@acme.test", "--workspace", "acme"), "usage"),
        (("key", "revoke", "key_gone"), "key_id_unknown"),
    ],
)
def test_a_refused_command_says_why_and_does_not_exit_with_zero(
    tmp_path: Path, args: tuple[str, ...], code: str
) -> None:
    """Our choice: one JSON error on standard output, as everywhere in raw."""
    database = str(tmp_path / "r.db")

    def run(*args: str) -> Result:
        return CliRunner().invoke(cli, ["registry", *args, "--db", database], prog_name="raw")

    _set_up(run)
    result = run(*args, "--json")
    error = json.loads(result.stdout)["error"]
    assert (error["code"], bool(error["message"])) == (code, True)
    assert result.exit_code in ((2,) if code == "usage" else (3, 8))


def test_the_database_is_named_by_option_environment_or_default(tmp_path, monkeypatch) -> None:
    """Our choice: one place for everything of a user's registry."""

    def add(*args: str) -> None:
        result = CliRunner().invoke(
            cli, ["registry", "user", "add", "a@b.test", *args], prog_name="raw"
        )
        assert result.exit_code == 0, result.output

    monkeypatch.delenv("RAW_REGISTRY_DB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    add()
    monkeypatch.setenv("RAW_REGISTRY_DB", str(tmp_path / "env.db"))
    add()
    add("--db", f"sqlite:///{tmp_path / 'option.db'}")
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.db"))
    assert found == ["data/raw/registry.db", "env.db", "option.db"]
    assert (tmp_path / "env.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("url", ["mysql://h/d", "sqlite://", "postgresql://u:hunter2@/x?y=%zz"])
def test_a_database_address_that_can_not_be_used_is_told_without_its_password(url) -> None:
    """Security: addresses hold passwords."""
    result = CliRunner().invoke(cli, ["registry", "user", "list", "--db", url], prog_name="raw")
    assert result.exit_code != 0
    assert "hunter2" not in result.output


def test_an_address_is_shown_without_its_password() -> None:
    """Security: the server says on standard error what it serves."""
    shown = shown_database("postgresql://u:hunter2@h/d")
    assert shown == "postgresql://u:***@h/d"
    assert shown_database("/x/r.db") == "/x/r.db"


@contextmanager
def _serving(database: Path, *args: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "raw_exec", "registry", "serve", "--db", str(database), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


def _post(url: str, body: object) -> object:
    request = urllib.request.Request(  # noqa: S310 - loopback
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.loads(answer.read())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_server_listens_on_loopback_and_stops_on_a_signal(tmp_path, number) -> None:
    """Its address is the only line on standard output."""
    with _serving(tmp_path / "r.db", "--port", "0") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        answer = _post(f"{url}/graphql", {"query": "{ __typename }"})
        assert answer == {"data": {"__typename": "Query"}}
        login = _post(f"{url}/oauth/device/code", {"deviceLabel": "x"})
        assert login["verificationUri"] == f"{url}/device"
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert err.endswith("stopped\n")
    assert "Traceback" not in err


def test_the_server_s_own_words_as_json_and_behind_a_proxy(tmp_path) -> None:
    """One JSON value once it is ready."""
    options = ("--port", "0", "--json", "--public-url", "https://registry.test/x/")
    with _serving(tmp_path / "r.db", *options) as (_, line):
        ready = json.loads(line)
        login = _post(f"{ready['url']}/oauth/device/code", {})
    assert ready == {
        "url": ready["url"],
        "graphql": f"{ready['url']}/graphql",
        "public_url": "https://registry.test/x",
    }
    assert login["verificationUri"] == "https://registry.test/x/device"


def test_a_port_that_is_taken_is_told(tmp_path) -> None:
    """Our choice: a mistake in the configuration, exit status 2."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        database = str(tmp_path / "r.db")
        args = ["registry", "serve", "--db", database, "--port", port, "--json"]
        result = CliRunner().invoke(cli, args, prog_name="raw")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "address_unusable"


def test_administration_goes_on_while_a_server_runs(tmp_path) -> None:
    """Both work on the database; a revoked key stops working at once."""
    database = tmp_path / "r.db"

    def run(*args: str) -> Result:
        return CliRunner().invoke(cli, ["registry", *args, "--db", str(database)], prog_name="raw")

    with _serving(database, "--port", "0") as (_, url):
        _set_up(run)
        made = _json(run("key", "create", "--user", "me@acme.test", "--json"))
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{url}/graphql",
            b'{"query": "{ me { email } }"}',
            {"Content-Type": "application/json", "Authorization": f"Bearer {made['token']}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            assert json.loads(answer.read()) == {"data": {"me": {"email": "me@acme.test"}}}
        run("key", "revoke", str(made["id"]))
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=30)  # noqa: S310
        assert caught.value.code == 401
        caught.value.close()


def test_help_imports_nothing_of_the_extra() -> None:
    """Heavy packages only when they are used."""
    code = (
        "import sys\n"
        "from raw_exec.cli.main import cli\n"
        "for args in (['registry', '--help'], ['registry', 'serve', '--help'],\n"
        "             ['registry', 'key', 'create', '--help']):\n"
        "    try: cli.main(args)\n"
        "    except SystemExit as exc: assert exc.code == 0, exc.code\n"
        "heavy = {'sqlalchemy', 'ariadne', 'graphql', 'starlette', 'hypercorn', 'trio'}\n"
        "print('loaded', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "loaded []"


def test_a_missing_package_is_told_with_what_to_install(monkeypatch, tmp_path) -> None:
    """The registry is an extra."""
    monkeypatch.setitem(sys.modules, "raw_exec.contracts.server", None)
    args = ["registry", "serve", "--db", str(tmp_path / "r.db"), "--json"]
    result = CliRunner().invoke(cli, args, prog_name="raw")
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"]) == (2, "extra_missing")
    assert error["hint"] == "pip install 'raw-exec[contracts]'"
