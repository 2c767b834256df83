"""The public ``sufleur`` CLI, unmodified, does all its work against our server.

It is somebody else's program: it is installed from PyPI for the test, and only run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from foreign import foreign_program
from raw_exec.contracts import service as registry
from raw_exec.contracts.model import Principal, Visibility
from raw_exec.contracts.store import open_store

VERSION = "0.9.0"
USER = "me@acme.test"
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def sufleur(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the public CLI: ``$SUFLEUR``, or one installed into a scratch environment."""
    return foreign_program(tmp_path_factory, "sufleur", f"sufleur-cli=={VERSION}")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'registry.db'}"
    return str(request.getfixturevalue("postgres_url"))


def _raw(*args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "raw_exec", "registry", *args],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def _server(database: str) -> Iterator[str]:
    """Set a registry up with the documented commands, serve it, and yield its address."""
    _raw("user", "add", USER, "--db", database)
    for name in ("acme", "vendor"):
        _raw("workspace", "add", name, "--owner", USER, "--db", database)
        _raw("workspace", "set", name, "--cli-publishing", "on", "--db", database)
    process = subprocess.Popen(
        [sys.executable, "-m", "raw_exec", "registry", "serve", "--db", database, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        _, log = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in log


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_command_in_scope_succeeds(
    shared: Path, sufleur: Path, database: str, tmp_path: Path
) -> None:
    """The acceptance script ends with BAD=0, on SQLite and on PostgreSQL."""
    script = shared / "acceptance" / "sufleur_cli.sh"
    raw = shutil.which("raw", path=str(Path(sys.executable).parent)) or (
        f"cd {ROOT} && {sys.executable} -m raw_exec"
    )
    approve = f"{raw} registry device approve --db {database} --user {USER}"
    with _server(database) as url:
        done = subprocess.run(
            ["bash", str(script), url, approve],
            capture_output=True,
            text=True,
            env={**os.environ, "SUFLEUR": str(sufleur), "TMPDIR": str(tmp_path)},
            timeout=280,
        )
    assert (done.stdout.splitlines()[-1].split()[-1], done.returncode) == ("BAD=0", 0), done.stdout


@dataclass
class PublicCli:
    """The public CLI with a home of its own, logged in by file."""

    program: Path
    home: Path
    url: str

    def log_in(self, token: str, key_id: str) -> None:
        folder = self.home / ".config" / "sufleur"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = f"api_base: {self.url}\napi_key: {token}\nuser_id: u\nkey_id: {key_id}\n"
        (folder / "credentials.yaml").write_text(text)

    def __call__(self, *args: str) -> tuple[int, str]:
        """Run a command; return its status and what it said on either stream."""
        done = subprocess.run(
            [str(self.program), *args],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=self.home,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "XDG_CONFIG_HOME": str(self.home / ".config"),
                "SUFLEUR_ENDPOINT": f"{self.url}/graphql",
            },
            timeout=60,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_refusals_reach_the_user_of_the_public_cli(sufleur: Path, tmp_path: Path) -> None:
    """Registry wire interface §1.3: what it prints for each kind of answer."""
    database = str(tmp_path / "registry.db")
    home = tmp_path / "user"
    home.mkdir()
    with _server(database) as url, open_store(database) as store:
        operator = Principal.operator()
        made = store.write(lambda s: registry.create_key(s, operator, email=USER))
        cli = PublicCli(sufleur, home, url)
        cli.log_in(made.token, made.key.id)
        assert cli("tool", "create", "@acme/fetch-page")[0] == 0

        status, text = cli("tool", "get", "@acme/gone")
        assert (status, "graphql error: tool @acme/gone does not exist" in text) == (1, True)
        status, text = cli("tool", "version", "get", "@acme/fetch-page@9.9.9")
        assert (status, 'no version of tool "fetch-page" matches "9.9.9"' in text) == (1, True)
        status, text = cli("tool", "version", "get", "@acme/fetch-page@bogus!")
        assert (status, "can not be read; write for example 1.2.0" in text) == (1, True)
        status, text = cli("tool", "list", "@Acme")
        assert (status, "workspace name 'Acme' is not allowed" in text) == (1, True)

        _raw("workspace", "set", "acme", "--cli-publishing", "off", "--db", database)
        status, text = cli("tool", "version", "publish", "@acme/fetch-page", "1.0.0", "--json")
        assert (status, '"code":"CLI_PUBLISHING_DISABLED"' in text) == (1, True)
        _raw("workspace", "set", "acme", "--cli-publishing", "on", "--db", database)
        assert cli("tool", "version", "publish", "@acme/fetch-page", "1.0.0")[0] == 0
        status, text = cli("tool", "version", "publish", "@acme/fetch-page", "1.0.0")
        assert (status, "already published" in text) == (1, True)

        big = home / "big.json"
        big.write_text('{"type":"object","properties":{},"description":"%s"}' % ("x" * 5_000_000))
        assert cli("tool", "version", "draft", "@acme/fetch-page")[0] == 0
        status, text = cli("tool", "schema", "set", "@acme/fetch-page@draft", "--file", str(big))
        assert (status, "graphql error: the request has more than" in text) == (1, True)

        _raw("key", "revoke", made.key.id, "--db", database)
        status, text = cli("me")
        assert (status, "stored credentials are no longer valid" in text) == (1, True)
        status, text = cli("logout")
        assert (status, "no longer valid on the server" in text) == (0, True)


@pytest.mark.slow
def test_a_prompt_is_installed_anonymously_once_it_is_public(sufleur: Path, tmp_path: Path) -> None:
    """Registry wire interface §2.5: without a key, only what is public is there."""
    database = str(tmp_path / "registry.db")
    home = tmp_path / "user"
    home.mkdir()
    (home / "sufleur.yaml").write_text(
        "prompts: {}\noutput:\n    language: python\n    file: ./generated/prompts.py\n"
    )
    operator = Principal.operator()
    with _server(database) as url, open_store(database) as store:
        for operation, args in (
            (registry.create_tool, ("acme", "t")),
            (registry.publish_tool_version, ("acme", "t", "1.0.0")),
            (registry.create_prompt, ("acme", "p")),
        ):
            store.write(lambda s, f=operation, a=args: f(s, operator, *a))
        pin = {"tool_workspace": "acme", "tool_name": "t"}
        store.write(lambda s: registry.link_tool(s, operator, "acme", "p", "draft", **pin))
        store.write(lambda s: registry.publish_prompt_version(s, operator, "acme", "p", "1.0.0"))
        cli = PublicCli(sufleur, home, url)
        status, text = cli("add", "@acme/p", "^1.0.0")
        assert (status, "prompts not found: p" in text) == (1, True)
        for change, name in (
            (registry.set_tool_visibility, "t"),
            (registry.set_prompt_visibility, "p"),
        ):
            store.write(lambda s, f=change, n=name: f(s, operator, "acme", n, Visibility.PUBLIC))
        status, text = cli("add", "@acme/p", "^1.0.0")
        assert status == 0, text
        assert cli("install", "--frozen")[0] == 0
        assert cli("add", "@acme/+group")[0] == 1
