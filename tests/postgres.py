"""PostgreSQL to test with, when its server is installed: one server for the whole run."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from requires import require

__all__ = ["new_postgres_url", "postgres_server", "postgres_url"]

_TOOLS = ("initdb", "pg_ctl")


def _find_postgres() -> Path | None:
    """Return the folder of the server's programs; Debian keeps them out of PATH."""
    found = [shutil.which(name) for name in _TOOLS]
    if all(found):
        return Path(str(found[0])).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((one for one in versions if all((one / n).exists() for n in _TOOLS)), None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Run a server of our own on loopback, as an ordinary user, and return its URL."""
    programs = _find_postgres()
    require("postgres", programs is not None, "PostgreSQL's server is not installed")
    assert programs is not None
    # Not below pytest's folder: only root may enter that.
    root = Path(tempfile.mkdtemp(prefix="raw-tests-postgres-", dir="/tmp"))
    user: str | None = None
    if os.geteuid() == 0:
        names = {entry.pw_name for entry in pwd.getpwall()}
        user = next((name for name in ("postgres", "nobody") if name in names), None)
        require("postgres", user is not None, "there is no ordinary user to run PostgreSQL as")
        shutil.chown(root, user)
    data, port = root / "data", _free_port()

    def run(*command: str) -> None:
        subprocess.run(
            [str(programs / command[0]), *command[1:]],
            check=True,
            cwd=root,
            user=user,
            group=pwd.getpwnam(user).pw_gid if user else None,
            extra_groups=[] if user else None,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": str(root)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=100,
        )

    try:
        run("initdb", "-D", str(data), "-U", "registry", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {root} -c fsync=off"
        log = str(root / "log")
        run("pg_ctl", "-D", str(data), "-o", options, "-l", log, "-w", "-t", "60", "start")
        try:
            yield f"postgresql://registry@127.0.0.1:{port}"
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(root, ignore_errors=True)


_DATABASES = itertools.count()


@pytest.fixture
def new_postgres_url(postgres_server: str) -> Callable[[], str]:
    """Return a function that makes an empty database and returns its URL."""
    import psycopg

    def new() -> str:
        name = f"registry_{next(_DATABASES)}"
        with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
        return f"{postgres_server}/{name}"

    return new


@pytest.fixture
def postgres_url(new_postgres_url: Callable[[], str]) -> str:
    """Return the URL of an empty database."""
    return new_postgres_url()
